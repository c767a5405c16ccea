/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Says what the daemon's reader of JVMs finds in a running one, for test-hotspot.py and by hand. Columns are
 * separated by tabs.
 *
 * usage: hotspot-dump layout PID           version, offsets, heaps, calls that it took to read them
 *        hotspot-dump code PID             for each compiled method: id, level, entry bci, address, code, end
 *                                          of code, name, signature
 *        hotspot-dump stack PID THREAD…    Java frames of threads (addresses of JavaThreads) that do not run:
 *                                          kind, name, file, line; `end` and how the walk ended
 *        hotspot-dump worker PID THREAD…   the same as stack, but a worker without rights names the frames
 *        hotspot-dump scopes PID           for each place of compiled code that has debug information: id,
 *                                          offset, and its frames name:line, the innermost first
 *        hotspot-dump leaves PID           reads lines: `method ADDRESS OFFSET…`, a compiled method and those of
 *                                          its places that are known without DebugNonSafepoints; then `pc
 *                                          ADDRESS…` in it. For each: pc, level, `short` or `-`, its frames
 *                                          name:bci by these places, and those of three of all places: the
 *                                          first at or after pc, the one before it, the one after it
 */
#include <elf.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/base/util/clock.h"
#include "core/base/util/macro.h"
#include "host/runtime/hotspot/hotspot-link.h"
#include "host/runtime/hotspot/hotspot-walk.h"
#include "host/service/run/worker-main.h"

enum { MAX_FRAMES = 4096, MAX_PLACES = 1 << 16, MAX_CODE = 1 << 20 };

typedef unsigned long long Wide;

/* Who names frames: a worker, or NULL. */
static HotspotLink *worker;
static HotspotLinks *links;
static ReaderLinks *readers;
static Zygotes *zygotes;
static HotspotOpened opened;            /* what the worker said first */

__attribute__((__constructor__)) static void become_zygote(int argc, char **argv) {
        if (argc == 1 && !strcmp(argv[0], ZYGOTE_NAME))
                zygote_serve(worker_main);
}

static void fail(const char *what) {
        fprintf(stderr, "hotspot-dump: %s\n", what);
        exit(1);
}

/* Opens libjvm.so of a process, and says where its start is mapped. */
static int open_libjvm(pid_t pid, uint64_t *biasp) {
        char path[64], line[4096], file[128];
        Wide start, end, offset;
        FILE *maps;
        int fd = -1;

        snprintf(path, sizeof(path), "/proc/%d/maps", (int)pid);
        maps = fopen(path, "r");
        if (!maps)
                fail("no such process");
        while (fd < 0 && fgets(line, sizeof(line), maps))
                if (strstr(line, "/libjvm.so") && sscanf(line, "%llx-%llx %*s %llx", &start, &end, &offset) == 3 &&
                    !offset) {
                        snprintf(file, sizeof(file), "/proc/%d/map_files/%llx-%llx", (int)pid, start, end);
                        fd = open(file, O_RDONLY | O_CLOEXEC);
                        *biasp = start;
                }
        fclose(maps);
        if (fd < 0)
                fail("no libjvm.so there");
        return fd;
}

static void print_layout(const Hotspot *hotspot) {
        const HotspotLayout *layout = hotspot_layout(hotspot);
        const HotspotCode *code = hotspot_code(hotspot);

        printf("java\t%u\n", layout->version);
        printf("calls\t%llu\n", (Wide)hotspot_memory_n_calls(hotspot_memory(hotspot)));
        for (size_t i = 0; i < sizeof(*layout); i += 4) {
                uint32_t word;

                memcpy(&word, (const uint8_t *)layout + i, 4);
                if (word)
                        printf("at %zu\toffset %u\tsize %u%s\n", i, word & 0xffff, word >> 16 & 0xff,
                               word >> 24 ? " signed" : "");
        }
        for (uint32_t i = 0; i < code->n_heaps; i++)
                printf("heap\t%llx\t%llx\tmap\t%llx\tlog2\t%u\n", (Wide)code->heaps[i].low,
                       (Wide)code->heaps[i].end, (Wide)code->heaps[i].segment_map,
                       code->heaps[i].log2_segment);
        printf("interpreter\t%llx\t%llx\n", (Wide)code->interpreter_low, (Wide)code->interpreter_high);
        printf("call stub\t%llx\n", (Wide)code->call_stub_return);
        printf("chunk\ttail\t%u\tparent\t%u\tsp\t%u\tbottom\t%u\tstack\t%u\n", layout->chunk.tail,
               layout->chunk.parent, layout->chunk.sp, layout->chunk.bottom, layout->chunk.stack);
}

/* The next compiled method. Return: false at the end. */
static bool next_method(const Hotspot *hotspot, HotspotCodeCursor *cursor, HotspotBlob *blob) {
        const HotspotReader *reader = hotspot_reader(hotspot);
        uint64_t address, found;

        while (!hotspot_code_next(hotspot_code(hotspot), hotspot_layout(hotspot), reader, cursor, &address)) {
                if (hotspot_blob_read(blob, hotspot_code(hotspot), hotspot_layout(hotspot), reader,
                                      address)) {
                        printf("unreadable\t%llx\n", (Wide)address);
                        continue;
                }
                if (hotspot_code_find(hotspot_code(hotspot), hotspot_layout(hotspot), reader,
                                      blob->code_end - 1, &found) ||
                    found != address)
                        printf("lost\t%llx\n", (Wide)address);
                if (blob->kind == HOTSPOT_COMPILED)
                        return true;
        }
        return false;
}

static void print_code(Hotspot *hotspot) {
        const HotspotReader *reader = hotspot_reader(hotspot);
        HotspotCodeCursor cursor = { 0 };
        HotspotBlob blob;

        while (next_method(hotspot, &cursor, &blob)) {
                _cleanup_(hotspot_method_freep) HotspotMethod *method = NULL;

                if (hotspot_method_new(&method, hotspot_layout(hotspot), reader, blob.method))
                        printf("nameless\t%u\t%llx\n", blob.compile_id, (Wide)blob.address);
                else
                        printf("%u\t%u\t%d\t%llx\t%llx\t%llx\t%s\t%s\n", blob.compile_id, blob.level,
                               blob.entry_bci, (Wide)blob.address, (Wide)blob.code, (Wide)blob.code_end,
                               method->name, method->signature);
        }
}

/* All questions of a second have a budget: what comes later is asked for again. */
static int ask_worker(const uint64_t *words, const HotspotFrames **namedp) {
        int r;

        for (int i = 0; (r = hotspot_link_frames(worker, words, namedp)) == HOTSPOT_E_LATER && i < 1000; i++)
                poll(NULL, 0, 10);
        return r;
}

static void print_frames(Hotspot *hotspot, const uint64_t *words) {
        static const char *const kinds[HOTSPOT_N_FRAME_KINDS] = { "interpreted", "compiled", "inlined", "stub",
                                                                  "compiled" };
        const HotspotFrames *named = NULL;
        HotspotFrames frames = { 0 };
        int r = worker ? ask_worker(words, &named) : hotspot_frames(hotspot, words, &frames);

        if (named)
                frames = *named;
        if (r) {
                printf("nameless\t%llx\t%llx\t%llx\n", (Wide)words[0], (Wide)words[1], (Wide)words[2]);
                return;
        }
        if (frames.is_short)
                printf("short\n");
        for (uint32_t i = 0; i < frames.n; i++)
                printf("%s\t%s\t%s\t%u\n", kinds[frames.frames[i].kind], frames.frames[i].name,
                       frames.frames[i].file, frames.frames[i].line);
}

static void print_stack(Hotspot *hotspot, uint64_t thread) {
        static const char *const ends[] = { "root", "native", "no block", "unreadable", "barrier", "malformed",
                                            "full" };
        static uint64_t words[MAX_FRAMES][HOTSPOT_WORDS];
        const HotspotReader *reader = hotspot_reader(hotspot);
        HotspotRegisters registers;
        HotspotWalkEnd end;
        uint32_t n;

        hotspot_begin(hotspot);
        printf("thread\t%llx\n", (Wide)thread);
        if (!hotspot_walk_start(&registers, hotspot_layout(hotspot), reader, thread)) {
                printf("end\tin Java\n");
                return;
        }
        end = hotspot_walk(words, MAX_FRAMES, &n, hotspot_code(hotspot), hotspot_layout(hotspot), reader,
                           thread, registers);
        for (uint32_t i = 0; i < n; i++)
                print_frames(hotspot, words[i]);
        hotspot_memory_allow(hotspot_memory(hotspot), UINT32_MAX);
        printf("end\t%s\n", ends[end]);
}

static void print_scopes(Hotspot *hotspot) {
        const HotspotReader *reader = hotspot_reader(hotspot);
        HotspotCodeCursor cursor = { 0 };
        HotspotFrames frames;
        HotspotBlob blob;

        while (next_method(hotspot, &cursor, &blob))
                for (uint64_t at = blob.pcs; at + 16 <= blob.pcs_end; at += 16) {
                        int32_t offset;

                        hotspot_memory_allow(hotspot_memory(hotspot), UINT32_MAX);

                        if (!hotspot_read(reader, at, &offset, sizeof(offset)) || offset < 0 ||
                            offset == INT32_MAX)
                                continue;
                        uint64_t pc = blob.code + (uint32_t)offset;
                        const uint64_t words[] = { (uint64_t)HOTSPOT_COMPILED << 56 | pc,
                                                   (uint64_t)blob.compile_id << 32 |
                                                           (uint32_t)(pc - blob.address),
                                                   blob.method };

                        printf("%u\t%d", blob.compile_id, offset);
                        if (hotspot_frames(hotspot, words, &frames) || frames.is_short)
                                printf("\tnameless");
                        else
                                for (uint32_t i = 0; i < frames.n; i++)
                                        printf("\t%s:%u", frames.frames[i].name, frames.frames[i].line);
                        printf("\n");
                }
}

/* What is read, but for a table of places that stands in for the method's own. */
typedef struct Places {
        const HotspotReader *reader;
        uint64_t at;                    /* where it seems to lie */
        uint32_t n;
        struct {
                int32_t offset, scope, object, flags;
        } places[MAX_PLACES];
} Places;

static bool read_beside(void *userdata, uint64_t address, void *to, size_t size) {
        const Places *places = userdata;
        uint64_t end = places->at + places->n * sizeof(places->places[0]);

        if (address < places->at || address >= end)
                return hotspot_read(places->reader, address, to, size);
        if (size > end - address)
                return false;
        memcpy(to, (const uint8_t *)places->places + (address - places->at), size);
        return true;
}

/* @offsets: text, of the places that stay. Both ends of the table do. */
static void choose_places(Places *places, const HotspotBlob *blob, char *offsets) {
        static bool is_chosen[MAX_CODE];

        memset(is_chosen, 0, sizeof(is_chosen));
        for (char *word = strtok(offsets, " \n"); word; word = strtok(NULL, " \n"))
                is_chosen[strtoul(word, NULL, 10) % MAX_CODE] = true;
        places->at = blob->pcs;
        places->n = 0;
        for (uint64_t at = blob->pcs; at + 16 <= blob->pcs_end && places->n < MAX_PLACES; at += 16) {
                int32_t offset;

                if (!hotspot_read(places->reader, at, &places->places[places->n], 16))
                        fail("places of a method");
                offset = places->places[places->n].offset;
                places->n += offset < 0 || offset == INT32_MAX || is_chosen[(uint32_t)offset % MAX_CODE];
        }
}

static void print_scope_names(const Hotspot *hotspot, const HotspotScope *scopes, uint32_t n) {
        for (uint32_t i = 0; i < n; i++) {
                _cleanup_(hotspot_method_freep) HotspotMethod *method = NULL;

                if (hotspot_method_new(&method, hotspot_layout(hotspot), hotspot_reader(hotspot),
                                       scopes[i].method))
                        printf("%s?:%d", i ? " " : "", scopes[i].bci);
                else
                        printf("%s%s%s:%d", i ? " " : "", method->name, method->signature, scopes[i].bci);
        }
}

static void print_place(const Hotspot *hotspot, const HotspotBlob *blob, int32_t offset) {
        const HotspotCompiled in = { hotspot_code(hotspot), hotspot_layout(hotspot), hotspot_reader(hotspot),
                                     blob };
        HotspotScope scopes[HOTSPOT_MAX_INLINED];
        uint32_t n;
        bool is_short;

        printf("\t");
        if (offset >= 0 && offset < INT32_MAX &&
            !hotspot_scopes_read(scopes, &n, &in, blob->code + (uint32_t)offset, &is_short))
                print_scope_names(hotspot, scopes, n);
}

/* The same pc by few places and by all: the first at or after it, the one before, and the one behind that. */
static void print_leaf(const Hotspot *hotspot, Places *places, const HotspotBlob *blob, uint64_t pc) {
        const HotspotReader few = { read_beside, places };
        int32_t before = -1, at = -1, after = -1, offset;
        HotspotScope scopes[HOTSPOT_MAX_INLINED];
        HotspotBlob own = *blob;
        const HotspotCompiled in = { hotspot_code(hotspot), hotspot_layout(hotspot), &few, &own };
        bool is_short;
        uint32_t n;

        own.pcs_end = own.pcs + places->n * sizeof(places->places[0]);
        if (hotspot_scopes_read(scopes, &n, &in, pc, &is_short))
                return;
        for (uint64_t place = blob->pcs; place + 16 <= blob->pcs_end && after < 0; place += 16) {
                if (!hotspot_read(hotspot_reader(hotspot), place, &offset, sizeof(offset)))
                        return;
                if (at >= 0)
                        after = offset;
                else if (offset >= 0 && blob->code + (uint32_t)offset >= pc)
                        at = offset;
                else
                        before = offset;
        }
        printf("%llx\t%u\t%s\t", (Wide)pc, blob->level, is_short ? "short" : "-");
        print_scope_names(hotspot, scopes, n);
        print_place(hotspot, blob, at);
        print_place(hotspot, blob, before);
        print_place(hotspot, blob, after);
        printf("\n");
}

static void print_leaves(Hotspot *hotspot) {
        static Places places;
        static char line[1 << 20];
        HotspotBlob blob;
        bool is_known = false;
        char *rest;

        places.reader = hotspot_reader(hotspot);
        while (fgets(line, sizeof(line), stdin)) {
                hotspot_memory_allow(hotspot_memory(hotspot), UINT32_MAX);
                if (!strncmp(line, "method ", 7)) {
                        is_known = !hotspot_blob_read(&blob, hotspot_code(hotspot), hotspot_layout(hotspot),
                                                      places.reader, strtoull(line + 7, &rest, 16)) &&
                                   blob.kind == HOTSPOT_COMPILED;
                        if (is_known)
                                choose_places(&places, &blob, rest);
                } else if (is_known && !strncmp(line, "pc ", 3)) {
                        for (char *word = strtok(line + 3, " \n"); word; word = strtok(NULL, " \n"))
                                print_leaf(hotspot, &places, &blob, strtoull(word, NULL, 16));
                }
        }
}

static void open_worker(pid_t pid, int fd, uint64_t size, uint64_t bias) {
        const ReaderSubject subject = { .pid = pid, .size = size, .bias = bias, .fd = dup(fd) };
        const HotspotOpened *said = NULL;

        if (zygotes_new(&zygotes) || zygotes_wait(zygotes, 10000) || reader_links_new(&readers, zygotes) ||
            hotspot_links_new(&links, readers) || hotspot_link_new(&worker, links, &subject))
                fail("no workers");
        if (hotspot_link_open(worker, &said))
                fail(said->reason);
        opened = *said;
}

static void close_worker(const Hotspot *hotspot) {
        if (opened.layout.version != hotspot_layout(hotspot)->version ||
            memcmp(&opened.code, hotspot_code(hotspot), sizeof(HotspotCode)))
                fail("the worker sees another JVM");
        hotspot_link_free(worker);
        hotspot_links_free(links);
        reader_links_free(readers);
        zygotes_free(zygotes);
}

int main(int argc, char **argv) {
        _cleanup_(hotspot_freep) Hotspot *hotspot = NULL;
        char reason[HOTSPOT_MAX_REASON] = "out of memory";
        uint64_t bias = 0;
        struct stat st;
        pid_t pid;
        int fd;

        if (argc < 3)
                fail("usage: hotspot-dump layout|code|stack|worker|scopes|leaves PID [THREAD…]");
        pid = atoi(argv[2]);
        fd = open_libjvm(pid, &bias);
        const HotspotReader source = { .read = hotspot_process_read, .userdata = &pid };

        if (fstat(fd, &st) < 0 ||
            hotspot_new(&hotspot, &source, fd, (uint64_t)st.st_size, bias, reason))
                fail(reason);
        if (!strcmp(argv[1], "worker"))
                open_worker(pid, fd, (uint64_t)st.st_size, bias);
        if (!strcmp(argv[1], "layout"))
                print_layout(hotspot);
        hotspot_memory_allow(hotspot_memory(hotspot), UINT32_MAX);
        if (!strcmp(argv[1], "code"))
                print_code(hotspot);
        else if (!strcmp(argv[1], "scopes"))
                print_scopes(hotspot);
        else if (!strcmp(argv[1], "leaves"))
                print_leaves(hotspot);
        for (int i = 3; (worker || !strcmp(argv[1], "stack")) && i < argc; i++)
                print_stack(hotspot, strtoull(argv[i], NULL, 16));
        if (worker)
                close_worker(hotspot);
        close(fd);
        return 0;
}

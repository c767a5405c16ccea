/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Says what the daemon's reader of JVMs finds in a running one, for test-hotspot.py and by hand.
 *
 * usage: hotspot-dump layout PID           offsets, heaps
 *        hotspot-dump blobs PID            kind, id, level, code begin, code end, name of each piece of code
 */
#include <elf.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/util/macro.h"
#include "runtime/hotspot/hotspot-code.h"
#include "runtime/hotspot/hotspot-layout.h"
#include "runtime/hotspot/hotspot-memory.h"

typedef struct Jvm {
        pid_t pid;
        int fd;
        uint64_t bias;
        HotspotMemory *memory;
        const HotspotReader *reader;
        HotspotLayout layout;
        HotspotCode code;
} Jvm;

static void fail(const char *what) {
        fprintf(stderr, "hotspot-dump: %s\n", what);
        exit(1);
}

/* Where libjvm.so is mapped from its start. */
static void find_libjvm(Jvm *jvm) {
        char path[64], line[4096], file[4096];
        unsigned long long start, end, offset;
        FILE *maps;

        snprintf(path, sizeof(path), "/proc/%d/maps", (int)jvm->pid);
        maps = fopen(path, "r");
        if (!maps)
                fail("no such process");
        jvm->fd = -1;
        while (jvm->fd < 0 && fgets(line, sizeof(line), maps))
                if (strstr(line, "/libjvm.so") &&
                    sscanf(line, "%llx-%llx %*s %llx", &start, &end, &offset) == 3 && !offset) {
                        snprintf(file, sizeof(file), "/proc/%d/map_files/%llx-%llx", (int)jvm->pid, start, end);
                        jvm->fd = open(file, O_RDONLY | O_CLOEXEC);
                        jvm->bias = start;
                }
        fclose(maps);
        if (jvm->fd < 0)
                fail("no libjvm.so there");
}

static void open_jvm(Jvm *jvm, pid_t pid) {
        char reason[HOTSPOT_MAX_REASON] = "";
        struct stat st;

        jvm->pid = pid;
        find_libjvm(jvm);
        fstat(jvm->fd, &st);
        if (hotspot_memory_new(&jvm->memory, pid, jvm->fd, (uint64_t)st.st_size, jvm->bias))
                fail("its libjvm.so is no HotSpot");
        jvm->reader = hotspot_memory_reader(jvm->memory);
        if (hotspot_layout_read(&jvm->layout, jvm->reader, hotspot_memory_symbols(jvm->memory), jvm->bias,
                                reason))
                fail(reason);
        if (hotspot_code_read(&jvm->code, &jvm->layout, jvm->reader, jvm->bias))
                fail("no code cache");
}

static void print_layout(const Jvm *jvm) {
        const HotspotLayout *layout = &jvm->layout;

        printf("java %u, %s, %llu calls\n", layout->version,
               layout->has_zero_free_numbers ? "numbers without 0" : "plain numbers",
               (unsigned long long)hotspot_memory_n_calls(jvm->memory));
        for (size_t i = 0; i < sizeof(*layout); i += 4) {
                uint32_t word;

                memcpy(&word, (const uint8_t *)layout + i, 4);
                if (word)
                        printf("  %4zu: offset %u size %u%s (%u)\n", i, word & 0xffff, word >> 16 & 0xff,
                               word >> 24 ? " signed" : "", word);
        }
        for (uint32_t i = 0; i < jvm->code.n_heaps; i++)
                printf("heap %llx-%llx map %llx log2 %u\n", (unsigned long long)jvm->code.heaps[i].low,
                       (unsigned long long)jvm->code.heaps[i].end,
                       (unsigned long long)jvm->code.heaps[i].segment_map, jvm->code.heaps[i].log2_segment);
        printf("interpreter %llx-%llx\ncall stub %llx\n", (unsigned long long)jvm->code.interpreter_low,
               (unsigned long long)jvm->code.interpreter_high, (unsigned long long)jvm->code.call_stub_return);
}

static void print_blobs(const Jvm *jvm) {
        HotspotCodeCursor cursor = { 0 };
        uint64_t address, found;
        HotspotBlob blob;
        char name[64];

        while (!hotspot_code_next(&jvm->code, &jvm->layout, jvm->reader, &cursor, &address)) {
                if (hotspot_blob_read(&blob, &jvm->code, &jvm->layout, jvm->reader, address)) {
                        printf("unreadable %llx\n", (unsigned long long)address);
                        continue;
                }
                memset(name, 0, sizeof(name));
                hotspot_read(jvm->reader, blob.name, name, 24);
                if (hotspot_code_find(&jvm->code, &jvm->layout, jvm->reader, blob.code_end - 1, &found) ||
                    found != address)
                        printf("lost ");
                printf("%d %u %u %llx %llx %u %d %s\n", blob.kind, blob.compile_id, blob.level,
                       (unsigned long long)blob.code, (unsigned long long)blob.code_end, blob.frame_size,
                       blob.frame_complete, name);
        }
}

int main(int argc, char **argv) {
        Jvm jvm;

        if (argc < 3)
                fail("usage: hotspot-dump layout|blobs PID");
        open_jvm(&jvm, atoi(argv[2]));
        if (!strcmp(argv[1], "layout"))
                print_layout(&jvm);
        else if (!strcmp(argv[1], "blobs"))
                print_blobs(&jvm);
        else
                fail("layout or blobs?");
        hotspot_memory_free(jvm.memory);
        close(jvm.fd);
        return 0;
}

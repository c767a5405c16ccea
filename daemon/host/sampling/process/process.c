/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Keeps the identity and the mappings of a process.
 *
 * Mappings come two ways. A read of /proc/PID/maps shows all of them at one time, but takes long; it goes in
 * turns where they are many, and what notices tell meanwhile is noted and put on top at the end. A notice of
 * the kernel tells of one mapping at once: it cuts the ones that it covers, which become history.
 *
 *     read at t0      [ libc ][ a.so ]
 *     notice at t1             [ b.so ]         a.so is history of t0 … t1: samples of then still find it
 */
#include "host/sampling/process/process.h"

#include <errno.h>
#include <fcntl.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "core/base/file/file.h"
#include "core/base/util/array.h"
#include "core/base/util/clock.h"
#include "core/base/util/error.h"
#include "core/base/util/stat.h"
#include "core/symbol/object/remote-files.h"
#include "host/sampling/process/text-copy.h"

/* ---- who it is ---- */

static void free_mappings(Mapping *mappings, size_t n) {
        for (size_t i = 0; i < n; i++)
                mapping_deinit(&mappings[i]);
        free(mappings);
}

static uint64_t new_serial(void) {
        static uint64_t last;

        return ++last;
}

/*
 * A leader that has exited before its threads has no executable to show. Return: 0, -ENOMEM, PROCESS_E_GONE =
 * no thread is left, and its parent has not reaped it yet.
 */
static int read_threads_exe(Process *process) {
        _cleanup_(closep) int fd = -1;

        return process_open_living((pid_t)process->pid, process->start_time_ns, &fd, NULL)
                ? PROCESS_E_GONE
                : identity_read_exe(fd, &process->exe);
}

static int make(Process **processp, pid_t pid, bool stays_open) {
        _cleanup_(process_freep) Process *process = calloc(1, sizeof(*process));
        _cleanup_(closep) int fd = -1;
        ProcessStat stat;
        int r;

        if (!process)
                return error_origin(-ENOMEM);
        process->pid = (uint32_t)pid;
        process->read_ns = clock_monotonic_ns();
        r = process_open(pid, 0, &fd);
        if (r)
                return r;
        process->has_cpu_clock = clock_getcpuclockid(pid, &process->cpu_clock) == 0;
        r = identity_read_exe(fd, &process->exe);
        if (!r)
                r = process_read_stat(fd, &stat, process->comm);
        if (r)
                return r;
        process->start_time_ns = stat.start_time_ns;
        process->is_kernel = stat.is_kernel;
        process->stack_start = stat.stack_start;
        r = stat.state == 'Z' ? read_threads_exe(process) : 0;
        if (r < 0 || (r && stays_open))
                return r;
        /* a zombie's threads have directories of their own */
        process->is_open = stays_open && stat.state != 'Z';
        if (process->is_open)
                process->proc_fd = take_fd(fd);
        *processp = take(process);
        return 0;
}

int process_new(Process **processp, pid_t pid) {
        return make(processp, pid, false);
}

int process_new_open(Process **processp, pid_t pid) {
        return make(processp, pid, true);
}

void process_forget_look(Process *process) {
        process->look = process_look_free(process->look);
}

void process_close(Process *process) {
        if (process->is_open)
                close(process->proc_fd);
        process->is_open = false;
        process_forget_look(process);
}

/* Opens the directory of the process, or of a thread that has not exited; owned by the caller. */
static int open_directory(const Process *process, int *fdp) {
        return process_open_living((pid_t)process->pid, process->start_time_ns, fdp, NULL);
}

/* The same; the one that is open goes over to the caller. */
static int take_directory(Process *process, int *fdp) {
        if (!process->is_open)
                return open_directory(process, fdp);
        process->is_open = false;
        *fdp = process->proc_fd;
        return 0;
}

int process_new_gone(Process **processp, pid_t pid, uint64_t start_time_ns, const char *comm) {
        Process *process = calloc(1, sizeof(*process));

        if (!process)
                return error_origin(-ENOMEM);
        process->pid = (uint32_t)pid;
        process->start_time_ns = start_time_ns;
        memcpy(process->comm, comm, ABI_COMM_SIZE - 1);
        *processp = process;
        return 0;
}

Process *process_free(Process *process) {
        if (!process)
                return NULL;
        process_close(process);
        free_mappings(process->mappings, process->n_mappings);
        identity_free(process->identity);
        mapping_history_deinit(&process->history);
        made_areas_free(process->made);
        free(process->exe);
        free(process);
        return NULL;
}

/* An exec gives a process another first stack, at another place. Where that is not known, none is seen. */
static bool has_executed(const Process *process, const ProcessStat *now) {
        return process->stack_start && now->stack_start != process->stack_start;
}

int process_read_identity(Process *process, unsigned what, bool with_maps) {
        _cleanup_(identity_freep) Identity *identity = NULL;
        _cleanup_(closep) int opened = -1;
        char comm[ABI_COMM_SIZE];
        ProcessStat stat;
        int r = process->is_open ? 0 : open_directory(process, &opened);
        int fd = process->is_open ? process->proc_fd : opened;

        process_forget_look(process);
        if (!r && what & IDENTITY_ENVIRONMENT)
                r = process_look_new(&process->look, fd, with_maps);
        if (!r)
                r = identity_new_by(&identity, fd, what, process->look);
        if (r)
                return r;
        /* texts that were read behind an exec are the next program's */
        if (what & IDENTITY_ENVIRONMENT && !process_read_stat(fd, &stat, comm) &&
            has_executed(process, &stat)) {
                process_forget_look(process);
                return PROCESS_E_GONE;
        }
        identity_free(process->identity);
        process->identity = take(identity);
        return 0;
}

int process_cpu_time(const Process *process, uint64_t *cpu_nsp) {
        struct timespec ts;

        if (!process->has_cpu_clock || clock_gettime(process->cpu_clock, &ts))
                return PROCESS_E_GONE;
        *cpu_nsp = (uint64_t)ts.tv_sec * NS_PER_SEC + (uint64_t)ts.tv_nsec;
        return 0;
}

/* ---- its mappings, as notices tell of them, and all at once by a fork ---- */

size_t process_first_mapping(const Process *process, uint64_t address) {
        size_t low = 0, high = process->n_mappings;

        while (low < high) {
                size_t middle = low + (high - low) / 2;

                if (process->mappings[middle].end <= address)
                        low = middle + 1;
                else
                        high = middle;
        }
        return low;
}

const Mapping *process_find_mapping(const Process *process, uint64_t address) {
        size_t i = process_first_mapping(process, address);

        return i < process->n_mappings && process->mappings[i].start <= address ? &process->mappings[i]
                                                                                : NULL;
}

void process_resolve(const Process *process, uint64_t address, uint64_t time_ns, ProcessAnswer *answerp) {
        const MappingHistory *history = &process->history;
        const Mapping *mapping = mapping_history_find(history, address, time_ns);

        answerp->mapping = mapping ? mapping : process_find_mapping(process, address);
        answerp->is_current = process_is_current(process, time_ns);
        /* the history has nothing to say of a time that it does not reach */
        answerp->is_stale = !answerp->is_current && mapping_history_is_stale(history, address, time_ns);
}

/* Walks of the kernel half by rows of the area, from @time_ns on until it is told, are stale. */
static int bury_area(Process *process, const MadePiece *piece, uint64_t time_ns) {
        Mapping past = { .start = piece->start, .end = piece->end, .kind = MAPPING_ANONYMOUS };

        past.path = strdup("");
        return past.path ? mapping_history_add(&process->history, &past, 0, time_ns) : error_origin(-ENOMEM);
}

/* The same of all of @made's areas. @voids: those that are void alone. */
static int bury_made(Process *process, const MadeAreas *made, bool voids, uint64_t time_ns) {
        int r = 0;

        process->maps_serial = new_serial();
        for (uint32_t i = 0; i < made->n_pieces && !r; i++) {
                const MadePiece *piece = &made->pieces[i];

                if (!voids || piece->is_void)
                        r = bury_area(process, piece, time_ns);
        }
        return r;
}

/* Adds the piece [@start, @end) of a mapping to @to; an empty one is none. */
static int keep_piece(Mapping *to, size_t *np, const Mapping *mapping, uint64_t start, uint64_t end) {
        int r;

        if (start >= end)
                return 0;
        r = mapping_copy(&to[*np], mapping, start, end);
        if (!r)
                ++*np;
        return r;
}

/* Buries the piece of @old that the new mapping covers. */
static int bury_piece(Process *process, const Mapping *old, const Mapping *mapping, uint64_t time_ns) {
        Mapping piece;
        int r;

        if (mapping_is_same_file(old, mapping))
                return 0;
        r = mapping_copy(&piece, old, MAX(old->start, mapping->start), MIN(old->end, mapping->end));
        return r ? r : mapping_history_add(&process->history, &piece, time_ns, time_ns);
}

/*
 * Puts @mapping in the place of the mappings [@first, @end), of which it leaves at most a piece at either
 * side.
 */
static int replace(Process *process, size_t first, size_t end, Mapping *mapping, uint64_t time_ns) {
        Mapping *mappings = calloc(process->n_mappings + 3, sizeof(*mappings));
        size_t n = 0;
        int r = 0;

        if (!mappings)
                return error_origin(-ENOMEM);
        for (size_t i = first; i < end && !r; i++)
                r = bury_piece(process, &process->mappings[i], mapping, time_ns);
        if (!r && first < end)
                r = keep_piece(mappings, &n, &process->mappings[first], process->mappings[first].start,
                               mapping->start);
        if (!r) {
                mappings[n++] = *mapping;
                *mapping = (Mapping){ 0 };
        }
        if (!r && first < end)
                r = keep_piece(mappings, &n, &process->mappings[end - 1], mappings[n - 1].end,
                               process->mappings[end - 1].end);
        if (r) {
                free_mappings(mappings, n);
                return r;
        }
        for (size_t i = first; i < end; i++)
                mapping_deinit(&process->mappings[i]);
        memmove(mappings + first, mappings, n * sizeof(*mappings));
        if (process->n_mappings) {
                memcpy(mappings, process->mappings, first * sizeof(*mappings));
                memcpy(mappings + first + n, process->mappings + end,
                       (process->n_mappings - end) * sizeof(*mappings));
        }
        free(process->mappings);
        process->mappings = mappings;
        process->n_mappings = first + n + process->n_mappings - end;
        process->maps_serial = new_serial();
        return 0;
}

/* Whether the table has it already, and does not know less of it. */
static bool is_mapped(const Process *process, const Mapping *mapping) {
        const Mapping *now = process_find_mapping(process, mapping->start);

        return now && now->end >= mapping->end && mapping_is_same_file(now, mapping) &&
                (now->object || !mapping->object);
}

/* Whether two mappings without a file change alike: by notice alone, or unseen. */
static bool change_alike(const Mapping *a, const Mapping *b) {
        return a->kind != MAPPING_ANONYMOUS || b->kind != MAPPING_ANONYMOUS || a->may_change == b->may_change;
}

/*
 * A change that the last read of all mappings has seen, or has missed since it did not last. In the latter
 * case what is there now was there before, too, unless something else is known to have ended then.
 */
static int change_past(Process *process, Mapping *mapping, uint64_t time_ns) {
        bool is_known = mapping_history_set_time(&process->history, mapping->start, mapping->end,
                                                 process->maps_read_ns, time_ns);
        int r = 0;

        if (is_mapped(process, mapping))
                return 0;
        for (size_t i = process_first_mapping(process, mapping->start);
             !is_known && !r && i < process->n_mappings && process->mappings[i].start < mapping->end; i++)
                r = bury_piece(process, &process->mappings[i], mapping, time_ns);
        return r ? r
                 : mapping_history_add(&process->history, mapping, process->maps_read_ns,
                                       process->maps_read_ns);
}

static int change(Process *process, Mapping *mapping, uint64_t time_ns) {
        size_t first = process_first_mapping(process, mapping->start), end = first;

        if (time_ns <= process->maps_read_ns)
                return change_past(process, mapping, time_ns);
        /*
         * Made while the last read was under way: since when is known now. A past without a time keeps none.
         */
        if (is_mapped(process, mapping)) {
                if (process->maps_read_ns)
                        mapping_history_set_time(&process->history, mapping->start, mapping->end,
                                                 process->maps_read_ns, time_ns);
                if (change_alike(process_find_mapping(process, mapping->start), mapping))
                        return 0;
        }
        while (end < process->n_mappings && process->mappings[end].start < mapping->end)
                end++;
        if (process->n_mappings - (end - first) + 3 > PROCESS_MAX_MAPPINGS) {
                stat_add(COUNTER_MAPPINGS_OVER_CAP, 1);
                for (size_t i = first; i < end; i++)
                        process->mappings[i].may_change |= mapping->may_change;
                return 0;
        }
        return replace(process, first, end, mapping, time_ns);
}

static int need_made(Process *process) {
        if (process->made)
                return 0;
        process->made = calloc(1, sizeof(*process->made));
        if (!process->made)
                return error_origin(-ENOMEM);
        process->made->forgotten_ns = process->unheard_ns;
        return 0;
}

/* Memory without a file is noted before it has rows: these are read later. */
static int change_made(Process *process, const Mapping *mapping, uint64_t time_ns) {
        int r;

        if (!process->made && mapping->kind != MAPPING_ANONYMOUS)
                return 0;
        r = need_made(process);
        if (r)
                return r;
        return made_areas_change(process->made, mapping->start, mapping->end, time_ns)
                       ? bury_made(process, process->made, true, time_ns) : 0;
}

void process_void_made(Process *process, uint64_t time_ns) {
        process->unheard_ns = MAX(process->unheard_ns, time_ns);
        if (!process->made || !made_areas_change_all(process->made, time_ns))
                return;
        process->history.forgotten_ns = UINT64_MAX;
        process->maps_serial = new_serial();
}

/* Whether all code of @piece is in memory that changes by notice alone. */
static bool is_kept(const Process *process, const MadePiece *piece) {
        for (uint32_t i = 0; i < piece->n_runs; i++) {
                uint64_t at = piece->runs[i].start;

                while (at < piece->runs[i].end) {
                        const Mapping *mapping = process_find_mapping(process, at);

                        if (!mapping || mapping->kind != MAPPING_ANONYMOUS || mapping->may_change)
                                return false;
                        at = mapping->end;
                }
        }
        return true;
}

/* Whether some of it is in memory that changes unseen. Where nothing is by now, nothing runs. */
static bool has_changing(const Process *process, const MadePiece *piece) {
        for (size_t i = process_first_mapping(process, piece->start);
             i < process->n_mappings && process->mappings[i].start < piece->end; i++) {
                const Mapping *mapping = &process->mappings[i];

                if (mapping->kind == MAPPING_ANONYMOUS && mapping->may_change &&
                    made_piece_has_code(piece, mapping->start, mapping->end))
                        return true;
        }
        return false;
}

int process_take_made(Process *process, MadePiece *pieces, uint32_t n, uint64_t read_ns, bool *is_otherp) {
        int r;

        *is_otherp = false;
        if (!n && !process->made)
                return 0;
        r = need_made(process);
        if (r)
                return r;
        for (uint32_t i = 0; i < n; i++)
                pieces[i].is_void = !is_kept(process, &pieces[i]) ||
                        !made_areas_hold(process->made, &pieces[i], read_ns, &pieces[i].since_ns);
        *is_otherp = made_areas_take(process->made, pieces, n, read_ns);
        if (*is_otherp)
                process->maps_serial = new_serial();
        return 0;
}

int process_change(Process *process, Mapping *mapping, uint64_t time_ns) {
        int r = change_made(process, mapping, time_ns);

        if (!r)
                r = change(process, mapping, time_ns);
        mapping_deinit(mapping);
        return r;
}

int process_take_mappings(Process *process, Process *from) {
        int r = 0;

        free_mappings(process->mappings, process->n_mappings);
        process->mappings = take(from->mappings);
        process->n_mappings = from->n_mappings;
        process->maps_read_ns = from->maps_read_ns;
        process->maps_serial = new_serial();
        from->n_mappings = 0;
        for (size_t i = 0; i < from->history.n && !r; i++) {
                PastMapping *past = &from->history.items[i];

                r = mapping_history_add(&process->history, &past->mapping, past->until_ns, past->stale_ns);
        }
        return r;
}

static int inherit_names(Process *process, const Process *parent) {
        if (!process->identity && parent->identity)
                process->identity = identity_ref(parent->identity);
        if (process->exe || !parent->exe)
                return 0;
        process->exe = strdup(parent->exe);
        return process->exe ? 0 : error_origin(-ENOMEM);
}

/* The child still has the mappings that the parent has replaced since then. */
static int inherit_past(Process *process, const Process *parent, uint64_t time_ns) {
        for (size_t i = 0; i < parent->history.n; i++) {
                const PastMapping *history = &parent->history.items[i];
                Mapping copy;
                int r;

                if (history->until_ns <= time_ns)
                        continue;
                r = mapping_copy(&copy, &history->mapping, history->mapping.start, history->mapping.end);
                if (!r)
                        r = process_change(process, &copy, time_ns);
                if (r)
                        return r;
        }
        return 0;
}

/* Mappings that the parent has made since then come along: where the child has none, none of them runs. */
int process_inherit(Process *process, const Process *parent, uint64_t time_ns) {
        Mapping *mappings = calloc(parent->n_mappings + 1, sizeof(*mappings));
        int r = mappings ? inherit_names(process, parent) : error_origin(-ENOMEM);
        size_t n = 0;

        for (; n < parent->n_mappings && !r; n += !r)
                r = mapping_copy(&mappings[n], &parent->mappings[n], parent->mappings[n].start,
                                 parent->mappings[n].end);
        if (r) {
                free_mappings(mappings, n);
                return r;
        }
        free_mappings(process->mappings, process->n_mappings);
        process->mappings = mappings;
        process->n_mappings = n;
        process->maps_serial = new_serial();
        /* its code was walked by the parent's rows, and may have been other code by then */
        r = parent->made ? bury_made(process, parent->made, false, time_ns) : 0;
        return r ? r : inherit_past(process, parent, time_ns);
}

/* ---- its mappings, read from /proc ---- */

void process_choose_remote(bool reads_all) {
        remote_files_choose(reads_all);
}

void process_end_remote(void) {
        remote_files_stop();
}

const char *process_why_unread(const Process *process) {
        return remote_files_why(process->remote);
}

enum {
        FREE_TEXT = 256 << 10,          /* about 3,000 mappings */
        FILE_COST = 2 << 10,            /* bytes of text that cost as much as to know a file again */
        MAX_NOTED = 256,
        MAX_COPIES = 64,                /* places of one process that are compared with a file's text */
        MAX_BESIDE = 4 << 20,           /* bytes between a part of a file that is no text, and its text */
};

typedef struct Noted {
        Mapping mapping;
        uint64_t time_ns;
} Noted;

/* The last mapping of a file, with any rights: memory beside it may be a copy of the file's text. */
typedef struct Beside {
        MapsEntry entry;                /* without its name */
        char *path;                     /* owned; NULL = there is none yet */
        Object *object;                 /* NULL = not looked for yet, or not readable */
        bool is_known;
} Beside;

/* Mappings while they are being read. */
struct ProcessReading {
        ObjectCache *objects;
        uint64_t begin_ns;
        bool was_paused;
        bool lacks_file;                /* a file could not be opened */
        bool awaits_files;              /* copies of some are on their way */
        char remote[MOUNTS_TYPE_SIZE];  /* the filesystem of one that was left out for it */
        Noted *noted;                   /* changes that notices told meanwhile */
        size_t n_noted;
        int proc_fd;
        Mapping *mappings;
        size_t n, room;
        size_t n_areas;                 /* mappings of memory without a file */
        Beside beside;
        size_t first_after;             /* first mapping that was added since `beside` */
        size_t n_copies;
        uint64_t unproved;              /* start of the last area that looked like a copy, and was none */
        pid_t pid;
        Mounts mounts;
        ShareOwner owner;               /* the process, for files that are new */
        MapsReader reader;
        char path[MAPS_MAX_NAME];
};

ProcessReading *process_reading_free(ProcessReading *reading) {
        if (!reading)
                return NULL;
        for (size_t i = 0; i < reading->n_noted; i++)
                mapping_deinit(&reading->noted[i].mapping);
        free(reading->noted);
        free_mappings(reading->mappings, reading->n);
        object_unref(reading->beside.object);
        free(reading->beside.path);
        mounts_deinit(&reading->mounts);
        if (reading->proc_fd >= 0)
                close(reading->proc_fd);
        if (reading->reader.fd >= 0)
                close(reading->reader.fd);
        free(reading);
        return NULL;
}

/* A 32-bit process has another vdso, of another size and below 4 GiB. */
static int identify_vdso(ProcessReading *reading, const MapsEntry *entry, Mapping *mapping) {
        uint64_t size;
        int r;

        mapping->kind = MAPPING_ANONYMOUS;
        if (entry->start <= UINT32_MAX)
                return 0;
        r = object_vdso(reading->objects, &mapping->object, &size);
        if (r)
                return r < 0 ? r : 0;
        if (size == entry->end - entry->start)
                mapping->kind = MAPPING_VDSO;
        else
                mapping->object = object_unref(mapping->object);
        return 0;
}

/* A device that no list has is not trusted either. */
static void note_remote(ProcessReading *reading, const MapsEntry *entry) {
        MountServer server = { .type = "a hidden filesystem" };

        mounts_server_of_process(&reading->mounts, reading->proc_fd, entry->major, entry->minor, &server);
        memcpy(reading->remote, server.type, sizeof(reading->remote));
}

static int identify_file(ProcessReading *reading, const MapsEntry *entry, Mapping *mapping) {
        ObjectSource source = { .proc_fd = reading->proc_fd, .entry = entry, .path = reading->path,
                                .mounts = &reading->mounts, .owner = &reading->owner };
        int r = object_open(reading->objects, &source, &mapping->object);

        if (r < 0)
                return r;
        reading->lacks_file |= r;
        reading->awaits_files |= r == OBJECT_E_AWAITED;
        if (r == OBJECT_E_REMOTE && !*reading->remote)
                note_remote(reading, entry);
        /* JIT compilers keep their code in a memfd: memory in the shape of a file. */
        mapping->kind = !r ? MAPPING_FILE : maps_is_memfd(entry) ? MAPPING_ANONYMOUS : MAPPING_UNREADABLE;
        return 0;
}

static int identify(ProcessReading *reading, const MapsEntry *entry, Mapping *mapping) {
        if (maps_is_file(entry)) {
                maps_reader_charge(&reading->reader, FILE_COST);
                return identify_file(reading, entry, mapping);
        }
        if (entry->name_size == 6 && !memcmp(entry->name, "[vdso]", 6))
                return identify_vdso(reading, entry, mapping);
        mapping->kind = MAPPING_ANONYMOUS;
        return 0;
}

/* Whether others can have no part in memory without a file: it is not the heap's, a stack's, or a memfd's. */
static bool has_no_name(const MapsEntry *entry) {
        static const char named[] = "[anon:";

        return !entry->name_size ||
                (entry->name_size >= strlen(named) && !memcmp(entry->name, named, strlen(named)));
}

/* Adds an executable mapping. The kernel prints them in order, so what would overlap is not from a kernel. */
static int add_mapping(ProcessReading *reading, const MapsEntry *entry) {
        Mapping mapping = { .start = entry->start, .end = entry->end, .offset = entry->offset,
                            .may_change = entry->writable || entry->shared || !has_no_name(entry) };
        int r;

        if (reading->n && entry->start < reading->mappings[reading->n - 1].end) {
                stat_add(COUNTER_MAPS_MALFORMED, 1);
                return 0;
        }
        if (reading->n >= PROCESS_MAX_MAPPINGS) {
                stat_add(COUNTER_MAPPINGS_OVER_CAP, 1);
                return 0;
        }
        maps_path(entry, reading->path, NULL);
        r = array_reserve(&reading->mappings, &reading->room, reading->n + 1, 32);
        if (!r)
                r = identify(reading, entry, &mapping);
        if (r)
                return r;
        if (mapping.kind == MAPPING_ANONYMOUS && reading->n_areas >= PROCESS_MAX_AREAS) {
                stat_add(COUNTER_MAPPINGS_OVER_CAP, 1);
                return 0;
        }
        mapping.path = strdup(reading->path);
        if (!mapping.path) {
                object_unref(mapping.object);
                return error_origin(-ENOMEM);
        }
        reading->n_areas += mapping.kind == MAPPING_ANONYMOUS;
        reading->mappings[reading->n++] = mapping;
        return 0;
}

/* ---- text in memory that has no file ---- */

static bool is_area(const Mapping *mapping) {
        return mapping->kind == MAPPING_ANONYMOUS || mapping->kind == MAPPING_UNREADABLE;
}

/* Whether the last mapping is @entry's, and may be a copy of text. */
static bool is_added_area(const ProcessReading *reading, const MapsEntry *entry) {
        const Mapping *last = reading->n ? &reading->mappings[reading->n - 1] : NULL;

        return last && last->start == entry->start && is_area(last);
}

/* Whether @area is so near to a file's mapping that it may be the file's text. */
static bool is_near(const Beside *beside, const Mapping *area) {
        uint64_t gap = area->start >= beside->entry.end ? area->start - beside->entry.end
                                                        : beside->entry.start - area->end;

        return beside->path && (beside->entry.executable || gap <= MAX_BESIDE);
}

/* Return: 0, -ENOMEM. */
static int know_beside(ProcessReading *reading) {
        Beside *beside = &reading->beside;
        ObjectSource source = { .proc_fd = reading->proc_fd, .entry = &beside->entry, .path = beside->path,
                                .mounts = &reading->mounts, .owner = &reading->owner,
                                .may_be_data = !beside->entry.executable };

        if (beside->is_known)
                return 0;
        beside->is_known = true;
        maps_reader_charge(&reading->reader, FILE_COST);
        return MIN(object_open(reading->objects, &source, &beside->object), 0);
}

static bool is_proved(ProcessReading *reading, const TextCopy *copy) {
        _cleanup_(closep) int mem_fd = openat(reading->proc_fd, "mem", O_RDONLY | O_CLOEXEC), file_fd = -1;
        const Beside *beside = &reading->beside;

        maps_reader_charge(&reading->reader, TEXT_COPY_PAGES * FILE_COST);
        return ++reading->n_copies <= MAX_COPIES && mem_fd >= 0 &&
                object_reopen(beside->object, reading->proc_fd, beside->entry.start, beside->entry.end,
                              beside->path, &file_fd) == 0 &&
                text_copy_is_same(reading->pid, mem_fd, file_fd, copy);
}

/* Return: 0, -ENOMEM. */
static int become_text(ProcessReading *reading, Mapping *area, const TextCopy *copy) {
        char *path = strdup(reading->beside.path);

        if (!path)
                return error_origin(-ENOMEM);
        reading->n_areas -= area->kind == MAPPING_ANONYMOUS;
        free(area->path);
        *area = (Mapping){ .start = copy->start, .end = copy->end, .offset = copy->offset,
                           .kind = MAPPING_FILE, .path = path };
        area->object = object_ref(reading->beside.object);
        return 0;
}

/* Whether the file beside @area has its text there, and the area has the bytes of it. */
static bool find_text(ProcessReading *reading, const Mapping *area, TextCopy *copyp) {
        const Beside *beside = &reading->beside;
        bool is_place = false;

        for (uint32_t i = 0; i < beside->object->n_segments; i++) {
                if (!text_copy_find(beside->object, i, beside->entry.start, beside->entry.offset, area->start,
                                    area->end, copyp))
                        continue;
                is_place = true;
                if (is_proved(reading, copyp))
                        return true;
        }
        /* the mapping before it and the one behind it may both be the file's */
        stat_add(COUNTER_TEXT_COPIES_UNPROVED, is_place && reading->unproved != area->start);
        reading->unproved = is_place ? area->start : reading->unproved;
        return false;
}

/* Mappings from @first on that are copies of the text of the file beside them. Return: 0, -ENOMEM. */
static int find_copies(ProcessReading *reading, size_t first) {
        TextCopy copy;
        int r = 0;

        for (size_t i = first; i < reading->n && !r; i++) {
                Mapping *area = &reading->mappings[i];

                if (!is_area(area) || !is_near(&reading->beside, area))
                        continue;
                r = know_beside(reading);
                if (!r && reading->beside.object && find_text(reading, area, &copy))
                        r = become_text(reading, area, &copy);
        }
        return r;
}

/* A mapping of a file: what lies before it, and what will lie behind it, may be the file's. */
static int move_beside(ProcessReading *reading, const MapsEntry *entry) {
        const Mapping *last = reading->n ? &reading->mappings[reading->n - 1] : NULL;
        Beside *beside = &reading->beside;
        size_t first = reading->first_after;

        if (maps_is_memfd(entry))
                return 0;
        maps_path(entry, reading->path, NULL);
        object_unref(beside->object);
        free(beside->path);
        *beside = (Beside){ .entry = *entry, .path = strdup(reading->path) };
        if (!beside->path)
                return error_origin(-ENOMEM);
        if (last && last->start == entry->start) {
                beside->object = object_ref(last->object);
                beside->is_known = true;
        }
        reading->first_after = reading->n;
        return find_copies(reading, first);
}

static int read_all(ProcessReading *reading) {
        MapsEntry entry;
        int r;

        for (;;) {
                r = maps_reader_next(&reading->reader, &entry);
                if (r == MAPS_E_EOF)
                        return 0;
                if (r == MAPS_E_FAILED)
                        return PROCESS_E_GONE;
                if (r == MAPS_E_PAUSED)
                        return PROCESS_E_MORE;
                if (r == MAPS_E_MALFORMED) {
                        stat_add(COUNTER_MAPS_MALFORMED, 1);
                        continue;
                }
                if (maps_is_probes(&entry))
                        continue;
                r = entry.executable ? add_mapping(reading, &entry) : 0;
                if (!r && maps_is_file(&entry) && !is_added_area(reading, &entry))
                        r = move_beside(reading, &entry);
                if (!r && is_added_area(reading, &entry))
                        r = find_copies(reading, reading->n - 1);
                if (r)
                        return r;
        }
}

static int open_maps(ProcessReading *reading, const ProcessLook *look) {
        int fd;

        if (look && look->n_maps >= 0) {
                reading->begin_ns = look->begin_ns;
                maps_reader_init_text(&reading->reader, look->maps, (size_t)look->n_maps);
                return 0;
        }
        fd = openat(reading->proc_fd, "maps", O_RDONLY | O_CLOEXEC);
        maps_reader_init(&reading->reader, fd);
        return fd < 0 ? process_condition(errno) : 0;
}

static int begin_reading(Process *process, ObjectCache *objects, ProcessReading **readingp) {
        _cleanup_(process_reading_freep) ProcessReading *reading = malloc(sizeof(*reading));
        int r;

        stat_add(COUNTER_MAPS_READS, 1);
        if (!reading)
                return error_origin(-ENOMEM);
        memset(reading, 0, offsetof(ProcessReading, reader));
        reading->objects = objects;
        reading->owner.process = process->pid;
        reading->pid = (pid_t)process->pid;
        reading->begin_ns = clock_monotonic_ns();
        reading->proc_fd = reading->reader.fd = -1;
        r = take_directory(process, &reading->proc_fd);
        if (!r)
                r = open_maps(reading, process->look);
        process_forget_look(process);
        if (r)
                return r;
        *readingp = take(reading);
        return 0;
}

/* Objects are shared, so the same file is the same object. */
static bool same_mappings(const Process *process, const ProcessReading *reading) {
        if (process->n_mappings != reading->n || !process->maps_serial)
                return false;
        for (size_t i = 0; i < reading->n; i++) {
                const Mapping *a = &process->mappings[i], *b = &reading->mappings[i];

                if (a->start != b->start || a->end != b->end || a->offset != b->offset ||
                    a->kind != b->kind || a->object != b->object || !change_alike(a, b))
                        return false;
        }
        return true;
}

/* Whether any of @mappings lies where @old does and is something else. */
static bool is_replaced(const Mapping *old, const Mapping *mappings, size_t n) {
        for (size_t i = 0; i < n && mappings[i].start < old->end; i++)
                if (mappings[i].end > old->start && !mapping_is_same_file(old, &mappings[i]))
                        return true;
        return false;
}

static bool is_among(const Mapping *old, const Mapping *mappings, size_t n) {
        for (size_t i = 0; i < n && mappings[i].start <= old->start; i++)
                if (mappings[i].start == old->start && mappings[i].end == old->end)
                        return mapping_is_same_file(old, &mappings[i]);
        return false;
}

/*
 * The mappings that a new read has not found are past. When they went is only known to lie between both
 * reads: what took their place may have been there all the time. A file that could not be read before and can
 * be now is no change.
 */
static int bury_mappings(Process *process, const ProcessReading *reading, uint64_t now_ns) {
        for (size_t i = 0, first = 0; i < process->n_mappings; i++) {
                Mapping *old = &process->mappings[i];
                int r;

                while (first < reading->n && reading->mappings[first].end <= old->start)
                        first++;
                if (old->kind == MAPPING_UNREADABLE ||
                    is_among(old, reading->mappings + first, reading->n - first))
                        continue;
                r = mapping_history_add(&process->history, old, now_ns,
                                        is_replaced(old, reading->mappings + first, reading->n - first)
                                                ? process->maps_read_ns
                                                : UINT64_MAX);
                if (r)
                        return r;
        }
        return 0;
}

/*
 * An area whose memory turns out to change unseen: the notice of that was lost. Nothing is sure of it since
 * its rows hold.
 */
static int void_changing(Process *process) {
        MadeAreas *made = process->made;
        int r = 0;

        for (uint32_t i = 0; made && i < made->n_pieces && !r; i++) {
                MadePiece *piece = &made->pieces[i];

                if (piece->is_void || !has_changing(process, piece))
                        continue;
                piece->is_void = true;
                r = bury_area(process, piece, piece->since_ns);
        }
        return r;
}

static int adopt(Process *process, ProcessReading *reading, uint64_t now_ns) {
        int r = 0;

        if (!same_mappings(process, reading)) {
                r = bury_mappings(process, reading, now_ns);
                free_mappings(process->mappings, process->n_mappings);
                process->mappings = take(reading->mappings);
                process->n_mappings = reading->n;
                reading->n = 0;
                process->maps_serial = new_serial();
                if (!r)
                        r = void_changing(process);
        }
        process->maps_read_ns = now_ns;
        return r;
}

int process_reading_note(ProcessReading *reading, const Mapping *mapping, uint64_t time_ns) {
        Noted *noted = reading->noted ?: malloc(MAX_NOTED * sizeof(*noted));
        int r;

        if (!noted)
                return error_origin(-ENOMEM);
        reading->noted = noted;
        if (reading->n_noted >= MAX_NOTED)
                return PROCESS_E_MORE;
        r = mapping_copy(&noted[reading->n_noted].mapping, mapping, mapping->start, mapping->end);
        if (r)
                return r;
        noted[reading->n_noted++].time_ns = time_ns;
        return 0;
}

/* The text may be older than the notices since then. */
static int change_noted(Process *process, ProcessReading *reading) {
        int r = 0;

        for (size_t i = 0; i < reading->n_noted; i++) {
                Mapping mapping = reading->noted[i].mapping;

                reading->noted[i].mapping = (Mapping){ 0 };
                if (r)
                        mapping_deinit(&mapping);
                else
                        r = process_change(process, &mapping, reading->noted[i].time_ns);
        }
        return r;
}

/*
 * Between two turns it may have exited, or run another program, whose maps our descriptor does not show: they
 * end. In the middle of an exec its stack is nowhere.
 */
static bool is_same_program(const Process *process, const ProcessReading *reading) {
        char comm[ABI_COMM_SIZE];
        ProcessStat stat;

        if (!reading->was_paused)
                return true;
        return process_identify((pid_t)process->pid, &stat, comm) == 0 &&
                stat.start_time_ns == process->start_time_ns &&
                !has_executed(process, &stat) &&
                faccessat(reading->proc_fd, "stat", R_OK, 0) == 0;
}

static int finish_reading(Process *process, ProcessReading *reading) {
        int r;

        /*
         * An address space that was torn down meanwhile reads as an empty file. If it was torn down after its
         * maps were read, no file of it could be opened.
         */
        if ((!reading->n && !process->is_kernel) || !is_same_program(process, reading) ||
            (reading->lacks_file && !process_has_memory(reading->proc_fd)))
                return PROCESS_E_GONE;
        memcpy(process->remote, reading->remote, sizeof(process->remote));
        process->awaits_files = reading->awaits_files;
        r = adopt(process, reading, reading->begin_ns);
        return r ? r : change_noted(process, reading);
}

int process_read_some(Process *process, ObjectCache *objects, size_t *leftp, ProcessReading **readingp) {
        _cleanup_(process_reading_freep) ProcessReading *reading = take(*readingp);
        int r = reading ? 0 : begin_reading(process, objects, &reading);

        if (r)
                return r;
        maps_reader_begin_turn(&reading->reader, FREE_TEXT, leftp);
        mounts_renew(&reading->mounts);
        r = read_all(reading);
        maps_reader_end_turn(&reading->reader, leftp);
        if (r == PROCESS_E_MORE) {
                stat_add(COUNTER_MAPS_PAUSED, 1);
                reading->was_paused = true;
                *readingp = take(reading);
        }
        return r ? r : finish_reading(process, reading);
}

int process_read_mappings(Process *process, ObjectCache *objects) {
        ProcessReading *reading = NULL;

        return process_read_some(process, objects, NULL, &reading);
}

const Mapping *process_executable(const Process *process) {
        for (size_t i = 0; process->exe && i < process->n_mappings; i++) {
                const Mapping *mapping = &process->mappings[i];

                if (mapping->object && mapping->kind == MAPPING_FILE && !strcmp(mapping->path, process->exe))
                        return mapping;
        }
        return NULL;
}

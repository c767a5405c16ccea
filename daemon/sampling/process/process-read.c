/* SPDX-License-Identifier: Apache-2.0 */

/* What /proc/PID/maps shows at one time, and how it came there since the time before. */
#include "sampling/process/process-private.h"

#include <errno.h>
#include <fcntl.h>
#include <stddef.h>
#include <string.h>
#include <unistd.h>

#include "base/util/clock.h"
#include "base/util/error.h"
#include "base/util/stat.h"

enum {
        FREE_TEXT = 256 << 10,          /* about 3,000 mappings */
        FILE_COST = 2 << 10,            /* bytes of text that cost as much as to know a file again */
        MAX_NOTED = 256,
};

typedef struct Noted {
        Mapping mapping;
        uint64_t time_ns;
} Noted;

/* Mappings while they are being read. */
struct ProcessReading {
        ObjectCache *objects;
        uint64_t begin_ns;
        bool was_paused;
        Noted *noted;                   /* what has changed meanwhile */
        size_t n_noted;
        int proc_fd;
        Mapping *mappings;
        size_t n, room;
        Mounts mounts;
        MapsReader reader;
        char path[MAPS_MAX_NAME];
};

ProcessReading *process_reading_free(ProcessReading *reading) {
        if (!reading)
                return NULL;
        for (size_t i = 0; i < reading->n_noted; i++)
                mapping_deinit(&reading->noted[i].mapping);
        free(reading->noted);
        process_free_mappings(reading->mappings, reading->n);
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

static int identify_file(ProcessReading *reading, const MapsEntry *entry, Mapping *mapping) {
        ObjectSource source = { .proc_fd = reading->proc_fd, .entry = entry, .path = reading->path,
                                .mounts = &reading->mounts };
        int r = object_open(reading->objects, &source, &mapping->object);

        if (r < 0)
                return r;
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

static int reserve(ProcessReading *reading) {
        size_t room = reading->room ? reading->room * 2 : 32;
        Mapping *mappings;

        if (reading->n < reading->room)
                return 0;
        mappings = realloc(reading->mappings, room * sizeof(*mappings));
        if (!mappings)
                return error_origin(-ENOMEM);
        reading->mappings = mappings;
        reading->room = room;
        return 0;
}

/* Adds an executable mapping. The kernel prints them in order, so what would overlap is not from a kernel. */
static int add_mapping(ProcessReading *reading, const MapsEntry *entry) {
        Mapping mapping = { .start = entry->start, .end = entry->end, .offset = entry->offset };
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
        r = reserve(reading);
        if (!r)
                r = identify(reading, entry, &mapping);
        if (r)
                return r;
        mapping.path = strdup(reading->path);
        if (!mapping.path) {
                object_unref(mapping.object);
                return error_origin(-ENOMEM);
        }
        reading->mappings[reading->n++] = mapping;
        return 0;
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
                if (!entry.executable)
                        continue;
                r = add_mapping(reading, &entry);
                if (r)
                        return r;
        }
}

static int reading_start(const Process *process, ObjectCache *objects, ProcessReading **readingp) {
        _cleanup_(process_reading_freep) ProcessReading *reading = malloc(sizeof(*reading));
        int r, fd;

        if (!reading)
                return error_origin(-ENOMEM);
        memset(reading, 0, offsetof(ProcessReading, reader));
        reading->objects = objects;
        reading->proc_fd = reading->reader.fd = -1;
        r = process_open_living((pid_t)process->pid, process->start_time_ns, &reading->proc_fd, NULL);
        if (r)
                return r;
        fd = openat(reading->proc_fd, "maps", O_RDONLY | O_CLOEXEC);
        maps_reader_init(&reading->reader, fd);
        if (fd < 0)
                return process_condition(errno);
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
                    a->kind != b->kind || a->object != b->object)
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

static int adopt(Process *process, ProcessReading *reading, uint64_t now_ns) {
        int r = 0;

        if (!same_mappings(process, reading)) {
                r = bury_mappings(process, reading, now_ns);
                process_free_mappings(process->mappings, process->n_mappings);
                process->mappings = take(reading->mappings);
                process->n_mappings = reading->n;
                reading->n = 0;
                process->maps_serial = process_new_serial();
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

/* What was read may be older than what notices have told since then. */
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
                (!process->stack_start || stat.stack_start == process->stack_start) &&
                faccessat(reading->proc_fd, "stat", R_OK, 0) == 0;
}

static int begin_reading(const Process *process, ObjectCache *objects, ProcessReading **readingp) {
        uint64_t now_ns = clock_monotonic_ns();
        int r;

        stat_add(COUNTER_MAPS_READS, 1);
        r = reading_start(process, objects, readingp);
        if (!r)
                (*readingp)->begin_ns = now_ns;
        return r;
}

static int finish_reading(Process *process, ProcessReading *reading) {
        int r;

        /* An address space that was torn down meanwhile reads as an empty file. */
        if ((!reading->n && !process->is_kernel) || !is_same_program(process, reading))
                return PROCESS_E_GONE;
        r = adopt(process, reading, reading->begin_ns);
        return r ? r : change_noted(process, reading);
}

int process_read_some(Process *process, ObjectCache *objects, size_t *leftp, ProcessReading **readingp) {
        _cleanup_(process_reading_freep) ProcessReading *reading = take(*readingp);
        int r = reading ? 0 : begin_reading(process, objects, &reading);

        if (r)
                return r;
        maps_reader_begin_turn(&reading->reader, FREE_TEXT, leftp);
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

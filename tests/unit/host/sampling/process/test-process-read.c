/* SPDX-License-Identifier: Apache-2.0 */

/* What a process has mapped: at once, and in several turns. */

#include <fcntl.h>
#include <sys/mman.h>

#include "child.h"
#include "core/base/util/clock.h"
#include "core/base/util/stat.h"
#include "oracle.h"
#include "process-bench.h"
#include "stat-reset.h"

Test(process, reads_the_executable_mappings_that_maps_shows) {
        ObjectCache *objects = cache();
        char line[512], command[128];
        Process *process;
        size_t n = 0;
        FILE *pipe;

        cr_assert_eq(process_new(&process, getpid()), 0);
        cr_assert_eq(process_read_mappings(process, objects), 0);
        snprintf(command, sizeof(command), "grep -E '^[^ ]* ..x' /proc/%d/maps", getpid());
        pipe = popen(command, "r");
        while (fgets(line, sizeof(line), pipe)) {
                unsigned long start, end, offset;
                char path[256] = "";

                cr_assert_geq(sscanf(line, "%lx-%lx %*s %lx %*s %*s %255s", &start, &end, &offset, path), 3);
                cr_assert_lt(n, process->n_mappings);
                cr_expect_eq(process->mappings[n].start, start);
                cr_expect_eq(process->mappings[n].end, end);
                cr_expect_eq(process->mappings[n].offset, offset);
                cr_expect_str_eq(process->mappings[n].path, path);
                cr_expect_eq(process->mappings[n].kind,
                             path[0] == '/'                    ? MAPPING_FILE
                                     : !strcmp(path, "[vdso]") ? MAPPING_VDSO
                                                               : MAPPING_ANONYMOUS,
                             "%s", path);
                cr_expect_eq(process_find_mapping(process, start), &process->mappings[n]);
                cr_expect_eq(process_find_mapping(process, end - 1), &process->mappings[n]);
                cr_expect_neq(process_find_mapping(process, end), &process->mappings[n]);
                cr_expect_neq(process_find_mapping(process, start - 1), &process->mappings[n]);
                n++;
        }
        pclose(pipe);
        cr_assert_eq(n, process->n_mappings);
        cr_assert_null(process_find_mapping(process, 0));
        cr_assert_null(process_find_mapping(process, UINT64_MAX));
        process_free(process);
        object_cache_free(objects);
}

static void idle(int ready, int go) {
}

/* While it is open, it is this one process, and nothing looks for its directory again. */
Test(process, is_read_through_its_open_directory_until_it_is_closed) {
        ObjectCache *objects = cache();
        Child child = child_start(idle);
        Process *process;

        cr_assert_eq(process_new_open(&process, child.pid), 0);
        cr_assert(process->is_open);
        process->start_time_ns++;       /* a second look for it finds none */
        cr_assert_eq(process_read_identity(process, IDENTITY_CGROUP, true), 0);
        cr_assert_eq(process_read_mappings(process, objects), 0);
        cr_assert_gt(process->n_mappings, 1);
        cr_assert_not(process->is_open, "its mappings are read last");
        cr_assert_eq(process_read_mappings(process, objects), PROCESS_E_GONE);
        process_free(process);
        cr_assert_eq(process_new_open(&process, child.pid), 0);
        child_stop(&child);
        cr_assert_eq(process_read_mappings(process, objects), PROCESS_E_GONE);
        process_free(process);
        object_cache_free(objects);
}

/* One line of them is enough, which our forked child has, too: all of a sanitizer's fit into no look. */
static void look_at_code(ProcessLook *look) {
        FILE *maps = fopen("/proc/self/maps", "r");
        bool is_code = false;

        cr_assert_not_null(maps);
        while (!is_code && fgets(look->maps, sizeof(look->maps), maps))
                is_code = strstr(look->maps, " r-xp ") && strchr(look->maps, '/');
        fclose(maps);
        cr_assert(is_code);
        look->n_maps = (int32_t)strlen(look->maps);
}

/* What is in its maps was seen; which files these are was not. */
Test(process, that_exits_between_its_maps_and_their_files_is_gone) {
        ObjectCache *objects = cache();
        Child child = child_start(idle);
        Process *process;

        cr_assert_eq(process_new_open(&process, child.pid), 0);
        cr_assert_eq(process_read_identity(process, IDENTITY_ENVIRONMENT, true), 0);
        look_at_code(process->look);
        child_stop(&child);
        cr_assert_eq(process_read_mappings(process, objects), PROCESS_E_GONE);
        cr_assert_eq(process->n_mappings, 0);
        cr_assert_eq(process->maps_serial, 0);
        process_free(process);
        object_cache_free(objects);
}

/* A file that nobody can open is no sign of it. */
Test(process, that_has_code_of_no_file_is_read_while_it_lives) {
        _cleanup_(closep) int fd = open("/dev/zero", O_RDWR | O_CLOEXEC);
        ObjectCache *objects = cache();
        const Mapping *mapping;
        Process *process;
        void *code = mmap(NULL, 4096, PROT_READ | PROT_EXEC, MAP_PRIVATE, fd, 0);

        cr_assert_neq(code, MAP_FAILED);
        cr_assert_eq(process_new(&process, getpid()), 0);
        cr_assert_eq(process_read_mappings(process, objects), 0);
        mapping = process_find_mapping(process, (uintptr_t)code);
        cr_assert_not_null(mapping);
        cr_assert_eq(mapping->kind, MAPPING_UNREADABLE);
        munmap(code, 4096);
        process_free(process);
        object_cache_free(objects);
}

Test(process, shares_objects_and_keeps_them_for_the_next) {
        ObjectCache *objects = cache();
        const Object *libc = NULL;
        Process *a, *b;
        size_t known;

        stat_reset();
        cr_assert_eq(process_new(&a, getpid()), 0);
        cr_assert_eq(process_read_mappings(a, objects), 0);
        known = object_cache_count(objects);
        cr_assert_eq(stat_get(COUNTER_OBJECTS_OPENED), known);
        cr_assert_eq(process_new(&b, getpid()), 0);
        cr_assert_eq(process_read_mappings(b, objects), 0);
        cr_assert_eq(object_cache_count(objects), known);
        for (size_t i = 0; i < a->n_mappings; i++) {
                cr_assert_eq(a->mappings[i].object, b->mappings[i].object);
                if (strstr(a->mappings[i].path, "libc.so"))
                        libc = a->mappings[i].object;
        }
        cr_assert_not_null(libc);
        process_free(a);
        cr_assert_geq(libc->n_refs, 1);
        process_free(b);
        cr_assert_eq(libc->n_refs, 0);
        cr_assert_eq(process_new(&a, getpid()), 0);
        cr_assert_eq(process_read_mappings(a, objects), 0);
        cr_assert_eq(stat_get(COUNTER_OBJECTS_OPENED), known);  /* nothing was parsed again */
        process_free(a);
        object_cache_free(objects);
}

Test(process, keeps_its_mappings_and_their_serial_while_nothing_changes) {
        ObjectCache *objects = cache();
        Process *process;
        uint64_t serial;
        void *code;

        cr_assert_eq(process_new(&process, getpid()), 0);
        cr_assert_eq(process_read_mappings(process, objects), 0);
        serial = process->maps_serial;
        cr_assert_eq(process_read_mappings(process, objects), 0);
        cr_assert_eq(process->maps_serial, serial);
        code = mmap(NULL, 8192, PROT_READ | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        cr_assert_null(process_find_mapping(process, (uintptr_t)code));
        cr_assert_eq(process_read_mappings(process, objects), 0);
        cr_assert_neq(process->maps_serial, serial);
        cr_assert_eq(process_find_mapping(process, (uintptr_t)code)->kind, MAPPING_ANONYMOUS);
        process_free(process);
        object_cache_free(objects);
}

static MadePiece piece_of(const void *code) {
        uint64_t start = (uintptr_t)code;
        MadePiece piece = { .start = start, .end = start + 4096, .n_runs = 1 };

        piece.runs = malloc(sizeof(*piece.runs));
        cr_assert_not_null(piece.runs);
        *piece.runs = (MadeRun){ start, start + 4096 };
        return piece;
}

/* The notice of a change was lost. */
Test(process, knows_from_each_read_whether_memory_may_change) {
        ObjectCache *objects = cache();
        MadePiece piece;
        Process *process;
        uint64_t serial, now_ns;
        bool is_other;
        /* neighbours that it cannot be merged with */
        uint8_t *area = mmap(NULL, 3 * 4096, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        uint8_t *code = area + 4096;

        cr_assert_neq(area, MAP_FAILED);
        cr_assert_eq(mprotect(code, 4096, PROT_READ | PROT_EXEC), 0);
        cr_assert_eq(process_new(&process, getpid()), 0);
        cr_assert_eq(process_read_mappings(process, objects), 0);
        cr_assert(!process_find_mapping(process, (uintptr_t)code)->may_change);
        piece = piece_of(code);
        now_ns = clock_monotonic_ns();
        cr_assert_eq(process_take_made(process, &piece, 1, now_ns, &is_other), 0);
        cr_assert_not_null(made_areas_next(process->made, (uintptr_t)code, UINT64_MAX));
        serial = process->maps_serial;
        cr_assert_eq(mprotect(code, 4096, PROT_READ | PROT_WRITE | PROT_EXEC), 0);
        cr_assert_eq(process_read_mappings(process, objects), 0);
        cr_assert(process_find_mapping(process, (uintptr_t)code)->may_change);
        cr_assert_neq(process->maps_serial, serial);
        cr_assert_null(made_areas_next(process->made, (uintptr_t)code, UINT64_MAX), "nothing is sure of it");
        cr_assert(mapping_history_is_stale(&process->history, (uintptr_t)code, now_ns));
        cr_assert(!mapping_history_is_stale(&process->history, (uintptr_t)code, now_ns - 1));
        cr_assert_eq(mprotect(code, 4096, PROT_READ | PROT_EXEC), 0);
        cr_assert_eq(process_read_mappings(process, objects), 0);
        cr_assert(!process_find_mapping(process, (uintptr_t)code)->may_change);
        munmap(area, 3 * 4096);
        process_free(process);
        object_cache_free(objects);
}

/* ---- in several turns ---- */

enum { N_PAIRS = 6000 };                /* 12,000 lines: three times what a turn may always have */

typedef struct Crowd {
        char *memory;                   /* every other page executable; the page in front is free */
        ObjectCache *objects;
        Process *process;
        ProcessReading *reading;
} Crowd;

static void crowd_init(Crowd *crowd, pid_t pid) {
        stat_reset();
        crowd->objects = cache();
        crowd->reading = NULL;
        cr_assert_eq(process_new(&crowd->process, pid), 0);
}

static void crowd_end(Crowd *crowd) {
        process_reading_free(crowd->reading);
        process_free(crowd->process);
        object_cache_free(crowd->objects);
}

static char *map_crowd(void) {
        char *memory = mmap(NULL, (2 * N_PAIRS + 1) * 4096, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

        for (int i = 0; i < N_PAIRS; i++)
                mprotect(memory + (2 * i + 1) * 4096, 4096, PROT_READ | PROT_EXEC);
        return memory;
}

static int read_turn(Crowd *crowd) {
        size_t left = 0;

        return process_read_some(crowd->process, crowd->objects, &left, &crowd->reading);
}

Test(process, is_read_in_turns_as_at_once) {
        Process *at_once;
        unsigned n = 1;
        Crowd crowd;

        crowd.memory = map_crowd();
        crowd_init(&crowd, getpid());
        for (int r; (r = read_turn(&crowd)); n++) {
                cr_assert_eq(r, PROCESS_E_MORE);
                cr_assert_eq(crowd.process->n_mappings, 0, "all or nothing");
        }
        cr_assert_gt(n, 2);
        cr_assert_eq(stat_get(COUNTER_MAPS_PAUSED), n - 1);
        cr_assert_eq(stat_get(COUNTER_MAPS_READS), 1);
        cr_assert_null(crowd.reading);
        cr_assert_eq(process_new(&at_once, getpid()), 0);
        cr_assert_eq(process_read_mappings(at_once, crowd.objects), 0);
        cr_assert_geq(at_once->n_mappings, N_PAIRS);
        cr_assert_eq(at_once->n_mappings, crowd.process->n_mappings);
        for (size_t i = 0; i < at_once->n_mappings; i++)
                cr_assert_eq(at_once->mappings[i].start, crowd.process->mappings[i].start);
        process_free(at_once);
        crowd_end(&crowd);
}

/* Its line has been read already when it comes; a notice tells of it. */
Test(process, has_what_was_mapped_while_it_was_being_read) {
        Mapping mapping = { .kind = MAPPING_ANONYMOUS };
        Crowd crowd;

        crowd.memory = map_crowd();
        crowd_init(&crowd, getpid());
        cr_assert_eq(read_turn(&crowd), PROCESS_E_MORE);
        cr_assert_eq(mprotect(crowd.memory, 4096, PROT_READ | PROT_WRITE | PROT_EXEC), 0);
        mapping.start = (uintptr_t)crowd.memory;
        mapping.end = mapping.start + 4096;
        mapping.path = strdup("");
        cr_assert_eq(process_reading_note(crowd.reading, &mapping, clock_monotonic_ns()), 0);
        while (crowd.reading)
                cr_assert_geq(read_turn(&crowd), 0);
        cr_assert_not_null(process_find_mapping(crowd.process, mapping.start));
        cr_assert_not_null(process_find_mapping(crowd.process, mapping.end));
        for (size_t i = 1; i < crowd.process->n_mappings; i++)
                cr_assert_geq(crowd.process->mappings[i].start, crowd.process->mappings[i - 1].end);
        free(mapping.path);
        crowd_end(&crowd);
}

Test(process, counts_what_changes_while_it_is_being_read) {
        Mapping mapping = { .start = 4096, .end = 8192, .kind = MAPPING_ANONYMOUS, .path = (char[]){ "" } };
        unsigned n = 0;
        Crowd crowd;
        int r;

        crowd.memory = map_crowd();
        crowd_init(&crowd, getpid());
        cr_assert_eq(read_turn(&crowd), PROCESS_E_MORE);
        while (!(r = process_reading_note(crowd.reading, &mapping, clock_monotonic_ns())) && n < 100000)
                n++;
        cr_assert_eq(r, PROCESS_E_MORE);
        cr_assert_gt(n, 100);
        crowd_end(&crowd);
}

static void become_sleep_with_a_crowd(int ready, int go) {
        map_crowd();
        say(ready);
        hear(go);
        execl("/bin/sleep", "sleep", "1000", NULL);
}

/* Half of its maps would look like all of them. */
Test(process, that_exits_or_becomes_another_program_between_two_turns_is_gone) {
        for (int exec = 0; exec < 2; exec++) {
                Child child = child_start(become_sleep_with_a_crowd);
                char comm[ABI_COMM_SIZE] = "";
                ProcessStat stat;
                Crowd crowd;
                int r;

                crowd_init(&crowd, child.pid);
                cr_assert_eq(read_turn(&crowd), PROCESS_E_MORE);
                if (exec) {
                        say(child.go);
                        while (strcmp(comm, "sleep")) {
                                usleep(1000);
                                cr_assert_eq(process_identify(child.pid, &stat, comm), 0);
                        }
                } else {
                        child_stop(&child);
                }
                do
                        r = read_turn(&crowd);
                while (r == PROCESS_E_MORE);
                cr_assert_eq(r, PROCESS_E_GONE, "%d", exec);
                cr_assert_eq(crowd.process->n_mappings, 0);
                crowd_end(&crowd);
                if (exec)
                        child_stop(&child);
        }
}

/* Counts mappings of files, of the vdso too, and those without a file. */
static void count_mappings(size_t *n_filesp, size_t *n_areasp) {
        ObjectCache *objects = cache();
        Process *process;

        *n_filesp = *n_areasp = 0;
        cr_assert_eq(process_new(&process, getpid()), 0);
        cr_assert_eq(process_read_mappings(process, objects), 0);
        for (size_t i = 0; i < process->n_mappings; i++)
                if (process->mappings[i].kind == MAPPING_ANONYMOUS)
                        ++*n_areasp;
                else
                        ++*n_filesp;
        process_free(process);
        object_cache_free(objects);
}

/* Pages with code, each for itself, below all libraries: they are read first. */
Test(process, with_more_code_without_files_than_is_kept_keeps_its_files) {
        enum { N = PROCESS_MAX_AREAS + 100, PAGE = 4096 };
        size_t n_files, n_areas, n_files_before, n_areas_before;
        char *areas;

        count_mappings(&n_files_before, &n_areas_before);
        cr_assert_gt(n_files_before, 2);
        areas = mmap((void *)0x10000000, 2 * N * PAGE, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        for (int i = 0; i < N; i++)
                cr_assert_eq(mprotect(areas + 2 * i * PAGE, PAGE, PROT_READ | PROT_EXEC), 0);
        stat_reset();
        count_mappings(&n_files, &n_areas);
        cr_assert_eq(n_files, n_files_before);
        cr_assert_eq(n_areas, PROCESS_MAX_AREAS);
        cr_assert_eq(stat_get(COUNTER_MAPPINGS_OVER_CAP), N + n_areas_before - PROCESS_MAX_AREAS);
}

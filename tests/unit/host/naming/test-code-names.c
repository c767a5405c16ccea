/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Each test is a process of its own, and the one that makes code: its perf-map is /tmp/perf-PID.map with its
 * pid.
 */
#include <criterion/criterion.h>
#include <dlfcn.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "core/base/util/clock.h"
#include "core/base/util/stat.h"
#include "core/symbol/jit/code.h"
#include "host/naming/code-names.h"
#include "stat-reset.h"

static char path[64];
static bool is_past;
static uint64_t start;
static CodeNames *names;
static Process *process;
static ObjectCache *objects;

static void init(void) {
        stat_reset();
        umask(022);
        snprintf(path, sizeof(path), "/tmp/perf-%d.map", getpid());
        cr_assert_eq(code_names_new(&names, NULL, NULL), 0);
        cr_assert_eq(process_new(&process, getpid()), 0);
        process->generation = 7;
}

static void fini(void) {
        code_names_free(names);
        process_free(process);
        object_cache_free(objects);
        unlink(path);
}
TestSuite(code_names, .init = init, .fini = fini);

static void write_map(const char *mode, const char *text) {
        FILE *file = fopen(path, mode);

        cr_assert_not_null(file);
        fputs(text, file);
        fclose(file);
}

static int find(uint64_t address, const char **namep, size_t *sizep) {
        return code_names_find(names, process, address, clock_monotonic_ns(), namep, sizep, &start,
                               &is_past);
}

/* Asks for one sample until something is known for sure. */
static int find_patiently(uint64_t address, char *name) {
        uint64_t time_ns = clock_monotonic_ns();
        const struct timespec pause = { .tv_nsec = 1000000 };
        const char *found = NULL;
        size_t size = 0;
        int r;

        for (int i = 0; i < 60000; i++) {
                r = code_names_find(names, process, address, time_ns, &found, &size, &start, &is_past);
                if (r != CODE_NAMES_E_LATER)
                        break;
                code_names_wait(names, clock_monotonic_ns() + NS_PER_SEC);
                cr_assert_eq(code_names_work(names, 0), 0);
                nanosleep(&pause, NULL);
        }
        /* a worker that was fast has named the address before its look was collected, and counted */
        code_names_wait(names, clock_monotonic_ns() + 60 * NS_PER_SEC);
        name[0] = 0;
        if (!r) {
                memcpy(name, found, size);
                name[size] = 0;
        }
        return r;
}

Test(code_names, waits_for_nothing) {
        const char *name = NULL;
        size_t size;

        write_map("w", "1000 10 first\n");
        cr_assert_eq(find(0x1000, &name, &size), CODE_NAMES_E_LATER);
        cr_assert_null(name);
        cr_assert_eq(code_names_n_processes(names), 1);
}

Test(code_names, knows_the_name_when_the_file_was_read) {
        char name[CODE_MAX_NAME + 1];

        write_map("w", "1000 10 first\nnonsense\n");
        cr_assert_eq(find_patiently(0x1000, name), 0);
        cr_assert_str_eq(name, "first");
        cr_assert_eq(stat_get(COUNTER_CODE_FILES_READ), 1);
        cr_assert_eq(stat_get(COUNTER_CODE_RECORDS), 1);
        cr_assert_eq(stat_get(COUNTER_CODE_RECORDS_MALFORMED), 1);
}

Test(code_names, finds_what_came_after_the_first_look) {
        char name[CODE_MAX_NAME + 1];

        write_map("w", "1000 10 first\n");
        cr_assert_eq(find_patiently(0x1000, name), 0);
        cr_assert_eq(find_patiently(0x2000, name), CODE_NAMES_E_NONE, "the file was read after the sample");
        write_map("a", "2000 10 second\n");
        while (find_patiently(0x2000, name) == CODE_NAMES_E_NONE)
                ;
        cr_assert_str_eq(name, "second");
}

Test(code_names, expects_nothing_of_a_process_without_a_file) {
        char name[CODE_MAX_NAME + 1];
        const char *found;
        size_t size;

        cr_assert_eq(find_patiently(0x1000, name), CODE_NAMES_E_NONE);
        for (int i = 0; i < 1000; i++)
                cr_assert_eq(find(0x1000, &found, &size), CODE_NAMES_E_NONE);
}

Test(code_names, keeps_processes_apart) {
        char name[CODE_MAX_NAME + 1];
        Process *other;

        write_map("w", "1000 10 first\n");
        cr_assert_eq(find_patiently(0x1000, name), 0);
        cr_assert_eq(process_new_gone(&other, 4194304, 1, "gone\0\0\0\0\0\0\0\0\0\0\0"), 0);
        other->generation = 8;
        process_free(process);
        process = other;
        cr_assert_eq(find_patiently(0x1000, name), CODE_NAMES_E_NONE);
        cr_assert_eq(code_names_n_processes(names), 2);
}

Test(code_names, forgets_the_process_that_was_asked_for_least_recently) {
        CodeNamesLimits limits = { .max_processes = 2 };
        char name[CODE_MAX_NAME + 1];

        code_names_free(names);
        cr_assert_eq(code_names_new(&names, &limits, NULL), 0);
        write_map("w", "1000 10 first\n");
        for (uint64_t generation = 1; generation <= 5; generation++) {
                process->generation = generation;
                cr_assert_eq(find_patiently(0x1000, name), 0);
                cr_assert_leq(code_names_n_processes(names), 2);
        }
        cr_assert_eq(stat_get(COUNTER_CODE_FILES_READ), 5);
        process->generation = 4;
        cr_assert_eq(find_patiently(0x1000, name), 0);
        cr_assert_eq(stat_get(COUNTER_CODE_FILES_READ), 5, "it was still known");
}

/* Two users: this process, and one whose files are not there, since there is no such process. */
static Process *stranger_new(void) {
        Process *stranger;

        cr_assert_eq(process_new_gone(&stranger, 4194304, 1, "gone\0\0\0\0\0\0\0\0\0\0\0"), 0);
        stranger->generation = 8;
        return stranger;
}

static int find_of(Process *of, uint64_t time_ns) {
        const char *name;
        size_t size;

        return code_names_find(names, of, 0x1000, time_ns, &name, &size, &start, &is_past);
}

Test(code_names, a_user_with_many_processes_leaves_another_its_own) {
        enum { N = 4, CROWD = 20 };

        CodeNamesLimits limits = { .max_processes = N };
        Process *stranger = stranger_new();
        uint64_t time_ns = clock_monotonic_ns();
        char name[CODE_MAX_NAME + 1];

        code_names_free(names);
        cr_assert_eq(code_names_new(&names, &limits, NULL), 0);
        write_map("w", "1000 10 first\n");
        cr_assert_eq(find_of(stranger, time_ns), CODE_NAMES_E_LATER);
        for (uint64_t i = 0; i < CROWD; i++) {
                process->generation = 100 + i;
                cr_assert_eq(find_patiently(0x1000, name), 0);
        }
        cr_assert_eq(code_names_n_processes(names), N);
        cr_assert_eq(stat_get(COUNTER_CODE_PROCESSES_EVICTED), CROWD - (N - 1));
        cr_assert_eq(find_of(stranger, time_ns), CODE_NAMES_E_NONE, "it was looked at, and is still known");
        cr_assert_eq(stat_get(COUNTER_CODE_PROCESSES_EVICTED), CROWD - (N - 1));
        process_free(stranger);
}

Test(code_names, a_user_with_long_names_leaves_another_its_own) {
        enum { CROWD = 5, LINES = 1000 };

        CodeNamesLimits limits = { .max_bytes = 64 << 10 };
        Process *stranger = stranger_new();
        uint64_t time_ns = clock_monotonic_ns();
        char name[CODE_MAX_NAME + 1], line[200];

        code_names_free(names);
        cr_assert_eq(code_names_new(&names, &limits, NULL), 0);
        write_map("w", "1000 10 first\n");
        for (int i = 0; i < LINES; i++) {
                snprintf(line, sizeof(line), "%x 10 f%0100d\n", 0x2000 + 16 * i, i);
                write_map("a", line);
        }
        cr_assert_eq(find_of(stranger, time_ns), CODE_NAMES_E_LATER);
        for (uint64_t i = 0; i < CROWD; i++) {
                process->generation = 100 + i;
                cr_assert_eq(find_patiently(0x1000, name), 0);
                cr_assert_eq(code_names_work(names, 0), 0);
        }
        cr_assert_eq(code_names_n_processes(names), 2, "one alone may have more");
        cr_assert_eq(stat_get(COUNTER_CODE_PROCESSES_EVICTED), CROWD - 1);
        cr_assert_eq(find_of(stranger, time_ns), CODE_NAMES_E_NONE);
        cr_assert_eq(code_names_work(names, 0), 0);
        cr_assert_eq(find_patiently(0x1000, name), 0);
        cr_assert_eq(code_names_n_processes(names), 2);
        process_free(stranger);
}

Test(code_names, looks_of_a_crowd_leave_room_in_the_queue) {
        enum { CROWD = 200 };

        Process *stranger = stranger_new();
        uint64_t time_ns = clock_monotonic_ns();

        write_map("w", "1000 10 first\n");
        for (uint64_t i = 0; i < CROWD; i++) {
                process->generation = 100 + i;
                find_of(process, time_ns);
        }
        cr_assert_eq(find_of(stranger, time_ns), CODE_NAMES_E_LATER);
        code_names_wait(names, clock_monotonic_ns() + 60 * NS_PER_SEC);
        cr_assert_eq(find_of(stranger, time_ns), CODE_NAMES_E_NONE, "it was looked at");
        cr_assert_lt(stat_get(COUNTER_CODE_FILES_READ), CROWD / 2, "in front of most of the crowd");
        while (stat_get(COUNTER_CODE_FILES_READ) < CROWD) {
                cr_assert_eq(code_names_work(names, 0), 0);
                code_names_wait(names, clock_monotonic_ns() + 60 * NS_PER_SEC);
        }
        process_free(stranger);
}

Test(code_names, forgets_a_process_while_it_is_looked_at) {
        CodeNamesLimits limits = { .max_processes = 1 };
        const char *name;
        size_t size;

        code_names_free(names);
        cr_assert_eq(code_names_new(&names, &limits, NULL), 0);
        for (uint64_t generation = 1; generation <= 50; generation++) {
                process->generation = generation;
                cr_assert_eq(find(0x1000, &name, &size), CODE_NAMES_E_LATER);
        }
        code_names_wait(names, clock_monotonic_ns() + 60 * NS_PER_SEC);
        cr_assert_eq(code_names_n_processes(names), 1);
}

/* ---- registered frames: what is told of them, and when ---- */

static uint64_t told[8];                /* begins of the looks */
static unsigned n_told;

static int hear_made(void *userdata, uint32_t pid, uint64_t generation, MadeSet *set) {
        cr_assert_eq(pid, (uint32_t)getpid());
        cr_assert_eq(generation, process->generation);
        cr_assert_lt(n_told, 8);
        told[n_told++] = set->read_ns;
        return 0;
}

/* A library that may have frames is enough: a look that finds none is told, too. Return: a time behind it. */
static uint64_t look_at_frames(void) {
        uint64_t n_read = stat_get(COUNTER_MADE_READS), end_ns = clock_monotonic_ns() + 60 * NS_PER_SEC;

        cr_assert_eq(code_names_look_again(names), 0);
        code_names_wait(names, end_ns);
        if (stat_get(COUNTER_MADE_READS) == n_read)
                cr_skip_test("library: this libgcc keeps registered frames another way");
        return clock_monotonic_ns();
}

Test(code_names, tells_of_frames_once_notices_from_before_their_read_are_known) {
        uint64_t begin_ns = clock_monotonic_ns(), between_ns;
        const char *name;
        size_t size;

        cr_assert_not_null(dlopen("libgcc_s.so.1", RTLD_NOW));
        cr_assert_eq(object_cache_new(&objects, 64), 0);
        cr_assert_eq(process_read_mappings(process, objects), 0);
        code_names_set_made(names, hear_made, NULL);
        cr_assert_eq(find(0x1000, &name, &size), CODE_NAMES_E_LATER);
        code_names_wait(names, clock_monotonic_ns() + 60 * NS_PER_SEC);
        between_ns = look_at_frames();
        look_at_frames();
        cr_assert_eq(code_names_work(names, begin_ns), 0);
        cr_assert_eq(n_told, 0);
        cr_assert_eq(code_names_work(names, between_ns), 0);
        cr_assert_eq(n_told, 2);
        cr_assert_lt(told[0], told[1], "the older one comes first");
        cr_assert_eq(code_names_work(names, clock_monotonic_ns()), 0);
        cr_assert_eq(n_told, 3);
        cr_assert_lt(told[1], told[2]);
        cr_assert_gt(told[2], between_ns);
}

Test(code_names, tells_of_frames_of_a_process_that_it_has_forgotten) {
        CodeNamesLimits limits = { .max_processes = 1 };
        Process *stranger = stranger_new();
        const char *name;
        size_t size;

        code_names_free(names);
        cr_assert_eq(code_names_new(&names, &limits, NULL), 0);
        cr_assert_not_null(dlopen("libgcc_s.so.1", RTLD_NOW));
        cr_assert_eq(object_cache_new(&objects, 64), 0);
        cr_assert_eq(process_read_mappings(process, objects), 0);
        code_names_set_made(names, hear_made, NULL);
        cr_assert_eq(find(0x1000, &name, &size), CODE_NAMES_E_LATER);
        look_at_frames();
        n_told = 0;
        find_of(stranger, clock_monotonic_ns());
        cr_assert_eq(code_names_work(names, clock_monotonic_ns()), 0);
        cr_assert_geq(n_told, 1);
        process_free(stranger);
}

/* SPDX-License-Identifier: Apache-2.0 */

/* Control groups near their limit of memory, as files of a directory that stands for the hierarchy. */

#include <criterion/criterion.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>

#include "core/base/util/clock.h"
#include "core/base/util/macro.h"
#include "core/base/util/stat.h"
#include "host/service/limits/memory-watch.h"

enum { MIB = 1 << 20, N_PROGRAMS = 8 };

static char root[PATH_MAX - 256], mounts[PATH_MAX];
static MemoryWatch *watch;
static unsigned n_near[N_PROGRAMS], n_fast[N_PROGRAMS], n_out[N_PROGRAMS];
static uint64_t now_ns = 1000 * NS_PER_SEC;
static const ShareOwner owners[] = { { 1, 1, 1 }, { 2, 2, 2 }, { 3, 3, 3 } };

static void tell(void *userdata, uint64_t program, enum memory_sight sight) {
        static unsigned *const counts[] = {
                [MEMORY_SIGHT_NEAR] = n_near, [MEMORY_SIGHT_FAST] = n_fast, [MEMORY_SIGHT_OUT] = n_out
        };

        counts[sight][program]++;
}

static void put(const char *path, const char *text) {
        char full[PATH_MAX];
        FILE *file;

        snprintf(full, sizeof(full), "%s/%s", root, path);
        file = fopen(full, "w");
        cr_assert(file);
        fputs(text, file);
        fclose(file);
}

static void make_directory(const char *path) {
        char full[PATH_MAX];

        snprintf(full, sizeof(full), "%s/%s", root, path);
        cr_assert_eq(mkdir(full, 0755), 0);
}

/* @group: its directory. It uses @used MiB, of which @files are of files. */
static void use(const char *group, unsigned used, unsigned files) {
        char path[PATH_MAX], text[256];

        snprintf(path, sizeof(path), "%s/memory.current", group);
        snprintf(text, sizeof(text), "%llu\n", (unsigned long long)used * MIB);
        put(path, text);
        snprintf(path, sizeof(path), "%s/memory.stat", group);
        snprintf(text, sizeof(text), "anon 1\ninactive_file %llu\nactive_file %llu\n",
                 (unsigned long long)files / 2 * MIB, (unsigned long long)(files - files / 2) * MIB);
        put(path, text);
}

static void limit(const char *group, const char *bytes) {
        char path[PATH_MAX];

        snprintf(path, sizeof(path), "%s/memory.max", group);
        put(path, bytes);
}

/* Programs 1 and 2 are in cg/a/x, and 3 is in cg/b. */
static void add_all(void) {
        static const char *const processes[] = { "proc1", "proc1", "proc3" };

        memory_watch_begin(watch);
        for (uint64_t i = 0; i < 3; i++) {
                char proc[PATH_MAX];

                snprintf(proc, sizeof(proc), "%s/%s", root, processes[i]);
                cr_assert_eq(memory_watch_add(watch, i + 1, &owners[0], proc, mounts), 0);
        }
        memory_watch_end(watch);
}

static void begin(void) {
        static const char *const directories[] = { "cg", "cg/a", "cg/a/x", "cg/b", "proc1", "proc3" };

        snprintf(root, sizeof(root), "/tmp/spanprof-test-watch-XXXXXX");
        cr_assert(mkdtemp(root));
        for (size_t i = 0; i < sizeof(directories) / sizeof(*directories); i++)
                make_directory(directories[i]);
        snprintf(mounts, sizeof(mounts), "31 24 0:27 / %s/cg rw - cgroup2 cgroup2 rw\n", root);
        put("proc1/cgroup", "0::/a/x\n");
        put("proc3/cgroup", "0::/b\n");
        limit("cg/a", "536870912\n");
        limit("cg/a/x", "max\n");
        limit("cg/b", "max\n");
        use("cg/a", 100, 0);
        use("cg/a/x", 100, 0);
        use("cg/b", 4000, 0);
        cr_assert_eq(memory_watch_new(&watch, 2, tell, NULL), 0);
        add_all();
}

static void end(void) {
        char command[PATH_MAX];

        memory_watch_free(watch);
        snprintf(command, sizeof(command), "rm -r %s", root);
        cr_assert_eq(system(command), 0);
}

TestSuite(memory_watch, .init = begin, .fini = end);

/* Looks when the last look said so. Return: time until the next look, ms. */
static uint64_t look(void) {
        uint64_t next_ns = memory_watch_look(watch, now_ns), pause_ns = next_ns - now_ns;

        if (next_ns == UINT64_MAX)
                return next_ns;
        now_ns = next_ns;
        return pause_ns / NS_PER_MS;
}

Test(memory_watch, a_group_around_that_has_the_limit_is_seen) {
        cr_assert_eq(look(), 1000);
        use("cg/a", 300, 0);
        cr_assert_eq(look(), 100);
        use("cg/a", 420, 0);
        cr_assert_eq(look(), 10);
        cr_assert_eq(n_near[1], 0);
        use("cg/a", 462, 0);
        cr_assert_eq(look(), 10);
        cr_assert_eq(n_near[1], 1);
        cr_assert_eq(n_near[2], 1);
        cr_assert_eq(n_near[3], 0);
        /* its own group has no limit, whatever it uses */
        cr_assert_eq(n_out[1] + n_out[2] + n_out[3], 0);
}

Test(memory_watch, is_told_once_until_it_was_left_below) {
        use("cg/a", 470, 0);
        look();
        cr_assert_eq(n_near[1], 1);
        use("cg/a", 450, 0);
        look();
        use("cg/a", 490, 0);
        look();
        add_all();
        look();
        cr_assert_eq(n_near[1], 1);
        use("cg/a", 430, 0);
        look();
        use("cg/a", 490, 0);
        look();
        cr_assert_eq(n_near[1], 2);
}

Test(memory_watch, files_are_not_the_working_set) {
        use("cg/a", 511, 400);
        cr_assert_eq(look(), 1000);
        use("cg/a", 511, 200);
        cr_assert_eq(look(), 100);
        use("cg/a", 511, 80);
        cr_assert_eq(look(), 10);
        cr_assert_eq(n_near[1], 0);
        use("cg/a", 511, 40);
        look();
        cr_assert_eq(n_near[1], 1);
}

Test(memory_watch, a_limit_that_was_met_is_told) {
        put("cg/a/memory.events", "low 0\nhigh 0\nmax 5\noom 1\noom_kill 1\n");
        look();
        cr_assert_eq(n_out[1], 1);
        look();
        put("cg/a/memory.events", "low 0\nhigh 0\nmax 9\noom 1\noom_kill 1\n");
        look();
        cr_assert_eq(n_out[1], 1);
        put("cg/a/memory.events", "low 0\nhigh 0\nmax 9\noom 3\noom_kill 2\n");
        look();
        cr_assert_eq(n_out[1], 2);
        cr_assert_eq(n_out[2], 2);
        cr_assert_eq(n_out[3], 0);
}

/* Looks for @n_ms, while the group grows from @from MiB by @rate MiB/s; of that, @files of 100 are files. */
static void grow(unsigned from, unsigned rate, unsigned files, unsigned n_ms) {
        uint64_t begin_ns = now_ns;

        while (now_ns - begin_ns <= n_ms * NS_PER_MS) {
                unsigned more = (unsigned)((now_ns - begin_ns) / NS_PER_MS * rate / 1000);

                use("cg/a", from + more, more * files / 100);
                look();
        }
}

Test(memory_watch, what_grows_fast_is_told_before_it_is_near) {
        grow(20, 100, 0, 3200);
        cr_assert_eq(n_fast[1], 1);
        cr_assert_eq(n_fast[2], 1);
        cr_assert_eq(n_fast[3], 0);
        cr_assert_eq(n_near[1], 0);
        grow(400, 100, 0, 700);
        cr_assert_eq(n_near[1], 1);
        cr_assert_eq(n_fast[1], 1);
}

Test(memory_watch, what_has_ten_seconds_left_grows_not_fast) {
        grow(280, 8, 0, 10000);
        cr_assert_eq(n_fast[1], 0);
        grow(360, 20, 0, 1500);
        cr_assert_eq(n_fast[1], 1);
}

Test(memory_watch, what_cpus_hide_is_no_growth) {
        memory_watch_free(watch);
        cr_assert_eq(memory_watch_new(&watch, 64, tell, NULL), 0);
        add_all();
        grow(412, 0, 0, 1000);
        grow(443, 0, 0, 6000);
        cr_assert_eq(n_fast[1] + n_near[1], 0);
        grow(300, 6, 0, 10000);
        cr_assert_eq(n_fast[1] + n_near[1], 0);
}

Test(memory_watch, what_grows_by_more_than_cpus_hide_is_told) {
        memory_watch_free(watch);
        cr_assert_eq(memory_watch_new(&watch, 64, tell, NULL), 0);
        add_all();
        grow(280, 50, 0, 3000);
        cr_assert_eq(n_fast[1], 1);
        cr_assert_eq(n_near[1], 0);
        /* and no more once it rests */
        grow(430, 0, 0, 6000);
        grow(100, 0, 0, 2000);
        cr_assert_eq(look(), 1000);
}

Test(memory_watch, what_grows_below_half_of_the_limit_is_not_told) {
        grow(0, 100, 0, 1900);
        /* it is asked for more often, so that half is seen in time */
        cr_assert_eq(look(), 100);
        use("cg/a", 30, 0);
        grow(30, 0, 0, 2000);
        cr_assert_eq(n_fast[1], 0);
        cr_assert_eq(look(), 1000);
}

Test(memory_watch, files_that_are_read_grow_not) {
        grow(100, 100, 100, 4100);
        cr_assert_eq(n_fast[1] + n_near[1], 0);
        /* whether the whole grows or not: the group is full of files, which give way */
        for (unsigned i = 0; i < 30; i++) {
                use("cg/a", 511, 411 - MIN(i * 20, 340U));
                look();
        }
        cr_assert_eq(n_fast[1], 1);
}

Test(memory_watch, a_heap_that_is_emptied_again_and_again_is_told_once_in_a_minute) {
        for (unsigned i = 0; i < 20; i++)
                grow(200, 100, 0, 1900);
        cr_assert_eq(n_fast[1], 1);
        for (unsigned i = 0; i < 20; i++)
                grow(200, 100, 0, 1900);
        cr_assert_eq(n_fast[1], 2);
        cr_assert_eq(n_near[1], 0);
}

Test(memory_watch, who_begins_after_a_kill_is_told_to_grow_within_the_minute) {
        grow(200, 100, 0, 1900);
        cr_assert_eq(n_fast[1], 1);
        put("cg/a/memory.events", "low 0\nhigh 0\nmax 5\noom 1\noom_kill 1\n");
        grow(200, 100, 0, 1900);
        cr_assert_eq(n_out[1], 1);
        cr_assert_eq(n_fast[1], 2);
        /* another group under the same name */
        put("cg/a/memory.events", "low 0\nhigh 0\nmax 0\noom 0\noom_kill 0\n");
        grow(200, 100, 0, 1900);
        cr_assert_eq(n_out[1], 1);
        cr_assert_eq(n_fast[1], 3);
}

Test(memory_watch, what_had_grown_before_a_kill_is_no_forecast_after_it) {
        grow(200, 100, 0, 1900);
        cr_assert_eq(n_fast[1], 1);
        put("cg/a/memory.events", "low 0\nhigh 0\nmax 5\noom 1\noom_kill 1\n");
        use("cg/a", 400, 0);
        look();
        cr_assert_eq(n_out[1], 1);
        use("cg/a", 300, 0);
        look();
        cr_assert_eq(n_fast[1], 1);
        grow(260, 100, 0, 1900);
        cr_assert_eq(n_fast[1], 2);
}

Test(memory_watch, a_group_without_programs_is_not_asked) {
        cr_assert_eq(look(), 1000);
        memory_watch_begin(watch);
        memory_watch_end(watch);
        cr_assert_eq(look(), UINT64_MAX);
}

Test(memory_watch, groups_of_the_older_hierarchy) {
        snprintf(mounts, sizeof(mounts), "42 30 0:33 / %s/cg rw - cgroup cgroup rw,memory\n", root);
        put("proc1/cgroup", "4:memory:/a/x\n");
        put("cg/a/memory.limit_in_bytes", "536870912\n");
        put("cg/a/memory.usage_in_bytes", "500000000\n");
        put("cg/a/memory.stat", "inactive_file 400000000\ntotal_inactive_file 1000\ntotal_active_file 520\n");
        put("cg/a/memory.oom_control", "oom_kill_disable 0\nunder_oom 0\noom_kill 0\n");
        memory_watch_begin(watch);
        memory_watch_end(watch);
        add_all();
        look();
        cr_assert_eq(n_near[1], 1);
        put("cg/a/memory.oom_control", "oom_kill_disable 0\nunder_oom 0\noom_kill 2\n");
        look();
        cr_assert_eq(n_out[2], 1);
}

/* Groups of one program, from number @at on, which use @used MiB of 100 each. */
static void add_many(uint64_t program, unsigned at, unsigned n, unsigned used, unsigned files) {
        for (unsigned i = at; i < at + n; i++) {
                char path[64], text[64], proc[PATH_MAX];

                snprintf(path, sizeof(path), "cg/many%u", i);
                make_directory(path);
                limit(path, "104857600\n");
                use(path, used, files);
                snprintf(text, sizeof(text), "0::/many%u\n", i);
                put("proc1/cgroup", text);
                snprintf(proc, sizeof(proc), "%s/proc1", root);
                cr_assert_eq(memory_watch_add(watch, program, &owners[program], proc, mounts), 0);
        }
}

static void drop_all(void) {
        memory_watch_begin(watch);
        memory_watch_end(watch);
}

Test(memory_watch, has_room_for_so_many_groups_that_others_leave) {
        drop_all();
        memory_watch_begin(watch);
        add_many(1, 0, MEMORY_WATCH_MAX_GROUPS + 10, 100, 0);
        cr_assert_eq(stat_get(COUNTER_MEMORY_GROUPS_OVER_CAP), MEMORY_WATCH_MAX_GROUPS * 3 / 4 + 10);
        add_many(2, MEMORY_WATCH_MAX_GROUPS + 10, 5, 100, 0);
        memory_watch_end(watch);
        look();
        cr_assert_eq(n_near[1], MEMORY_WATCH_MAX_GROUPS / 4);
        cr_assert_eq(n_near[2], 5);
        drop_all();
        cr_assert_eq(look(), UINT64_MAX);
}

/* Files count until the whole has been asked, so these are as much work as groups that are close. */
Test(memory_watch, more_groups_are_each_asked_less_often) {
        uint64_t begin_ns = now_ns;

        drop_all();
        memory_watch_begin(watch);
        add_many(1, 0, 64, 96, 30);
        memory_watch_end(watch);
        for (unsigned i = 0; i < 2; i++)
                memory_watch_look(watch, begin_ns + i * 100 * NS_PER_MS);
        cr_assert_eq(n_near[1], 0);
        for (unsigned i = 0; i < 64; i++) {
                char path[64];

                snprintf(path, sizeof(path), "cg/many%u", i);
                use(path, 96, 0);
        }
        memory_watch_look(watch, begin_ns + 200 * NS_PER_MS);
        cr_assert_eq(n_near[1], 32);
        memory_watch_look(watch, begin_ns + 300 * NS_PER_MS);
        cr_assert_eq(n_near[1], 64);
}

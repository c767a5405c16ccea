/* SPDX-License-Identifier: Apache-2.0 */
#include <criterion/criterion.h>
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "core/base/util/stat.h"
#include "host/service/limits/group-limit.h"

/* A directory that stands for the root; files in it are as cgroups(7) and proc_pid_mountinfo(5) have them. */
static char root[PATH_MAX - 256];

static void begin(void) {
        snprintf(root, sizeof(root), "/tmp/spanprof-test-group-XXXXXX");
        cr_assert(mkdtemp(root));
}

static void end(void) {
        char command[PATH_MAX];

        snprintf(command, sizeof(command), "rm -r %s", root);
        cr_assert_eq(system(command), 0);
}

TestSuite(group_limit, .init = begin, .fini = end);

/* A file of @text at @path below the root, with its directories; each `@` in @text is the root. */
static void put(const char *path, const char *text) {
        char full[PATH_MAX];
        FILE *file;

        snprintf(full, sizeof(full), "%s%s", root, path);
        for (char *at = full + strlen(root) + 1; (at = strchr(at, '/')); at++) {
                *at = 0;
                cr_assert(!mkdir(full, 0755) || errno == EEXIST);
                *at = '/';
        }
        file = fopen(full, "w");
        cr_assert(file);
        for (; *text; text++)
                if (*text == '@')
                        fputs(root, file);
                else
                        fputc(*text, file);
        fclose(file);
}

static GroupLimit read_limit(void) {
        char proc[PATH_MAX];
        GroupLimit limit;

        snprintf(proc, sizeof(proc), "%s/proc", root);
        cr_assert_eq(group_limit_read(&limit, proc), 0);
        return limit;
}

static const char unified[] = "22 1 8:1 / / rw - ext4 /dev/sda1 rw\n"
                              "31 24 0:27 / @/cg rw,nosuid shared:9 - cgroup2 cgroup2 rw,nsdelegate\n";

Test(group_limit, is_the_least_of_the_own_group_and_those_around_it) {
        GroupLimit limit;

        put("/proc/cgroup", "0::/system.slice/agent.service\n");
        put("/proc/mountinfo", unified);
        put("/cg/system.slice/agent.service/memory.max", "max\n");
        put("/cg/system.slice/agent.service/memory.current", "3000000\n");
        put("/cg/system.slice/agent.service/memory.stat", "anon 1\ninactive_file 400000\nactive_file 50000\n");
        put("/cg/system.slice/agent.service/cpu.max", "50000 100000\n");
        put("/cg/system.slice/memory.max", "104857600\n");
        put("/cg/system.slice/cpu.max", "max 100000\n");
        put("/cg/memory.max", "209715200\n");
        put("/cg/cpu.max", "25000 50000\n");
        limit = read_limit();
        cr_assert_eq(limit.memory_bytes, 104857600);
        cr_assert_eq(group_limit_memory(&limit), 83886080);
        cr_assert_eq(group_limit_spare(&limit), 83886080 - (16 << 20));
        cr_assert_float_eq(limit.cpu_percent, 50, 1e-9);
        cr_assert_eq(group_limit_cpu(&limit), 40);
        cr_assert_eq(group_limit_used(&limit), 2550000);
        cr_assert_eq(group_limit_room(&limit), 104857600 - 2550000);
        group_limit_deinit(&limit);
}

/* What a container sees: its own group is at the mount point, with or without a namespace of groups. */
Test(group_limit, of_a_container_is_that_at_the_mount_point) {
        static const char *const groups[] = { "0::/\n", "0::/kubepods/pod7/c1\n", "0::/../../other\n" };
        static const char *const mounts[] = {
                "31 24 0:27 / @/cg ro - cgroup2 cgroup rw\n",
                "31 24 0:27 /kubepods/pod7/c1 @/cg ro - cgroup2 cgroup rw\n",
                "31 24 0:27 / @/cg ro - cgroup2 cgroup rw\n",
        };

        put("/cg/memory.max", "25165824\n");
        put("/other/memory.max", "1048576\n");
        put("/cg/cpu.max", "2000 100000\n");
        for (size_t i = 0; i < 3; i++) {
                GroupLimit limit;

                put("/proc/cgroup", groups[i]);
                put("/proc/mountinfo", mounts[i]);
                limit = read_limit();
                cr_assert_eq(limit.memory_bytes, 25165824, "%s", groups[i]);
                cr_assert_eq(group_limit_spare(&limit), 25165824 / 100 * 80 - (16 << 20));
                cr_assert_eq(group_limit_cpu(&limit), 1);
                group_limit_deinit(&limit);
        }
}

Test(group_limit, is_read_of_hierarchies_of_single_controllers_too) {
        GroupLimit limit;

        put("/proc/cgroup", "5:cpu,cpuacct:/a\n4:memory:/a/b\n3:cpuset:/a\n0::/\n");
        put("/proc/mountinfo", "40 30 0:31 / @/cpu rw - cgroup cgroup rw,cpu,cpuacct\n"
                               "41 30 0:32 / @/cpuset rw - cgroup cgroup rw,cpuset\n"
                               "42 30 0:33 / @/memory rw - cgroup cgroup rw,memory\n"
                               "43 30 0:34 / @/unified rw - cgroup2 cgroup2 rw\n");
        put("/memory/a/b/memory.limit_in_bytes", "9223372036854771712\n");
        put("/memory/a/b/memory.usage_in_bytes", "20971520\n");
        put("/memory/a/b/memory.stat", "inactive_file 7\ntotal_inactive_file 1000\ntotal_active_file 520\n");
        put("/memory/a/memory.limit_in_bytes", "33554432\n");
        put("/cpu/a/cpu.cfs_quota_us", "-1\n");
        put("/cpu/a/cpu.cfs_period_us", "100000\n");
        put("/cpu/cpu.cfs_quota_us", "200000\n");
        put("/cpu/cpu.cfs_period_us", "100000\n");
        put("/cpuset/cpu.cfs_quota_us", "1\n");
        limit = read_limit();
        cr_assert_eq(limit.memory_bytes, 33554432);
        cr_assert_eq(group_limit_used(&limit), 20970000);
        cr_assert_eq(group_limit_cpu(&limit), 160);
        group_limit_deinit(&limit);
}

Test(group_limit, is_none_where_nothing_says_one) {
        GroupLimit limit = read_limit();

        cr_assert_eq(limit.memory_bytes, 0);
        put("/proc/cgroup", "no group\n0::relative\n");
        put("/proc/mountinfo", "1 2\n31 24 0:27 / @/cg rw - cgroup2 cgroup2 rw\n");
        limit = read_limit();
        cr_assert_eq(limit.memory_bytes, 0);
        put("/proc/cgroup", "0::/a\n");
        put("/cg/a/memory.max", "max\n");
        put("/cg/a/cpu.max", "max 100000\n");
        limit = read_limit();
        cr_assert_eq(group_limit_memory(&limit), 0);
        cr_assert_eq(group_limit_spare(&limit), UINT64_MAX);
        cr_assert_eq(group_limit_cpu(&limit), 0);
        cr_assert_eq(group_limit_used(&limit), 0);
        cr_assert_eq(group_limit_room(&limit), UINT64_MAX);
        group_limit_deinit(&limit);
}

static int visit(void *userdata, const MemoryGroup *memory) {
        unsigned *np = userdata;

        cr_assert_eq(memory->limit_bytes, 1048576);
        (*np)++;
        return 0;
}

/* Return: groups with a limit that are seen of a process in so many groups, one in the other. */
static unsigned visit_nested(unsigned n) {
        char path[PATH_MAX] = "/cg", groups[PATH_MAX] = "0::", mounts[PATH_MAX], proc[PATH_MAX];
        uint64_t before = stat_get(COUNTER_MEMORY_GROUPS_OVER_CAP);
        unsigned n_seen = 0;

        for (unsigned i = 0; i <= n; i++) {
                char file[PATH_MAX + 16];

                snprintf(file, sizeof(file), "%s/memory.max", path);
                put(file, "1048576\n");
                strcat(path, "/g");
                if (i < n)
                        strcat(groups, "/g");
        }
        put("/proc/cgroup", groups);
        snprintf(mounts, sizeof(mounts), "31 24 0:27 / %s/cg rw - cgroup2 cgroup2 rw\n", root);
        snprintf(proc, sizeof(proc), "%s/proc", root);
        cr_assert_eq(memory_groups_each(proc, mounts, visit, &n_seen), 0);
        cr_assert_eq(stat_get(COUNTER_MEMORY_GROUPS_OVER_CAP) - before, n_seen < n + 1);
        return n_seen;
}

Test(group_limit, of_others_is_seen_in_so_many_groups_around_them) {
        cr_assert_eq(visit_nested(3), 4);
        cr_assert_eq(visit_nested(15), 16);
        cr_assert_eq(visit_nested(16), 16);
        cr_assert_eq(visit_nested(500), 16);
}

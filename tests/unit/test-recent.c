/* SPDX-License-Identifier: Apache-2.0 */
#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>

#include "target/recent.h"
#include "util/stat.h"

static const char name[ABI_COMM_SIZE] = "a-program";

static void add(Recent *recent, uint32_t pid, uint64_t time_ns, const char *path) {
        MappingNotice notice = { .pid = pid, .time_ns = time_ns, .start = time_ns << 12, .size = 4096, .path = path,
                                 .path_size = strlen(path) };

        cr_assert_eq(recent_add_mapping(recent, &notice), 0);
}

static int collect(void *userdata, const MappingNotice *notice) {
        char *text = userdata;

        sprintf(text + strlen(text), "%lu:%.*s ", notice->start >> 12, (int)notice->path_size, notice->path);
        return 0;
}

static const char *visit(Recent *recent, uint32_t pid, uint64_t since_ns, uint64_t time_ns) {
        static char text[8192];
        int r;

        text[0] = 0;
        r = recent_visit(recent, pid, since_ns, time_ns, collect, text);
        return r == RECENT_E_UNKNOWN ? "unknown" : r == RECENT_E_REPLACED ? "replaced" : text;
}

Test(recent, tells_what_a_program_has_mapped) {
        _cleanup_(recent_freep) Recent *recent = NULL;

        cr_assert_eq(recent_new(&recent, 64 << 10), 0);
        cr_assert_eq(recent_add_exec(recent, 7, name, 10), 0);
        cr_assert_eq(recent_add_exec(recent, 8, name, 11), 0);
        add(recent, 7, 12, "/bin/a");
        add(recent, 8, 13, "/bin/b");
        add(recent, 7, 14, "");
        cr_assert_str_eq(visit(recent, 7, 5, 100), "12:/bin/a 14: ");
        cr_assert_str_eq(visit(recent, 8, 5, 100), "13:/bin/b ");
        cr_assert_str_eq(visit(recent, 9, 5, 100), "unknown");
}

Test(recent, tells_programs_of_one_process_apart) {
        _cleanup_(recent_freep) Recent *recent = NULL;

        cr_assert_eq(recent_new(&recent, 64 << 10), 0);
        add(recent, 7, 9, "before");
        cr_assert_eq(recent_add_exec(recent, 7, name, 10), 0);
        add(recent, 7, 12, "first");
        cr_assert_eq(recent_add_exec(recent, 7, name, 20), 0);
        add(recent, 7, 22, "second");
        cr_assert_str_eq(visit(recent, 7, 5, 19), "12:first ");
        cr_assert_str_eq(visit(recent, 7, 5, 20), "22:second ");
        cr_assert_str_eq(visit(recent, 7, 5, 9), "replaced", "its exec was never seen");
        cr_assert_str_eq(visit(recent, 7, 21, 30), "unknown", "an earlier process had this id");
}

Test(recent, makes_room_and_never_tells_a_part) {
        _cleanup_(recent_freep) Recent *recent = NULL;
        unsigned n_known = 0;

        stat_reset();
        cr_assert_eq(recent_new(&recent, 8 << 10), 0);
        for (uint32_t pid = 1; pid <= 1000; pid++) {
                cr_assert_eq(recent_add_exec(recent, pid, name, 10 * pid), 0);
                add(recent, pid, 10 * pid + 1, "/usr/bin/some-program");
                add(recent, pid, 10 * pid + 2, "/lib/x");
                cr_assert_str_neq(visit(recent, pid, 0, UINT64_MAX), "unknown");
        }
        for (uint32_t pid = 1; pid <= 1000; pid++) {
                const char *found = visit(recent, pid, 0, UINT64_MAX);
                char expected[128];

                sprintf(expected, "%u:/usr/bin/some-program %u:/lib/x ", 10 * pid + 1, 10 * pid + 2);
                if (!strcmp(found, "unknown"))
                        continue;
                cr_assert_str_eq(found, expected);
                n_known++;
        }
        cr_assert_gt(n_known, 10);
        cr_assert_lt(n_known, 30);
        cr_assert_gt(stat_get(COUNTER_MAPPINGS_NOTICES_EVICTED), 2000, "none of them was two seconds old");
}

Test(recent, leaves_out_a_path_that_would_fill_it) {
        _cleanup_(recent_freep) Recent *recent = NULL;
        char path[4096];

        cr_assert_eq(recent_new(&recent, 4096), 0);
        memset(path, 'x', sizeof(path));
        path[sizeof(path) - 1] = 0;
        cr_assert_eq(recent_add_exec(recent, 7, name, 10), 0);
        add(recent, 7, 11, path);
        cr_assert_str_eq(visit(recent, 7, 5, 100), "");
}

Test(recent, tells_what_a_program_was_forked_from) {
        _cleanup_(recent_freep) Recent *recent = NULL;
        RecentOrigin origin;

        cr_assert_eq(recent_new(&recent, 64 << 10), 0);
        cr_assert_eq(recent_add_exec(recent, 7, name, 10), 0);
        add(recent, 7, 12, "/bin/a");
        cr_assert_eq(recent_add_fork(recent, 8, 7, 20), 0);
        add(recent, 8, 22, "/lib/of-the-child");
        cr_assert_eq(recent_add_exec(recent, 8, name, 30), 0);
        add(recent, 8, 32, "/bin/b");

        cr_assert_eq(recent_find_origin(recent, 7, 5, 25, &origin), 0);
        cr_assert_eq(origin.parent, 0);
        cr_assert_str_eq(origin.comm, name);
        cr_assert_eq(recent_parent(recent, 7), 0);
        cr_assert_eq(recent_parent(recent, 8), 7);
        cr_assert_eq(recent_find_origin(recent, 8, 15, 25, &origin), 0);
        cr_assert_eq(origin.parent, 7);
        cr_assert_eq(origin.time_ns, 20);
        cr_assert_str_eq(visit(recent, 8, 15, 25), "22:/lib/of-the-child ");
        cr_assert_eq(recent_find_origin(recent, 8, 15, 35, &origin), 0);
        cr_assert_eq(origin.parent, 0);
        cr_assert_eq(recent_find_origin(recent, 8, 15, 19, &origin), RECENT_E_REPLACED, "before it was there");
        cr_assert_eq(recent_find_origin(recent, 9, 0, 99, &origin), RECENT_E_UNKNOWN);
}

Test(recent, knows_an_exec_by_its_name_before_it_is_told) {
        _cleanup_(recent_freep) Recent *recent = NULL;
        char other[ABI_COMM_SIZE] = "other";

        cr_assert_eq(recent_new(&recent, 64 << 10), 0);
        cr_assert_eq(recent_add_fork(recent, 8, 7, 20), 0);
        cr_assert_eq(recent_add_exec(recent, 8, name, 30), 0);
        add(recent, 8, 32, "/bin/b");
        cr_assert_eq(recent_exec_under_way(recent, 8, name, 29), 30);
        cr_assert_eq(recent_exec_under_way(recent, 8, other, 29), 29, "it runs the old program still");
        cr_assert_eq(recent_exec_under_way(recent, 8, name, 31), 31, "it is over");
        cr_assert_eq(recent_exec_under_way(recent, 9, name, 29), 29);
        cr_assert_eq(recent_add_exec(recent, 9, name, UINT64_C(1000000000)), 0);
        cr_assert_eq(recent_exec_under_way(recent, 9, name, 29), 29, "too long ago");
}

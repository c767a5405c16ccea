/* SPDX-License-Identifier: Apache-2.0 */
#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>

#include "core/base/util/stat.h"
#include "host/sampling/discover/notice-history.h"
#include "stat-reset.h"

static const char name[ABI_COMM_SIZE] = "a-program";

static void add(NoticeHistory *history, uint32_t pid, uint64_t time_ns, const char *path) {
        MappingNotice notice = { .pid = pid,
                                 .time_ns = time_ns,
                                 .start = time_ns << 12,
                                 .size = 4096,
                                 .path = path,
                                 .path_size = strlen(path) };

        cr_assert_eq(notice_history_add_mapping(history, &notice), 0);
}

static int collect(void *userdata, const MappingNotice *notice) {
        char *text = userdata;

        sprintf(text + strlen(text), "%lu:%.*s ", notice->start >> 12, (int)notice->path_size, notice->path);
        return 0;
}

static const char *visit(NoticeHistory *history, uint32_t pid, uint64_t since_ns, uint64_t time_ns) {
        static char text[8192];
        int r;

        text[0] = 0;
        r = notice_history_visit(history, pid, since_ns, time_ns, collect, text);
        return r == NOTICE_HISTORY_E_UNKNOWN ? "unknown" : r == NOTICE_HISTORY_E_REPLACED ? "replaced" : text;
}

Test(history, tells_what_a_program_has_mapped) {
        _cleanup_(notice_history_freep) NoticeHistory *history = NULL;

        cr_assert_eq(notice_history_new(&history, 64 << 10), 0);
        cr_assert_eq(notice_history_add_exec(history, 7, name, 10), 0);
        cr_assert_eq(notice_history_add_exec(history, 8, name, 11), 0);
        add(history, 7, 12, "/bin/a");
        add(history, 8, 13, "/bin/b");
        add(history, 7, 14, "");
        cr_assert_str_eq(visit(history, 7, 5, 100), "12:/bin/a 14: ");
        cr_assert_str_eq(visit(history, 8, 5, 100), "13:/bin/b ");
        cr_assert_str_eq(visit(history, 9, 5, 100), "unknown");
}

Test(history, tells_programs_of_one_process_apart) {
        _cleanup_(notice_history_freep) NoticeHistory *history = NULL;

        cr_assert_eq(notice_history_new(&history, 64 << 10), 0);
        add(history, 7, 9, "before");
        cr_assert_eq(notice_history_add_exec(history, 7, name, 10), 0);
        add(history, 7, 12, "first");
        cr_assert_eq(notice_history_add_exec(history, 7, name, 20), 0);
        add(history, 7, 22, "second");
        cr_assert_str_eq(visit(history, 7, 5, 19), "12:first ");
        cr_assert_str_eq(visit(history, 7, 5, 20), "22:second ");
        cr_assert_str_eq(visit(history, 7, 5, 9), "replaced", "its exec was never seen");
        cr_assert_str_eq(visit(history, 7, 21, 30), "unknown", "an earlier process had this id");
}

Test(history, makes_room_and_never_tells_a_part) {
        _cleanup_(notice_history_freep) NoticeHistory *history = NULL;
        unsigned n_known = 0;

        stat_reset();
        cr_assert_eq(notice_history_new(&history, 8 << 10), 0);
        for (uint32_t pid = 1; pid <= 1000; pid++) {
                cr_assert_eq(notice_history_add_exec(history, pid, name, 10 * pid), 0);
                add(history, pid, 10 * pid + 1, "/usr/bin/some-program");
                add(history, pid, 10 * pid + 2, "/lib/x");
                cr_assert_str_neq(visit(history, pid, 0, UINT64_MAX), "unknown");
        }
        for (uint32_t pid = 1; pid <= 1000; pid++) {
                const char *found = visit(history, pid, 0, UINT64_MAX);
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

Test(history, leaves_out_a_path_that_would_fill_it) {
        _cleanup_(notice_history_freep) NoticeHistory *history = NULL;
        char path[4096];

        cr_assert_eq(notice_history_new(&history, 4096), 0);
        memset(path, 'x', sizeof(path));
        path[sizeof(path) - 1] = 0;
        cr_assert_eq(notice_history_add_exec(history, 7, name, 10), 0);
        add(history, 7, 11, path);
        cr_assert_str_eq(visit(history, 7, 5, 100), "");
}

Test(history, tells_what_a_program_was_forked_from) {
        _cleanup_(notice_history_freep) NoticeHistory *history = NULL;
        NoticeHistoryOrigin origin;

        cr_assert_eq(notice_history_new(&history, 64 << 10), 0);
        cr_assert_eq(notice_history_add_exec(history, 7, name, 10), 0);
        add(history, 7, 12, "/bin/a");
        cr_assert_eq(notice_history_add_fork(history, 8, 7, 20), 0);
        add(history, 8, 22, "/lib/of-the-child");
        cr_assert_eq(notice_history_add_exec(history, 8, name, 30), 0);
        add(history, 8, 32, "/bin/b");

        cr_assert_eq(notice_history_find_origin(history, 7, 5, 25, &origin), 0);
        cr_assert_eq(origin.parent, 0);
        cr_assert_str_eq(origin.comm, name);
        cr_assert_eq(notice_history_parent(history, 7), 0);
        cr_assert_eq(notice_history_parent(history, 8), 7);
        cr_assert_eq(notice_history_find_origin(history, 8, 15, 25, &origin), 0);
        cr_assert_eq(origin.parent, 7);
        cr_assert_eq(origin.time_ns, 20);
        cr_assert_str_eq(visit(history, 8, 15, 25), "22:/lib/of-the-child ");
        cr_assert_eq(notice_history_find_origin(history, 8, 15, 35, &origin), 0);
        cr_assert_eq(origin.parent, 0);
        cr_assert_eq(notice_history_find_origin(history, 8, 15, 19, &origin), NOTICE_HISTORY_E_REPLACED,
                     "before it was there");
        cr_assert_eq(notice_history_find_origin(history, 9, 0, 99, &origin), NOTICE_HISTORY_E_UNKNOWN);
}

Test(history, knows_an_exec_by_its_name_before_it_is_told) {
        _cleanup_(notice_history_freep) NoticeHistory *history = NULL;
        char other[ABI_COMM_SIZE] = "other";

        cr_assert_eq(notice_history_new(&history, 64 << 10), 0);
        cr_assert_eq(notice_history_add_fork(history, 8, 7, 20), 0);
        cr_assert_eq(notice_history_add_exec(history, 8, name, 30), 0);
        add(history, 8, 32, "/bin/b");
        cr_assert_eq(notice_history_exec_under_way(history, 8, name, 29), 30);
        cr_assert_eq(notice_history_exec_under_way(history, 8, other, 29), 29,
                     "it runs the old program still");
        cr_assert_eq(notice_history_exec_under_way(history, 8, name, 31), 31, "it is over");
        cr_assert_eq(notice_history_exec_under_way(history, 9, name, 29), 29);
        cr_assert_eq(notice_history_add_exec(history, 9, name, UINT64_C(1000000000)), 0);
        cr_assert_eq(notice_history_exec_under_way(history, 9, name, 29), 29, "too long ago");
}

Test(history, tells_when_the_next_program_began) {
        _cleanup_(notice_history_freep) NoticeHistory *history = NULL;

        cr_assert_eq(notice_history_new(&history, 64 << 10), 0);
        cr_assert_eq(notice_history_add_exec(history, 7, name, 10), 0);
        add(history, 7, 12, "first");
        cr_assert_eq(notice_history_add_exec(history, 7, name, 20), 0);
        add(history, 7, 22, "second");
        cr_assert_eq(notice_history_add_exec(history, 7, name, 30), 0);
        cr_assert_eq(notice_history_next_exec(history, 7, 15), 20);
        cr_assert_eq(notice_history_next_exec(history, 7, 20), 30);
        cr_assert_eq(notice_history_next_exec(history, 7, 30), 0);
        cr_assert_eq(notice_history_next_exec(history, 8, 15), 0);
        cr_assert_eq(notice_history_add_fork(history, 7, 6, 40), 0);
        cr_assert_eq(notice_history_add_exec(history, 7, name, 50), 0);
        cr_assert_eq(notice_history_next_exec(history, 7, 45), 50);
}

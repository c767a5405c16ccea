/* SPDX-License-Identifier: Apache-2.0 */
#include <criterion/criterion.h>

#include "target/finds.h"
#include "util/clock.h"
#include "util/stat.h"

enum { PID = 77, FOUND_NS = 1000000 };

/* What is counted of a find when @kind of notice, posted at @time_ns, comes after it. */
static uint64_t counted(FindKind find, uint32_t tgid, uint32_t kind, uint64_t time_ns) {
        struct abi_notice notice = { .tgid = tgid, .kind = kind, .time_ns = time_ns };
        Finds finds = { 0 };

        stat_reset();
        finds_add(&finds, PID, find, FOUND_NS);
        finds_told(&finds, &notice);
        cr_assert_eq(stat_get(COUNTER_SWEEP_FOUND), 0);
        finds_settle(&finds, UINT64_MAX);
        cr_assert_eq(finds.n, 0);
        return stat_get(COUNTER_SWEEP_FOUND);
}

Test(finds, are_those_of_a_notice_that_tells_of_them) {
        cr_expect_eq(counted(FIND_PROGRAM, PID, ABI_NOTICE_EXEC, FOUND_NS - 1), 0);
        cr_expect_eq(counted(FIND_PROGRAM, PID, ABI_NOTICE_EXEC, FOUND_NS + 1), 0, "it shows before it is told of");
        cr_expect_eq(counted(FIND_PROGRAM, PID, ABI_NOTICE_EXIT, FOUND_NS - 1), 0, "of who had the id before");
        cr_expect_eq(counted(FIND_PUBLICATION, PID, ABI_NOTICE_MAPPINGS, FOUND_NS - 1), 0);
}

Test(finds, are_our_own_if_notices_tell_of_something_else) {
        cr_expect_eq(counted(FIND_PROGRAM, PID + 1, ABI_NOTICE_EXEC, FOUND_NS), 1);
        cr_expect_eq(counted(FIND_PROGRAM, PID, ABI_NOTICE_MAPPINGS, FOUND_NS), 1);
        cr_expect_eq(counted(FIND_PROGRAM, PID, ABI_NOTICE_SETTLED, FOUND_NS), 1);
        cr_expect_eq(counted(FIND_PROGRAM, PID, ABI_NOTICE_EXIT, FOUND_NS + 1), 1, "of who was found");
        cr_expect_eq(counted(FIND_PROGRAM, PID, ABI_NOTICE_EXEC, FOUND_NS + 2 * NS_PER_SEC), 1, "of the program after it");
        cr_expect_eq(counted(FIND_PUBLICATION, PID, ABI_NOTICE_EXEC, FOUND_NS), 1);
        cr_expect_eq(counted(FIND_PUBLICATION, PID, ABI_NOTICE_MAPPINGS, FOUND_NS + 2 * NS_PER_SEC), 1);
}

Test(finds, wait_until_notices_of_their_time_have_come) {
        Finds finds = { 0 };

        stat_reset();
        finds_add(&finds, 1, FIND_PROGRAM, FOUND_NS);
        finds_add(&finds, 2, FIND_PROGRAM, FOUND_NS + NS_PER_SEC);
        finds_settle(&finds, FOUND_NS + NS_PER_SEC - 1);
        cr_assert_eq(stat_get(COUNTER_SWEEP_FOUND), 0);
        finds_settle(&finds, FOUND_NS + NS_PER_SEC);
        cr_assert_eq(stat_get(COUNTER_SWEEP_FOUND), 1);
        finds_settle(&finds, FOUND_NS + 2 * NS_PER_SEC);
        cr_assert_eq(stat_get(COUNTER_SWEEP_FOUND), 2);
}

Test(finds, are_bounded_and_all_counted) {
        Finds finds = { 0 };

        stat_reset();
        for (uint32_t i = 1; i <= FINDS_MAX + 10; i++) {
                finds_add(&finds, i, FIND_PROGRAM, FOUND_NS + i);
                finds_add(&finds, i, FIND_PROGRAM, FOUND_NS + i);       /* once each */
        }
        cr_assert_eq(finds.n, FINDS_MAX);
        cr_assert_eq(stat_get(COUNTER_SWEEP_FOUND), 10);
        finds_settle(&finds, UINT64_MAX);
        cr_assert_eq(stat_get(COUNTER_SWEEP_FOUND), FINDS_MAX + 10);
}

/* SPDX-License-Identifier: Apache-2.0 */
#include <criterion/criterion.h>

#include "core/base/util/clock.h"
#include "core/base/util/stat.h"
#include "host/sampling/discover/sweep-results.h"
#include "stat-reset.h"

enum { PID = 77, FOUND_NS = 1000000 };

/* What is counted of a find when @kind of notice, posted at @time_ns, comes after it. */
static uint64_t counted(SweepResultKind find, uint32_t tgid, uint32_t kind, uint64_t time_ns) {
        struct abi_notice notice = { .tgid = tgid, .kind = kind, .time_ns = time_ns };
        SweepResults results = { 0 };

        stat_reset();
        sweep_results_add(&results, PID, find, FOUND_NS);
        sweep_results_told(&results, &notice);
        cr_assert_eq(stat_get(COUNTER_SWEEP_FOUND), 0);
        sweep_results_settle(&results, UINT64_MAX);
        cr_assert_eq(results.n, 0);
        return stat_get(COUNTER_SWEEP_FOUND);
}

Test(results, are_those_of_a_notice_that_tells_of_them) {
        cr_expect_eq(counted(SWEEP_PROGRAM, PID, ABI_NOTICE_EXEC, FOUND_NS - 1), 0);
        cr_expect_eq(counted(SWEEP_PROGRAM, PID, ABI_NOTICE_EXEC, FOUND_NS + 1), 0,
                     "it shows before it is told of");
        cr_expect_eq(counted(SWEEP_PROGRAM, PID, ABI_NOTICE_EXIT, FOUND_NS - 1), 0,
                     "of who had the id before");
        cr_expect_eq(counted(SWEEP_PUBLICATION, PID, ABI_NOTICE_MAPPINGS, FOUND_NS - 1), 0);
}

Test(results, are_our_own_if_notices_tell_of_something_else) {
        cr_expect_eq(counted(SWEEP_PROGRAM, PID + 1, ABI_NOTICE_EXEC, FOUND_NS), 1);
        cr_expect_eq(counted(SWEEP_PROGRAM, PID, ABI_NOTICE_MAPPINGS, FOUND_NS), 1);
        cr_expect_eq(counted(SWEEP_PROGRAM, PID, ABI_NOTICE_SETTLED, FOUND_NS), 1);
        cr_expect_eq(counted(SWEEP_PROGRAM, PID, ABI_NOTICE_EXIT, FOUND_NS + 1), 1, "of who was found");
        cr_expect_eq(counted(SWEEP_PROGRAM, PID, ABI_NOTICE_EXEC, FOUND_NS + 2 * NS_PER_SEC), 1,
                     "of the program after it");
        cr_expect_eq(counted(SWEEP_PUBLICATION, PID, ABI_NOTICE_EXEC, FOUND_NS), 1);
        cr_expect_eq(counted(SWEEP_PUBLICATION, PID, ABI_NOTICE_MAPPINGS, FOUND_NS + 2 * NS_PER_SEC), 1);
}

Test(results, wait_until_notices_of_their_time_have_come) {
        SweepResults results = { 0 };

        stat_reset();
        sweep_results_add(&results, 1, SWEEP_PROGRAM, FOUND_NS);
        sweep_results_add(&results, 2, SWEEP_PROGRAM, FOUND_NS + NS_PER_SEC);
        sweep_results_settle(&results, FOUND_NS + NS_PER_SEC - 1);
        cr_assert_eq(stat_get(COUNTER_SWEEP_FOUND), 0);
        sweep_results_settle(&results, FOUND_NS + NS_PER_SEC);
        cr_assert_eq(stat_get(COUNTER_SWEEP_FOUND), 1);
        sweep_results_settle(&results, FOUND_NS + 2 * NS_PER_SEC);
        cr_assert_eq(stat_get(COUNTER_SWEEP_FOUND), 2);
}

Test(results, are_bounded_and_all_counted) {
        SweepResults results = { 0 };

        stat_reset();
        for (uint32_t i = 1; i <= SWEEP_RESULTS_MAX + 10; i++) {
                sweep_results_add(&results, i, SWEEP_PROGRAM, FOUND_NS + i);
                sweep_results_add(&results, i, SWEEP_PROGRAM, FOUND_NS + i);       /* once each */
        }
        cr_assert_eq(results.n, SWEEP_RESULTS_MAX);
        cr_assert_eq(stat_get(COUNTER_SWEEP_FOUND), 10);
        sweep_results_settle(&results, UINT64_MAX);
        cr_assert_eq(stat_get(COUNTER_SWEEP_FOUND), SWEEP_RESULTS_MAX + 10);
}

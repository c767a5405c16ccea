/* SPDX-License-Identifier: Apache-2.0 */
#include <criterion/criterion.h>
#include <dirent.h>
#include <stdlib.h>
#include <unistd.h>

#include "core/base/util/clock.h"
#include "core/base/util/stat.h"
#include "host/sampling/discover/sweep.h"
#include "stat-reset.h"

typedef struct Seen {
        unsigned n, n_self;
        int answer;
} Seen;

static int look(void *userdata, uint32_t pid) {
        Seen *seen = userdata;

        seen->n++;
        seen->n_self += pid == (uint32_t)getpid();
        return seen->answer;
}

static unsigned count_processes(void) {
        DIR *dir = opendir("/proc");
        struct dirent *entry;
        unsigned n = 0;

        while ((entry = readdir(dir)))
                n += atoi(entry->d_name) > 0;
        closedir(dir);
        return n;
}

/* Lets it work until a pass is over. Return: the time of the last step. */
static uint64_t finish_pass(Sweep *sweep, Seen *seen, uint64_t now_ns) {
        uint64_t next_ns = now_ns;

        for (unsigned i = 0; i < 10000 && (!i || sweep->dir); i++) {
                now_ns = next_ns;
                cr_assert_eq(sweep_work(sweep, now_ns, look, seen, &next_ns), 0);
                cr_assert_gt(next_ns, now_ns);
        }
        cr_assert_null(sweep->dir);
        return now_ns;
}

Test(sweep, looks_at_few_processes_each_half_minute) {
        uint64_t now_ns = NS_PER_SEC, next_ns;
        Seen seen = { 0 };
        Sweep sweep = { 0 };

        cr_assert_eq(sweep_work(&sweep, now_ns, look, &seen, &next_ns), 0);
        cr_assert_eq(seen.n, 0, "the pass at the start has just been");
        cr_assert_eq(next_ns, now_ns + 30 * NS_PER_SEC);
        cr_assert_eq(sweep_work(&sweep, next_ns - 1, look, &seen, &next_ns), 0);
        cr_assert_eq(seen.n, 0);
        cr_assert_eq(sweep_work(&sweep, next_ns, look, &seen, &next_ns), 0);
        cr_assert_leq(seen.n, 16);
        cr_assert_gt(seen.n, 0);
        sweep_deinit(&sweep);
}

Test(sweep, goes_over_all_processes_at_once_when_notices_were_lost) {
        uint64_t now_ns = NS_PER_SEC, next_ns;
        unsigned n = count_processes();
        Seen seen = { 0 };
        Sweep sweep = { 0 };

        stat_reset();
        sweep_resync(&sweep);
        cr_assert_eq(stat_get(COUNTER_SWEEP_RESYNCS), 1);
        now_ns = finish_pass(&sweep, &seen, now_ns);
        cr_assert_eq(seen.n_self, 1);
        cr_assert_geq(seen.n, n / 2, "others come and go meanwhile");

        /* It rests before the next one, however soon that is asked for. */
        seen = (Seen){ 0 };
        sweep_resync(&sweep);
        cr_assert_eq(sweep_work(&sweep, now_ns + 1, look, &seen, &next_ns), 0);
        cr_assert_eq(seen.n, 0);
        cr_assert_geq(next_ns, now_ns + NS_PER_SEC);
        finish_pass(&sweep, &seen, next_ns);
        cr_assert_eq(seen.n_self, 1);
        sweep_deinit(&sweep);
}

Test(sweep, passes_up_what_a_look_says) {
        Seen seen = { .answer = -12 };
        Sweep sweep = { 0 };
        uint64_t next_ns;

        sweep_resync(&sweep);
        cr_assert_eq(sweep_work(&sweep, NS_PER_SEC, look, &seen, &next_ns), -12);
        cr_assert_eq(seen.n, 1);
        sweep_deinit(&sweep);
}

/* ---- finds ---- */

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

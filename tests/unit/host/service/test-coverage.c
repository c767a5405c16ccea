/* SPDX-License-Identifier: Apache-2.0 */
#include <criterion/criterion.h>
#include <string.h>

#include "core/base/util/stat.h"
#include "host/service/control/coverage.h"
#include "stat-reset.h"

Test(coverage, names_what_explains_the_larger_part) {
        static const struct {
                CoverageFacts facts;
                CoverageCause cause;
        } cases[] = {
                { { .expected = 1000, .ticks = 1000 }, COVERAGE_WHOLE },
                { { .expected = 1000, .ticks = 960 }, COVERAGE_WHOLE },
                { { .expected = 1000, .ticks = 1040, .stolen = 0.3 }, COVERAGE_WHOLE },
                { { .expected = 100, .ticks = 20 }, COVERAGE_WHOLE },
                { { .expected = 1000, .ticks = 1000, .lost = 300 }, COVERAGE_LOST },
                { { .expected = 1000, .ticks = 900, .lost = 300, .n_throttled = 9 }, COVERAGE_LOST },
                { { .expected = 1000, .ticks = 600, .lost = 10, .n_throttled = 1 }, COVERAGE_THROTTLED },
                { { .expected = 1000, .ticks = 800, .stolen = 0.2 }, COVERAGE_STOLEN },
                { { .expected = 1000, .ticks = 800, .stolen = 0.05 }, COVERAGE_LATE },
                { { .expected = 1000, .ticks = 1300, .stolen = 0.2 }, COVERAGE_STOLEN },
                { { .expected = 1000, .ticks = 1300 }, COVERAGE_UNSEEN },
                { { .expected = 1000, .ticks = 10, .lost = 20 }, COVERAGE_LATE },
        };

        for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
                cr_expect_eq(coverage_cause(&cases[i].facts), cases[i].cause, "case %zu: %s", i,
                             coverage_cause_name(coverage_cause(&cases[i].facts)));
        cr_assert_float_eq(coverage_ratio(&cases[5].facts), 0.6, 1e-9);
        cr_assert_float_eq(coverage_ratio(&cases[11].facts), 0, 1e-9);
        cr_assert_float_eq(coverage_ratio(&(CoverageFacts){ 0 }), 0, 1e-9);
}

Test(coverage, counts_targets_alone_and_never_below_zero) {
        CoverageFacts facts = { .expected = 100 };

        stat_reset();
        stat_add(COUNTER_TICKS, 100);
        stat_add(COUNTER_LOST_NOT_TARGET, 20);
        stat_add(COUNTER_LOST_RING_FULL, 10);
        stat_add(COUNTER_THROTTLED, 3);
        coverage_count(&facts);
        cr_assert_eq(facts.ticks, 80);
        cr_assert_eq(facts.lost, 10);
        cr_assert_eq(facts.n_throttled, 3);
        /* the kernel's counters were read before the daemon counted these */
        stat_add(COUNTER_LOST_NOT_TARGET, 90);
        coverage_count(&facts);
        cr_assert_eq(facts.ticks, 0);
        cr_assert_float_eq(coverage_ratio(&facts), 0, 1e-9);
        stat_reset();
}

Test(coverage, has_words_for_each_cause) {
        for (CoverageCause cause = COVERAGE_LOST; cause <= COVERAGE_UNSEEN; cause++) {
                cr_assert(*coverage_cause_name(cause));
                cr_assert(*coverage_cause_text(cause));
                cr_assert(*coverage_cause_fix(cause));
                cr_assert_eq(coverage_cause_in(coverage_cause_text(cause)), cause);
        }
        cr_assert_str_eq(coverage_cause_name(COVERAGE_WHOLE), "");
}

Test(coverage, share_of_the_host_is_between_two_readings) {
        const CoverageClock begin = { 1000, 100 }, end = { 2000, 300 };
        CoverageClock now;

        cr_assert_float_eq(coverage_stolen(&begin, &end), 0.2, 1e-9);
        cr_assert_float_eq(coverage_stolen(&end, &begin), 0, 1e-9);
        cr_assert_float_eq(coverage_stolen(&begin, &begin), 0, 1e-9);
        coverage_clock_read(&now);
        cr_assert_gt(now.all, 0);
        cr_assert_leq(now.stolen, now.all);
}

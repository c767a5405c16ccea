/* SPDX-License-Identifier: Apache-2.0 */
#include <criterion/criterion.h>

#include "core/base/util/clock.h"
#include "core/base/util/macro.h"
#include "host/service/limits/governor.h"

/* Intervals of exactly the length that counts, each with @percent of one CPU. */
static int run(Governor *governor, uint64_t *nowp, uint64_t *cpup, unsigned percent) {
        *nowp += GOVERNOR_INTERVAL_NS;
        *cpup += GOVERNOR_INTERVAL_NS * percent / 100;
        return governor_cpu(governor, *nowp, *cpup);
}

Test(governor, halves_the_frequency_for_each_interval_above_the_limit) {
        uint64_t now = 7, cpu = 3;
        Governor governor;

        governor_init(&governor, 99, 10, 0, now, cpu);
        cr_assert_eq(run(&governor, &now, &cpu, 10), 0);
        cr_assert_eq(run(&governor, &now, &cpu, 11), GOVERNOR_E_FORESEEN, "11 + 19 × 10 are more than 200");
        cr_assert_eq(governor.frequency, 49);
        cr_assert_eq(run(&governor, &now, &cpu, 300), GOVERNOR_E_LOWERED);
        cr_assert_eq(governor.frequency, 24);
}

Test(governor, judges_no_interval_that_is_too_short) {
        Governor governor;

        governor_init(&governor, 99, 10, 0, 0, 0);
        cr_assert(!governor_is_due(&governor, GOVERNOR_INTERVAL_NS - 1));
        cr_assert(governor_is_due(&governor, GOVERNOR_INTERVAL_NS));
        cr_assert_eq(governor_cpu(&governor, GOVERNOR_INTERVAL_NS - 1, GOVERNOR_INTERVAL_NS), 0);
        cr_assert_eq(governor.frequency, 99);
        cr_assert_eq(governor_cpu(&governor, GOVERNOR_INTERVAL_NS, GOVERNOR_INTERVAL_NS), GOVERNOR_E_LOWERED);
}

Test(governor, asks_for_no_cpu_time_without_a_limit) {
        Governor governor;

        governor_init(&governor, 99, 0, 0, 0, 0);
        cr_assert(!governor_is_due(&governor, 10 * GOVERNOR_INTERVAL_NS));
}

Test(governor, drops_what_is_beyond_the_frequency_first_and_gives_it_back_last) {
        uint64_t now = 0, cpu = 0;
        Governor governor;

        governor_init(&governor, 99, 30, 0, now, cpu);
        governor.has_more = true;
        cr_assert_eq(run(&governor, &now, &cpu, 50), GOVERNOR_E_LOWERED);
        cr_assert(governor.holds_more);
        cr_assert_eq(governor.frequency, 99);
        cr_assert_eq(run(&governor, &now, &cpu, 50), GOVERNOR_E_LOWERED);
        cr_assert_eq(governor.frequency, 49);
        for (int i = 0; i < GOVERNOR_CALM_INTERVALS - 1; i++)
                cr_assert_eq(run(&governor, &now, &cpu, 1), 0);
        cr_assert_eq(run(&governor, &now, &cpu, 1), GOVERNOR_E_RAISED);
        cr_assert_eq(governor.frequency, 99);
        cr_assert(governor.holds_more);
        for (int i = 0; i < GOVERNOR_CALM_INTERVALS - 1; i++)
                cr_assert_eq(run(&governor, &now, &cpu, 1), 0);
        cr_assert_eq(run(&governor, &now, &cpu, 1), GOVERNOR_E_RAISED);
        cr_assert(!governor.holds_more);
        for (int i = 0; i < 2 * GOVERNOR_CALM_INTERVALS; i++)
                cr_assert_eq(run(&governor, &now, &cpu, 1), 0);
}

Test(governor, drops_what_is_beyond_the_lowest_frequency) {
        uint64_t now = 0, cpu = 0;
        Governor governor;

        governor_init(&governor, 1, 30, 0, now, cpu);
        governor.has_more = true;
        cr_assert_eq(run(&governor, &now, &cpu, 31), GOVERNOR_E_LOWERED);
        cr_assert(governor.holds_more);
        cr_assert_eq(run(&governor, &now, &cpu, 90), 0);
        cr_assert_eq(governor.frequency, 1);
        governor_init(&governor, 32, 30, 0, now, cpu);
        governor.frequency = 2;         /* which is not lowered for what is only foreseen */
        cr_assert_eq(run(&governor, &now, &cpu, 60), GOVERNOR_E_LOWERED);
        cr_assert_eq(governor.frequency, 1);
        governor.frequency = 2;
        cr_assert_eq(run(&governor, &now, &cpu, 29), 0);
        governor.has_more = true;
        cr_assert_eq(run(&governor, &now, &cpu, 29), GOVERNOR_E_FORESEEN);
        cr_assert(governor.holds_more);
}

Test(governor, never_stops_the_clock) {
        uint64_t now = 0, cpu = 0;
        Governor governor;

        governor_init(&governor, 2, 1, 0, now, cpu);
        cr_assert_eq(run(&governor, &now, &cpu, 90), GOVERNOR_E_LOWERED);
        cr_assert_eq(run(&governor, &now, &cpu, 90), 0);
        cr_assert_eq(governor.frequency, 1);
}

Test(governor, goes_back_only_after_a_calm_while_and_only_to_what_was_configured) {
        uint64_t now = 0, cpu = 0;
        Governor governor;

        governor_init(&governor, 99, 30, 0, now, cpu);
        run(&governor, &now, &cpu, 50);
        run(&governor, &now, &cpu, 50);
        cr_assert_eq(governor.frequency, 24);
        for (unsigned i = 0; i < GOVERNOR_CALM_INTERVALS - 1; i++)
                cr_assert_eq(run(&governor, &now, &cpu, 5), 0);
        cr_assert_eq(run(&governor, &now, &cpu, 20), 0, "not calm: it begins anew");
        for (unsigned i = 0; i < GOVERNOR_CALM_INTERVALS - 1; i++)
                cr_assert_eq(run(&governor, &now, &cpu, 5), 0);
        cr_assert_eq(run(&governor, &now, &cpu, 5), GOVERNOR_E_RAISED);
        cr_assert_eq(governor.frequency, 48);
        for (unsigned i = 0; i < GOVERNOR_CALM_INTERVALS - 1; i++)
                cr_assert_eq(run(&governor, &now, &cpu, 5), 0);
        cr_assert_eq(run(&governor, &now, &cpu, 5), GOVERNOR_E_RAISED);
        cr_assert_eq(governor.frequency, 99);
        for (unsigned i = 0; i < 3 * GOVERNOR_CALM_INTERVALS; i++)
                cr_assert_eq(run(&governor, &now, &cpu, 0), 0);
}

Test(governor, without_a_limit_lets_everything_pass) {
        uint64_t now = 0, cpu = 0;
        Governor governor;

        governor_init(&governor, 99, 0, 0, now, cpu);
        cr_assert_eq(run(&governor, &now, &cpu, 1000), 0);
        cr_assert_not(governor_memory(&governor, UINT64_MAX));
}

Test(governor, lets_memory_fall_by_a_tenth_before_it_is_small_again) {
        Governor governor;

        governor_init(&governor, 99, 0, 1000, 0, 0);
        cr_assert_not(governor_memory(&governor, 1000));
        cr_assert(governor_memory(&governor, 1001));
        cr_assert(governor_memory(&governor, 950));
        cr_assert_not(governor_memory(&governor, 900));
        cr_assert_not(governor_memory(&governor, 950));
}

/* A daemon whose work is of ticks, @percent of a CPU at the configured frequency, from its start on. */
static void hold(unsigned percent, double *mostp, uint32_t *frequencyp) {
        double used[60], sum = 0;
        uint64_t now = 0, cpu = 0;
        Governor governor;

        *mostp = 0;
        governor_init(&governor, 99, 10, 0, now, cpu);
        for (int i = 0; i < 60; i++) {
                used[i] = (double)percent * governor.frequency / 99;
                sum += used[i] - (i < GOVERNOR_N_INTERVALS ? 0 : used[i - GOVERNOR_N_INTERVALS]);
                *mostp = MAX(*mostp, sum / GOVERNOR_N_INTERVALS);
                now += GOVERNOR_INTERVAL_NS;
                cpu += (uint64_t)((double)GOVERNOR_INTERVAL_NS * used[i] / 100);
                governor_cpu(&governor, now, cpu);
        }
        *frequencyp = governor.frequency;
}

Test(governor, holds_the_limit_over_each_ten_seconds) {
        uint32_t frequency;
        double most;

        for (unsigned percent = 0; percent <= 50; percent += 5) {
                hold(percent, &most, &frequency);
                cr_assert_leq(most, 10.01, "%u %% at the configured frequency: %g %%", percent, most);
                cr_assert(percent > 10 || frequency == 99, "%u %%: %u Hz", percent, frequency);
        }
}

Test(governor, makes_up_for_a_burst_in_the_seconds_behind_it) {
        uint64_t now = 0, cpu = 0;
        Governor governor;

        governor_init(&governor, 99, 10, 0, now, cpu);
        cr_assert_eq(run(&governor, &now, &cpu, 100), GOVERNOR_E_LOWERED);
        cr_assert_eq(run(&governor, &now, &cpu, 9), GOVERNOR_E_FORESEEN, "100 + 19 × 9 are more than 200");
        cr_assert_eq(run(&governor, &now, &cpu, 5), 0, "100 + 9 + 18 × 5 are not");
        cr_assert_eq(governor.frequency, 24);
}

/* 100 + 19 × 9.2 % are more than 200: with the burst out of its ten seconds, nothing is foreseen. */
Test(governor, counts_an_interval_of_any_length_by_its_length) {
        static const struct {
                unsigned n;             /* intervals, judged as one */
                int said;
        } cases[] = { { 1, GOVERNOR_E_FORESEEN }, { 6, GOVERNOR_E_FORESEEN }, { 20, 0 }, { 100, 0 } };

        for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
                uint64_t now = 0, cpu = 0, length_ns = cases[i].n * GOVERNOR_INTERVAL_NS;
                Governor governor;

                governor_init(&governor, 99, 10, 0, now, cpu);
                cr_assert_eq(run(&governor, &now, &cpu, 100), GOVERNOR_E_LOWERED);
                now += length_ns;
                cpu += length_ns * 92 / 1000;
                cr_assert_eq(governor_cpu(&governor, now, cpu), cases[i].said, "%u intervals", cases[i].n);
        }
}

/* A daemon that was held up for 3 s: 6 intervals of 30 %, so the next 14 may have 20 together. */
Test(governor, makes_up_for_a_long_interval) {
        uint64_t now = 3 * NS_PER_SEC, cpu = 3 * NS_PER_SEC * 30 / 100;
        Governor governor;

        governor_init(&governor, 1000, 10, 0, 0, 0);
        cr_assert_eq(governor_cpu(&governor, now, cpu), GOVERNOR_E_LOWERED);
        cr_assert_eq(run(&governor, &now, &cpu, 2), GOVERNOR_E_FORESEEN, "6 × 30 + 14 × 2 are more than 200");
        cr_assert_eq(run(&governor, &now, &cpu, 1), 0, "6 × 30 + 2 + 13 are not");
        cr_assert_eq(governor.frequency, 250);
}

/* A window is encoded and sent once in ten seconds. */
Test(governor, lets_the_end_of_a_window_pass) {
        uint64_t now = 0, cpu = 0;
        Governor governor;

        governor_init(&governor, 99, 10, 0, now, cpu);
        for (int i = 0; i < 5 * GOVERNOR_N_INTERVALS; i++)
                cr_assert_eq(run(&governor, &now, &cpu, i % GOVERNOR_N_INTERVALS == 7 ? 60 : 6), 0);
        cr_assert_eq(governor.frequency, 99);
}

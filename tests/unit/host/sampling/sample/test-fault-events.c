/* SPDX-License-Identifier: Apache-2.0 */
#include <criterion/criterion.h>

#include "host/sampling/sample/fault-events.h"

enum { HZ = 100 };

static bool is_prime(uint64_t n) {
        for (uint64_t i = 2; i * i <= n; i++)
                if (n % i == 0)
                        return false;
        return true;
}

Test(fault_events, draws_primes_in_a_range) {
        const uint32_t asked[] = { 1, 2, 97, 997, 4444, 1 << 20 };

        for (size_t i = 0; i < sizeof(asked) / sizeof(*asked); i++) {
                uint32_t draw = 0;
                uint64_t before = 0, n_equal = 0;

                for (int j = 0; j < 200; j++) {
                        uint64_t period = fault_period(asked[i], &draw);

                        cr_assert(is_prime(period), "%lu", (unsigned long)period);
                        cr_assert_geq(period, asked[i]);
                        cr_assert_leq(period, asked[i] + asked[i] / 4 + 40);    /* gaps between primes */
                        n_equal += period == before;
                        before = period;
                }
                cr_assert(asked[i] < 97 || n_equal == 0, "%u: another one each time", asked[i]);
        }
}

Test(fault_events, goes_up_at_once_and_down_by_steps) {
        uint32_t asked = fault_period_first(false);

        cr_assert_eq(asked, 997);
        asked = fault_period_next(asked, false, 400000, HZ);
        cr_assert_eq(asked, 4444, "%u", asked);
        cr_assert_eq(fault_period_next(asked, false, 20000, HZ), 3556);
        for (int i = 0; i < 100; i++)
                asked = fault_period_next(asked, false, 20000, HZ);
        cr_assert_eq(asked, 222);
        for (int i = 0; i < 100; i++)
                asked = fault_period_next(asked, false, 1, HZ);
        cr_assert_eq(asked, 97, "a storm must not have each of its faults sampled");
}

Test(fault_events, never_samples_more_than_the_clock_at_a_steady_rate) {
        for (double rate = 1; rate < 1e8; rate *= 1.7) {
                uint32_t asked = fault_period_first(false);

                for (int i = 0; i < 100; i++)
                        asked = fault_period_next(asked, false, rate, HZ);
                cr_assert_lt(rate / asked, HZ, "%g", rate);
        }
}

Test(fault_events, begins_with_each_major_fault) {
        uint32_t draw = 12345;

        cr_assert_eq(fault_period(fault_period_first(true), &draw), 1);
        cr_assert_eq(fault_period_next(1, true, 50, HZ), 1);
        cr_assert_eq(fault_period_next(1, true, 9000, HZ), 100);
}

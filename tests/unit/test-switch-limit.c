/* SPDX-License-Identifier: Apache-2.0 */
#include <criterion/criterion.h>

#include "service/run/switch-limit.h"

static SwitchLimit limit;
static uint64_t now_ns, n_switches;

static void setup(void) {
        limit = (SwitchLimit){ .max = 1000 };
        now_ns = 100 * NS_PER_SEC;
        n_switches = 1 << 20;
        cr_assert_eq(switch_limit_judge(&limit, now_ns, n_switches, 2), 0, "nothing to compare with");
}

TestSuite(switch_limit, .init = setup);

/* A second of two CPUs with @rate on each. */
static int pass(uint64_t rate) {
        now_ns += NS_PER_SEC;
        n_switches += 2 * rate;
        return switch_limit_judge(&limit, now_ns, n_switches, 2);
}

Test(switch_limit, holds_in_a_storm_and_ends_in_a_calm) {
        for (unsigned i = 1; i < SWITCH_LIMIT_OVER; i++)
                cr_assert_eq(pass(1500), 0);
        cr_assert_eq(pass(1500), SWITCH_LIMIT_E_HOLDS);
        cr_assert(limit.holds);
        for (unsigned i = 0; i < 100; i++)
                cr_assert_eq(pass(i % 2 ? 1500 : 700), 0, "neither");
        for (unsigned i = 1; i < SWITCH_LIMIT_CALM; i++)
                cr_assert_eq(pass(400), 0);
        cr_assert_eq(pass(400), SWITCH_LIMIT_E_ENDS);
        cr_assert_not(limit.holds);
        cr_assert_eq(pass(400), 0);
}

Test(switch_limit, lets_a_burst_pass) {
        for (unsigned i = 0; i < 50; i++) {
                cr_assert_eq(pass(100000), 0);
                cr_assert_eq(pass(100000), 0);
                cr_assert_eq(pass(900), 0);
        }
}

Test(switch_limit, judges_no_short_interval) {
        for (unsigned i = 0; i < 100; i++) {
                now_ns += SWITCH_LIMIT_INTERVAL_NS / 100;
                n_switches += 20;               /* 4,000 a second in all, 2,000 on each CPU */
                cr_assert_eq(switch_limit_judge(&limit, now_ns, n_switches, 2), 0);
        }
        cr_assert_eq(limit.n_over, 1);
}

Test(switch_limit, is_none_at_0_and_begins_again_when_the_count_does) {
        limit.max = 0;
        for (unsigned i = 0; i < 10; i++)
                cr_assert_eq(pass(1 << 30), 0);
        limit.max = 1000;
        n_switches = 0;                         /* another machine's, after a move */
        cr_assert_eq(pass(1500), 0);
        cr_assert_eq(limit.n_over, 0);
}

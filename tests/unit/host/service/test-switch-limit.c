/* SPDX-License-Identifier: Apache-2.0 */
#include <criterion/criterion.h>

#include "host/service/limits/switch-limit.h"

static SwitchLimit limit;
static uint64_t now_ns, n_switches;

static void setup(void) {
        limit = (SwitchLimit){ .max = 1000, .most = WAIT_LIMIT_ALL };
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

static void expect_after(unsigned n, uint64_t rate, int expected, enum abi_wait_limit step) {
        for (unsigned i = 1; i < n; i++)
                cr_assert_eq(pass(rate), 0, "%u of %u at %lu", i, n, (unsigned long)rate);
        cr_assert_eq(pass(rate), expected, "at %lu", (unsigned long)rate);
        cr_assert_eq(limit.step, step);
}

Test(switch_limit, leaves_out_step_by_step_and_comes_back) {
        expect_after(SWITCH_LIMIT_OVER, 1400, SWITCH_LIMIT_E_LESS, WAIT_LIMIT_WALKS);
        expect_after(SWITCH_LIMIT_OVER, 1900, SWITCH_LIMIT_E_LESS, WAIT_LIMIT_LONG);
        expect_after(SWITCH_LIMIT_OVER, 2900, SWITCH_LIMIT_E_LESS, WAIT_LIMIT_SPANS);
        expect_after(SWITCH_LIMIT_OVER, 3100, SWITCH_LIMIT_E_LESS, WAIT_LIMIT_ALL);
        for (unsigned i = 0; i < 100; i++)
                cr_assert_eq(pass(i % 2 ? 9000 : 1600), 0, "neither");
        expect_after(SWITCH_LIMIT_CALM, 1400, SWITCH_LIMIT_E_MORE, WAIT_LIMIT_SPANS);
        expect_after(SWITCH_LIMIT_CALM, 900, SWITCH_LIMIT_E_MORE, WAIT_LIMIT_LONG);
        expect_after(SWITCH_LIMIT_CALM, 700, SWITCH_LIMIT_E_MORE, WAIT_LIMIT_WALKS);
        expect_after(SWITCH_LIMIT_CALM, 400, SWITCH_LIMIT_E_MORE, WAIT_LIMIT_NONE);
        cr_assert_eq(pass(400), 0);
}

/* As far as the lowest of the intervals says, and back as far as the highest does. */
Test(switch_limit, goes_several_steps_at_once) {
        cr_assert_eq(pass(9000), 0);
        cr_assert_eq(pass(2500), 0);
        cr_assert_eq(pass(9000), SWITCH_LIMIT_E_LESS);
        cr_assert_eq(limit.step, WAIT_LIMIT_SPANS);
        cr_assert_eq(pass(600), 0);
        expect_after(SWITCH_LIMIT_CALM - 1, 0, SWITCH_LIMIT_E_MORE, WAIT_LIMIT_WALKS);
        expect_after(SWITCH_LIMIT_CALM, 0, SWITCH_LIMIT_E_MORE, WAIT_LIMIT_NONE);
}

Test(switch_limit, leaves_what_is_to_be_kept) {
        limit.most = WAIT_LIMIT_LONG;
        expect_after(SWITCH_LIMIT_OVER, 1 << 20, SWITCH_LIMIT_E_LESS, WAIT_LIMIT_LONG);
        for (unsigned i = 0; i < 20; i++)
                cr_assert_eq(pass(1 << 20), 0);
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

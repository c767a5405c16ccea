/* SPDX-License-Identifier: Apache-2.0 */
#include <criterion/criterion.h>

#include "host/service/limits/call-budget.h"

#define NOW_NS UINT64_C(1000000000)

Test(call_budget, answers_a_lone_call_soon) {
        CallBudget budget = { 0 };
        bool later;

        for (uint64_t i = 1; i <= 1000; i++) {
                uint64_t now_ns = i * CALL_BUDGET_INTERVAL_NS;

                cr_assert_eq(call_budget_spend(&budget, now_ns, &later), now_ns + CALL_BUDGET_DELAY_NS);
                cr_assert_not(later);
        }
}

Test(call_budget, bears_a_burst_and_bounds_a_storm) {
        CallBudget budget = { 0 };
        uint64_t now_ns = NOW_NS, n_soon = 0, n = 0;
        bool later;

        /* the next call comes as soon as the last one is answered, for ten seconds */
        while (now_ns < NOW_NS + UINT64_C(10000000000)) {
                now_ns = call_budget_spend(&budget, now_ns, &later);
                n_soon += !later;
                n++;
        }
        cr_assert_geq(n_soon, CALL_BUDGET_BURST);
        cr_assert_leq(n_soon, CALL_BUDGET_BURST + 5);
        cr_assert_leq(n, n_soon + UINT64_C(10000000000) / CALL_BUDGET_INTERVAL_NS + 1);
}

Test(call_budget, is_whole_again_after_a_pause) {
        CallBudget budget = { 0 };
        bool later = false;

        for (int i = 0; i < 10 * CALL_BUDGET_BURST; i++)
                call_budget_spend(&budget, NOW_NS, &later);
        cr_assert(later);
        for (int i = 0; i < CALL_BUDGET_BURST; i++) {
                call_budget_spend(&budget, NOW_NS + UINT64_C(60000000000), &later);
                cr_assert_not(later);
        }
}

Test(call_budget, has_looks_after_a_burst_of_answers_and_then_after_few) {
        CallBudget budget = { 0 };
        uint64_t n = 0;

        for (uint64_t i = 0; i < 1000; i++)     /* 100 a second, for ten seconds */
                n += call_budget_looks(&budget, NOW_NS + i * UINT64_C(10000000));
        cr_assert_geq(n, CALL_BUDGET_LOOKS_BURST);
        cr_assert_leq(n, CALL_BUDGET_LOOKS_BURST + UINT64_C(10000000000) / CALL_BUDGET_LOOKS_INTERVAL_NS + 1);
        n = 0;
        for (uint64_t i = 0; i < CALL_BUDGET_LOOKS_BURST; i++)
                n += call_budget_looks(&budget, NOW_NS + UINT64_C(60000000000));
        cr_assert_eq(n, CALL_BUDGET_LOOKS_BURST, "whole again after a pause");
}

/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Each answer costs an interval of time. It may be paid up to a burst of intervals later:
 *
 *     answers    │││││││││   │    │    │         a storm
 *     paid_ns    now … now + BURST × INTERVAL: no credit is left, and each waits until an interval has passed
 */

#include "host/service/limits/call-budget.h"

#include "core/base/util/macro.h"

uint64_t call_budget_spend(CallBudget *budget, uint64_t now_ns, _Bool *laterp) {
        const uint64_t credit_ns = CALL_BUDGET_BURST * CALL_BUDGET_INTERVAL_NS;
        uint64_t due_ns = now_ns + CALL_BUDGET_DELAY_NS, paid_ns = MAX(budget->paid_ns, now_ns);

        budget->paid_ns = paid_ns + CALL_BUDGET_INTERVAL_NS;
        *laterp = paid_ns > due_ns + credit_ns;
        return *laterp ? paid_ns - credit_ns : due_ns;
}

_Bool call_budget_looks(CallBudget *budget, uint64_t now_ns) {
        const uint64_t credit_ns = CALL_BUDGET_LOOKS_BURST * CALL_BUDGET_LOOKS_INTERVAL_NS;
        uint64_t paid_ns = MAX(budget->looks_paid_ns, now_ns);

        if (paid_ns >= now_ns + credit_ns)
                return 0;
        budget->looks_paid_ns = paid_ns + CALL_BUDGET_LOOKS_INTERVAL_NS;
        return 1;
}

/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Lends each control group and user MAX_DEBT_NS of CPU time, and RATE_MS of each second are paid back:
 *
 *      owes   0 ms ── attach 30 ms ──▶ 30 ──▶ 60 ──▶ 90 ──▶ 120: waits until it owes 100 again
 *
 * Groups and users have places by a seeded hash, and several may have one.
 */

#include "host/sampling/runtime/attach-budget.h"

#include "core/base/util/clock.h"
#include "core/base/util/macro.h"

#define MAX_DEBT_NS (100 * NS_PER_MS)
#define RATE_MS 50                      /* time of each second */

bool attach_budget_is_overdrawn(AttachBudget *budget, uint64_t now_ns) {
        uint64_t ms = (now_ns - MIN(budget->paid_ns, now_ns)) / NS_PER_MS;
        uint64_t paid_ns = ms * (NS_PER_MS / 1000) * RATE_MS;
        bool is_overdrawn = false;

        for (uint32_t i = 0; i < ATTACH_BUDGET_PLACES; i++) {
                budget->debts_ns[i] -= MIN(budget->debts_ns[i], paid_ns);
                is_overdrawn |= attach_budget_waits(budget, i);
        }
        budget->paid_ns += ms * NS_PER_MS;
        return is_overdrawn;
}

bool attach_budget_waits(const AttachBudget *budget, uint32_t place) {
        return budget->debts_ns[place] > MAX_DEBT_NS;
}

void attach_budget_spend(AttachBudget *budget, uint32_t place, uint64_t ns) {
        budget->debts_ns[place] += ns;
}

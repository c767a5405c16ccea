/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Lends CPU time to each user of a control group, to the group whoever its users are, and to all together. A
 * part of each second is paid back:
 *
 *              at once     each second
 *      user     100 ms      50 ms
 *      group      2 s      100 ms
 *      all        4 s      200 ms
 *
 *      user owes   0 ms ── attach 30 ms ──▶ 30 ──▶ 60 ──▶ 90 ──▶ 120: waits until it owes 100 again
 *
 * Groups and users have places by a seeded hash, and several may have one.
 */

#include "host/sampling/runtime/attach-budget.h"

#include "core/base/data/intern.h"
#include "core/base/util/clock.h"
#include "core/base/util/macro.h"

static const struct {
        uint64_t max_debt_ns, rate_ms;  /* rate: time of each second */
} levels[ATTACH_BUDGET_LEVELS] = {
        [ATTACH_BUDGET_USER] = { 100 * NS_PER_MS, 50 },
        [ATTACH_BUDGET_GROUP] = { 2 * NS_PER_SEC, 100 },
        [ATTACH_BUDGET_ALL] = { 4 * NS_PER_SEC, 200 },
};

AttachPayer attach_budget_payer(const ShareOwner *owner) {
        const uint64_t user[] = { owner->group, owner->user };

        return (AttachPayer){ .places = {
                [ATTACH_BUDGET_USER] = (uint32_t)(hash_bytes(user, sizeof(user)) % ATTACH_BUDGET_PLACES),
                [ATTACH_BUDGET_GROUP] = (uint32_t)(hash_number(owner->group) % ATTACH_BUDGET_PLACES),
        } };
}

bool attach_budget_is_overdrawn(AttachBudget *budget, uint64_t now_ns) {
        uint64_t ms = (now_ns - MIN(budget->paid_ns, now_ns)) / NS_PER_MS;
        bool is_overdrawn = false;

        for (int level = 0; level < ATTACH_BUDGET_LEVELS; level++)
                for (uint32_t i = 0; i < ATTACH_BUDGET_PLACES; i++) {
                        uint64_t *debt_ns = &budget->debts_ns[level][i];

                        *debt_ns -= MIN(*debt_ns, ms * (NS_PER_MS / 1000) * levels[level].rate_ms);
                        is_overdrawn |= *debt_ns > levels[level].max_debt_ns;
                }
        budget->paid_ns += ms * NS_PER_MS;
        return is_overdrawn;
}

AttachLevel attach_budget_waits(const AttachBudget *budget, const AttachPayer *payer) {
        AttachLevel level = 0;

        while (level < ATTACH_BUDGET_LEVELS &&
               budget->debts_ns[level][payer->places[level]] <= levels[level].max_debt_ns)
                level++;
        return level;
}

void attach_budget_spend(AttachBudget *budget, const AttachPayer *payer, uint64_t ns) {
        for (int level = 0; level < ATTACH_BUDGET_LEVELS; level++)
                budget->debts_ns[level][payer->places[level]] += ns;
}

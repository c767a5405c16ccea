/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Attach Budget
 *
 * CPU time of the event loop for the files of programs with a runtime, by control group and user. Who has
 * used more than its share waits, so that programs made to be slow to read cost only their owner's.
 */

#include <stdbool.h>
#include <stdint.h>

#include "core/base/data/shares.h"

enum { ATTACH_BUDGET_PLACES = 256 };

typedef struct AttachBudget {
        uint64_t debts_ns[ATTACH_BUDGET_PLACES];
        uint64_t paid_ns;               /* MONOTONIC time when debts were paid last */
        Shares told;                    /* for the log */
} AttachBudget;

/* The place of a control group and user. */
static inline uint32_t attach_budget_place(const ShareOwner *owner) {
        return (uint32_t)((owner->group ^ owner->user * UINT64_C(0x9e3779b97f4a7c15)) >> 32) %
                ATTACH_BUDGET_PLACES;
}

/* Whether any place has to wait; only then it need be known whose a process is. */
bool attach_budget_is_overdrawn(AttachBudget *budget, uint64_t now_ns);

/* Whether this one has to. */
bool attach_budget_waits(const AttachBudget *budget, uint32_t place);

/* The place has used @ns of CPU time. */
void attach_budget_spend(AttachBudget *budget, uint32_t place, uint64_t ns);

/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Attach Budget
 *
 * CPU time of the event loop for the files of programs with a runtime: of a user in a control group, of the
 * group, and of all. Who has used more than its share waits, so that programs made to be slow to read cost
 * their owner's time, and never all of the loop's.
 */

#include <stdbool.h>
#include <stdint.h>

#include "core/base/data/shares.h"

enum { ATTACH_BUDGET_PLACES = 256 };

typedef enum AttachLevel {
        ATTACH_BUDGET_USER,
        ATTACH_BUDGET_GROUP,
        ATTACH_BUDGET_ALL,
        ATTACH_BUDGET_LEVELS
} AttachLevel;

/* Zeros are one that owes nothing. */
typedef struct AttachBudget {
        uint64_t debts_ns[ATTACH_BUDGET_LEVELS][ATTACH_BUDGET_PLACES];  /* first place: of all */
        uint64_t paid_ns;               /* MONOTONIC time when debts were paid last */
        Shares told;                    /* for the log */
} AttachBudget;

/* The places that a process' time is counted at. */
typedef struct AttachPayer {
        uint32_t places[ATTACH_BUDGET_LEVELS];
} AttachPayer;

AttachPayer attach_budget_payer(const ShareOwner *owner);

/* Whether any place has to wait; else it need not be asked who does. */
bool attach_budget_is_overdrawn(AttachBudget *budget, uint64_t now_ns);

/* Return: whose time is used up, so that @payer has to wait; ATTACH_BUDGET_LEVELS = it has not to. */
AttachLevel attach_budget_waits(const AttachBudget *budget, const AttachPayer *payer);

/* The process has used @ns of CPU time. */
void attach_budget_spend(AttachBudget *budget, const AttachPayer *payer, uint64_t ns);

/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Call Budget
 *
 * How soon a call at once (bpf/walk/wake.bpf.h) is answered. A lone one is answered after
 * CALL_BUDGET_DELAY_NS: the side-band's record is there by then, and what is seldom alone comes together.
 * CALL_BUDGET_BURST of them may follow one another; in a longer storm there is one answer in
 * CALL_BUDGET_INTERVAL_NS. Looks after an answer (daemon-calls.c) cost several turns of the loop:
 * CALL_BUDGET_LOOKS_BURST answers have them, then one in CALL_BUDGET_LOOKS_INTERVAL_NS. Pure.
 */

#include <stdint.h>

#define CALL_BUDGET_DELAY_NS UINT64_C(200000)
#define CALL_BUDGET_INTERVAL_NS UINT64_C(4000000)
#define CALL_BUDGET_BURST 64
#define CALL_BUDGET_LOOKS_INTERVAL_NS UINT64_C(100000000)
#define CALL_BUDGET_LOOKS_BURST 16

typedef struct CallBudget {
        uint64_t paid_ns;               /* time up to which answers given are paid for */
        uint64_t looks_paid_ns;         /* the same of looks */
} CallBudget;

/* A call has come at @now_ns. Return: when it is answered, with *laterp: whether that is later than usual. */
uint64_t call_budget_spend(CallBudget *budget, uint64_t now_ns, _Bool *laterp);

/* Whether looks may follow the answer to a call that has come at @now_ns. */
_Bool call_budget_looks(CallBudget *budget, uint64_t now_ns);

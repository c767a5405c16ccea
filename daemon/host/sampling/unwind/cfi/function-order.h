/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Order
 *
 * Functions by ascending address, each with the place of its FDE. A linker has
 * written that list already (the table of .eh_frame_hdr); where there is none, or
 * it turns out not to be sorted, the section is scanned and sorted here. All of it
 * in slices.
 */

#include <stdbool.h>
#include <stdint.h>

#include "host/sampling/unwind/cfi/counts.h"
#include "host/sampling/unwind/cfi/entry.h"
#include "host/sampling/unwind/cfi/layout.h"
#include "host/sampling/unwind/cfi/reader.h"

enum {
        _ORDER_E_SUCCESS,
        ORDER_E_AGAIN,                  /* the budget is used up; call again */
};

typedef enum OrderPhase {
        ORDER_CHECK,                    /* is the linker's table sorted? */
        ORDER_SCAN,
        ORDER_HEAP,                     /* the index becomes a heap … */
        ORDER_SORT,                     /* … whose top goes to the end, again and again */
        ORDER_READY,
} OrderPhase;

typedef struct Order {
        const Layout *layout;           /* borrowed, like the next three */
        Reader *reader;
        CieCache *cies;
        CfiCounts *counts;
        OrderPhase phase;
        /* start from text_low << 32 | offset in the section; NULL = the table is used */
        uint64_t *index;
        uint32_t n, room, max;
        uint64_t at;                    /* progress of the phase: pair, offset or place in the heap */
        uint64_t last;
        /* the pair that was read last, 1 + its number; 0 = none */
        uint64_t known, known_start, known_offset;
        bool is_sorted;
} Order;

/* @max: functions of one file; those beyond are counted and lost. */
void order_init(Order *order, const Layout *layout, Reader *reader, CieCache *cies, CfiCounts *counts,
                uint32_t max);
void order_deinit(Order *order);

/* Works for about *@budgetp bytes and subtracts them. Return: 0 = ready, ORDER_E_AGAIN, -ENOMEM. */
int order_prepare(Order *order, uint64_t *budgetp);

/*
 * The function at @i: ELF address and offset of the FDE. Return: false = there is no such. Only when ready.
 */
bool order_get(Order *order, uint64_t i, uint64_t *startp, uint64_t *offsetp);

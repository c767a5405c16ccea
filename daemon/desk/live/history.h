/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * History
 *
 * The counts of the last intervals, so that a moment that has passed can be looked at. The oldest make room
 * for new ones: HISTORY_MAX are kept, and HISTORY_MAX_ROWS rows of all of them.
 */

#include <stddef.h>
#include <stdint.h>

#include "desk/live/counts.h"

enum { HISTORY_MAX = 300, HISTORY_MAX_ROWS = 1 << 20 };

typedef struct Moment {
        Counts counts;
        uint64_t length_ns, end_ns;     /* end: MONOTONIC */
} Moment;

typedef struct History {
        Moment moments[HISTORY_MAX];    /* a ring: the newest is number n_taken - 1, modulo HISTORY_MAX */
        uint64_t n_taken;
        size_t n_kept;
} History;

void history_deinit(History *history);

/* @counts: taken over; they are empty afterwards. */
void history_add(History *history, Counts *counts, uint64_t length_ns, uint64_t end_ns);

/* The moment of that number, from 0 on; NULL = it is not kept any more, or is not there yet. */
const Moment *history_get(const History *history, uint64_t number);

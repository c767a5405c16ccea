/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Window Shares
 *
 * Who has filled how much of a window: attributes, spans, stacks and names are rows of tables that all
 * processes share, and so are the times and the memory. Once one of these is three quarters full, a control
 * group that has more of it than is left adds no more there: its samples that need such a row are lost, and
 * no others are.
 *
 * The same holds for tables that go with the window and are not in it (WINDOW_SHARES_…).
 *
 * Ticks for the flight recorder alone have shares of their own, of one half of each. What they fill is not
 * held against their process when it adds what is exported.
 */

#include <stdbool.h>
#include <stdint.h>

#include "core/base/data/hashmap.h"
#include "core/base/data/shares.h"
#include "core/profile/window.h"
#include "host/sampling/context/publication.h"

enum {
        WINDOW_SHARES_KINDS = WINDOW_N_PARTS,   /* kinds of waits (wait-spread.h) */
        WINDOW_SHARES_N_PARTS,
};

typedef struct WindowHolder WindowHolder;

typedef struct WindowShares {
        bool of_half;                   /* set at first: the other half of each part is for others */
        Shares parts[WINDOW_SHARES_N_PARTS];    /* shares of each holder, of parts that are crowded */
        bool is_crowded[WINDOW_SHARES_N_PARTS];
        Hashmap holders;                /* generation of a process → WindowHolder */
        WindowHolder *filling;          /* the process that is being added; NULL = none is */
        WindowFill before;              /* window_fill() then, */
        uint32_t kinds_before;          /* … and how full WINDOW_SHARES_KINDS was */
        uint32_t refused;               /* parts that this process may not add to */
} WindowShares;

/* All zeros, but for @of_half, is that of an empty window. */
void window_shares_deinit(WindowShares *shares);

/*
 * Around what adds rows of @process to @window. @kinds: how full WINDOW_SHARES_KINDS is, of WINDOW_FILL_MAX.
 * Return: 0, -ENOMEM.
 */
int window_shares_begin(WindowShares *shares, Window *window, uint32_t kinds, const Process *process);
void window_shares_end(WindowShares *shares, Window *window, uint32_t kinds);

/* Another window begins, without rows. */
void window_shares_reset(WindowShares *shares);

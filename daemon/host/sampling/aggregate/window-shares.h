/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Window Shares
 *
 * Who has filled how much of a window: attributes, spans, stacks and names are rows of tables that all
 * processes share, and so is the memory. Once one of these is three quarters full, a control group that has
 * more of it than is left adds no more there: its samples that need such a row are lost, and no others are.
 */

#include <stdbool.h>
#include <stdint.h>

#include "core/base/data/hashmap.h"
#include "core/base/data/shares.h"
#include "core/profile/window.h"
#include "host/sampling/context/publication.h"

typedef struct WindowHolder WindowHolder;

typedef struct WindowShares {
        Shares parts[WINDOW_N_PARTS];   /* shares of each holder, of parts that are crowded */
        bool is_crowded[WINDOW_N_PARTS];
        Hashmap holders;                /* generation of a process → WindowHolder */
        WindowHolder *filling;          /* the process that is being added; NULL = none is */
        WindowFill before;              /* window_fill() then */
        uint32_t refused;               /* parts that it may not add to */
} WindowShares;

/* All zeros is that of an empty window. */
void window_shares_deinit(WindowShares *shares);

/* Around what adds rows of @process to @window. Return: 0, -ENOMEM. */
int window_shares_begin(WindowShares *shares, Window *window, const Process *process);

/*
 * What is added until then leaves each half of a table, and of the memory, to others. Return: false = half of
 * the memory is filled, and nothing may be added.
 */
bool window_shares_leave_half(const WindowShares *shares, Window *window);
void window_shares_end(WindowShares *shares, Window *window);

/* Another window begins, without rows. */
void window_shares_reset(WindowShares *shares);

/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Window Shares
 *
 * Who has filled how much of a window: attributes, spans, stacks and names are rows of tables that all
 * processes share. Once the fullest is three quarters full, a process, user or control group with more rows
 * than are left adds none: its samples that need a new row are lost, and no others are.
 */

#include <stdbool.h>
#include <stdint.h>

#include "core/base/data/hashmap.h"
#include "core/base/data/shares.h"
#include "core/profile/window.h"
#include "host/sampling/context/publication.h"

typedef struct WindowHolder WindowHolder;

typedef struct WindowShares {
        Shares shares;                  /* rows by holder, once there are too many */
        Hashmap holders;                /* generation of a process → WindowHolder */
        bool is_crowded;                /* parts that are filled are counted by holder */
        WindowHolder *filling;          /* the process that is being added; NULL = none is */
        uint32_t n_before;              /* window_fill_sum() then */
} WindowShares;

/* All zeros is that of an empty window. */
void window_shares_deinit(WindowShares *shares);

/* Around what adds rows of @process to @window. Return: 0, -ENOMEM. */
int window_shares_begin(WindowShares *shares, Window *window, const Process *process);
void window_shares_end(WindowShares *shares, Window *window);

/* Another window begins, without rows. */
void window_shares_reset(WindowShares *shares);

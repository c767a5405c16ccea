/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * View
 *
 * What `spanprof top` shows, as pure text: counts in, a page, a block of lines or a line of JSON out; and
 * what its keys do to it.
 */

#include <stdbool.h>
#include <stdint.h>

#include "core/base/util/text.h"
#include "desk/live/counts.h"

enum { VIEW_FILTER_MAX = 64 };

#define VIEW_N_TABS COUNTS_REASONS       /* the tables before it have a tab */

typedef struct View {
        CountsTable tab;
        CountsOrder order;
        char filter[VIEW_FILTER_MAX];   /* rows with it in one of their texts, whatever its case; "" = all */
        bool typing;                    /* keys go into the filter */
        bool paused;
        bool since_start;               /* all so far, not the last interval */
        bool help;
        bool colour;
        bool of_cpu;                    /* shares of functions in percent of one CPU, not of the samples */
        size_t first;                   /* row at the top */
        size_t sideways;                /* letters of the first name column that are left of the screen */
        int64_t by_moments;             /* what the keys asked for: so many intervals back, < 0 forth */
        unsigned rows, columns;         /* of the terminal */
        uint64_t interval_ns;
} View;

/* What stands in the head of the page. */
typedef struct ViewFigures {
        uint64_t length_ns;             /* of the time that was counted */
        uint64_t n_lost;                /* since the start */
        size_t n_processes;             /* that are sampled */
        uint32_t n_tables_made, n_tables;       /* of files that are being read for unwinding; 0 = none is */
        const char *note;               /* an answer to a key, in the place of state; NULL = none */
        uint64_t ago_ns;                /* of a moment that has passed: how long ago it ended; 0 = now */
} ViewFigures;

enum { VIEW_INTERVAL_MIN_MS = 200, VIEW_INTERVAL_MAX_MS = 60000 };

typedef enum ViewAction { VIEW_NOTHING, VIEW_REDRAW, VIEW_KEEP, VIEW_QUIT } ViewAction;

/* @key: of keys_next(). */
ViewAction view_key(View *view, int key);

/* A page of view->rows lines at most. Return: 0, -ENOMEM. */
int view_page(View *view, const Counts *counts, const ViewFigures *figures, Text *page);

/*
 * For outputs that are no terminal: the first @n_rows rows of the tab as a block, or of all tabs as one line
 * of JSON.
 */
int view_block(const View *view, const Counts *counts, const ViewFigures *figures, size_t n_rows,
               Text *block);
int view_json(const View *view, const Counts *counts, const ViewFigures *figures, size_t n_rows, Text *line);

/* `functions`, `spans` … Return: 0, or 1 = no tab of that name. */
int view_find_tab(const char *name, CountsTable *tabp);

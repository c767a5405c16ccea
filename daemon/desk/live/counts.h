/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Counts
 *
 * What the CPU time of windows fell into, for people who look at it now: functions, spans, threads,
 * processes, coroutines, calls, waits, operations, and why stacks end early. Windows are added one after the
 * other; their frames have their names already. A row is known by its texts, which come from profiles: a
 * caller that shows them on a terminal cleans them.
 */

#include <stddef.h>
#include <stdint.h>

#include "core/profile/window.h"
#include "desk/report/tally.h"

typedef enum CountsTable {
        /* name (else its object in brackets, or COUNTS_NO_NAME), object; `total`: once a stack */
        COUNTS_FUNCTIONS,
        COUNTS_SPANS,                   /* span id, trace id, attributes, process */
        COUNTS_THREADS,                 /* name, thread id, process */
        COUNTS_PROCESSES,               /* name, pid */
        COUNTS_COROUTINES,              /* station, probe id, birth, process, name (task's, or station) */
        COUNTS_TREE,                    /* functions as they call each other: counts_tree() */
        /* thread's name, state, what it is on, the program's function there, who ended it, process; in ns */
        COUNTS_WAITS,
        COUNTS_OPERATIONS,              /* operation of spans (core/profile/operation.h), process */
        COUNTS_REASONS,                 /* why stacks end early */
        COUNTS_N_TABLES,
} CountsTable;

enum { COUNTS_MAX_TEXTS = 6, COUNTS_MAX_ROWS = 1 << 20 };

#define COUNTS_NO_NAME "[unknown]"     /* of code that belongs to no file, and of its object */

typedef struct Counts {
        Tally tables[COUNTS_N_TABLES];
        uint64_t n_events;              /* samples of CPU time */
        uint64_t n_linked, n_truncated; /* of them: with a span, with a stack that ends early */
        double cpu_ns;                  /* what they stand for */
        uint64_t wait_ns;               /* of threads without a CPU */
} Counts;

void counts_init(Counts *counts);
void counts_deinit(Counts *counts);

/* @window: closed. Return: 0, -ENOMEM. */
int counts_add(Counts *counts, const Window *window);

typedef struct CountsRow {
        const char *texts[COUNTS_MAX_TEXTS];    /* "" where there is none; they live as long as the counts */
        uint64_t self, total;
        uint32_t depth;                 /* of a tree: 0 = the outermost function */
} CountsRow;

typedef enum CountsOrder { COUNTS_BY_SELF, COUNTS_BY_TOTAL, COUNTS_BY_NAME } CountsOrder;

/*
 * The rows of a table in that order; equal ones by their texts. Return: 0 and *rowsp, owned by the caller;
 * -ENOMEM.
 */
int counts_rows(const Counts *counts, CountsTable table, CountsOrder order, CountsRow **rowsp, size_t *np);

/*
 * The tree of calls from the outermost functions on, each followed by what it calls, the largest first;
 * without calls that have less than @least. Texts as of COUNTS_FUNCTIONS. Return: as counts_rows().
 */
int counts_tree(const Counts *counts, uint64_t least, CountsRow **rowsp, size_t *np);

/* Rows of all tables, which is what the memory of counts goes by. */
size_t counts_n_rows(const Counts *counts);

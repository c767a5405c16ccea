/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Text Table
 *
 * Rows of cells in columns that fit a width: wide enough for what they hold, and where all would be too
 * wide, columns that may be cut give way, the widest first. Cells are masked (core/base/util/text.h),
 * since they come from profiles and go to terminals.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "core/base/data/arena.h"
#include "core/base/util/macro.h"

enum { TABLE_MAX_COLUMNS = 10 };

typedef enum ColumnKind {
        COLUMN_LEFT,
        COLUMN_RIGHT,
        COLUMN_CUT,                     /* left, and may be cut at its end */
        COLUMN_NAME,                    /* the same for functions: cut inside (core/base/data/short-name.h) */
} ColumnKind;

typedef struct Column {
        const char *title;
        ColumnKind kind;
} Column;

typedef struct TextTable {
        Column columns[TABLE_MAX_COLUMNS];
        unsigned n_columns;
        const char **cells;             /* row by row */
        size_t n_cells, room;
        Arena arena;
        bool failed;                    /* out of memory */
} TextTable;

void text_table_init(TextTable *table, const Column *columns, unsigned n_columns);
void text_table_deinit(TextTable *table);

/* Adds the next cell; rows fill from the left. */
_printf_(2, 3) void text_table_add(TextTable *table, const char *format, ...);

/* Prints titles and rows, each after @indent blanks, in at most @width columns; once. Return: 0, -ENOMEM. */
int text_table_print(TextTable *table, unsigned indent, unsigned width, FILE *out);

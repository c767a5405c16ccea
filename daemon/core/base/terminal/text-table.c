/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Measures all cells, then cuts the widest column that may be cut until the rows fit the width, and prints
 * them.
 */

#include "core/base/terminal/text-table.h"

#include <errno.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/data/short-name.h"
#include "core/base/util/array.h"
#include "core/base/util/error.h"
#include "core/base/util/text.h"

enum {
        GAP = 2,                        /* between columns */
        NARROWEST = 12,                 /* columns are not cut below */
};

void text_table_init(TextTable *table, const Column *columns, unsigned n_columns) {
        *table = (TextTable){ .n_columns = n_columns };
        memcpy(table->columns, columns, n_columns * sizeof(*columns));
}

void text_table_deinit(TextTable *table) {
        arena_deinit(&table->arena);
        free(table->cells);
        *table = (TextTable){ 0 };
}

void text_table_add(TextTable *table, const char *format, ...) {
        _cleanup_(freep) char *text = NULL;
        const char *cell;
        va_list args;
        int n;

        va_start(args, format);
        n = vasprintf(&text, format, args);
        va_end(args);
        if (n < 0) {
                text = NULL;
                table->failed = true;
                return;
        }
        text_mask(text);
        cell = arena_string(&table->arena, text, strlen(text));
        if (!cell || array_reserve(&table->cells, &table->room, table->n_cells + 1, 64)) {
                table->failed = true;
                return;
        }
        table->cells[table->n_cells++] = cell;
}

static void measure(const TextTable *table, size_t *widths) {
        for (unsigned i = 0; i < table->n_columns; i++)
                widths[i] = text_columns(table->columns[i].title);
        for (size_t i = 0; i < table->n_cells; i++) {
                size_t *width = &widths[i % table->n_columns];

                *width = MAX(*width, text_columns(table->cells[i]));
        }
}

static void fit(const TextTable *table, size_t *widths, size_t width) {
        size_t sum = GAP * (table->n_columns - 1);

        for (unsigned i = 0; i < table->n_columns; i++)
                sum += widths[i];
        while (sum > width) {
                unsigned widest = table->n_columns;

                for (unsigned i = 0; i < table->n_columns; i++)
                        if (table->columns[i].kind >= COLUMN_CUT && widths[i] > NARROWEST &&
                            (widest == table->n_columns || widths[i] > widths[widest]))
                                widest = i;
                if (widest == table->n_columns)
                        return;
                widths[widest]--;
                sum--;
        }
}

static void print_spaces(size_t n, FILE *out) {
        while (n--)
                fputc(' ', out);
}

/* The first @width characters; the last of them is an ellipsis if there are more. */
static void print_cut(const char *cell, size_t width, FILE *out) {
        bool is_cut = text_columns(cell) > width;
        size_t left = is_cut ? width - 1 : width;

        for (; *cell; cell++) {
                if (text_is_first_byte(*cell) && left-- == 0)
                        break;
                fputc(*cell, out);
        }
        if (is_cut)
                fputs("…", out);
}

/* Replaces the names of a column by what fits. Without memory some stay as they are: their ends are cut. */
static void shorten_column(TextTable *table, unsigned column, size_t width) {
        size_t n = table->n_cells / table->n_columns;
        _cleanup_(freep) const char **names = calloc(n + 1, sizeof(*names));
        _cleanup_(freep) char **shorts = calloc(n + 1, sizeof(*shorts));
        int r;

        if (!names || !shorts)
                return;
        for (size_t i = 0; i < n; i++)
                names[i] = table->cells[i * table->n_columns + column];
        r = short_names(names, n, width, shorts);
        for (size_t i = 0; i < n; i++) {
                const char *kept = r ? NULL : arena_string(&table->arena, shorts[i], strlen(shorts[i]));

                free(shorts[i]);
                if (kept)
                        table->cells[i * table->n_columns + column] = kept;
        }
}

/*
 * Prints a cell after @pending blanks. Return: how wide it became, which for a shortened name may be less
 * than there is room.
 */
static size_t print_cell(const Column *column, const char *cell, size_t width, size_t pending, FILE *out) {
        size_t n = MIN(text_columns(cell), width);

        if (column->kind == COLUMN_RIGHT)
                pending += width - n;
        if (n) {
                print_spaces(pending, out);
                print_cut(cell, width, out);
        }
        return n;
}

static void print_row(const TextTable *table, const char *const *cells, const size_t *widths, unsigned indent,
                      FILE *out) {
        size_t pending = indent;        /* blanks are held back, so that no line ends with one */

        for (unsigned i = 0; i < table->n_columns; i++) {
                size_t n = print_cell(&table->columns[i], cells[i], widths[i], pending, out);

                /* pads the rest of the cell, or all of it, if nothing was printed */
                pending = n ? 0 : pending;
                if (table->columns[i].kind != COLUMN_RIGHT || !n)
                        pending += widths[i] - n;
                pending += GAP;
        }
        fputc('\n', out);
}

int text_table_print(TextTable *table, unsigned indent, unsigned width, FILE *out) {
        const char *titles[TABLE_MAX_COLUMNS];
        size_t widths[TABLE_MAX_COLUMNS];

        if (table->failed)
                return error_origin(-ENOMEM);
        measure(table, widths);
        fit(table, widths, width > indent ? width - indent : 0);
        for (unsigned i = 0; i < table->n_columns; i++) {
                titles[i] = table->columns[i].title;
                if (table->columns[i].kind == COLUMN_NAME)
                        shorten_column(table, i, widths[i]);
        }
        print_row(table, titles, widths, indent, out);
        for (size_t i = 0; i + table->n_columns <= table->n_cells; i += table->n_columns)
                print_row(table, table->cells + i, widths, indent, out);
        return 0;
}

/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Prints the same facts and tables in two forms: padded columns, or Markdown with its own signs escaped.
 */

#include "desk/report/sheet.h"

#include <errno.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "core/base/util/clock.h"
#include "core/base/util/error.h"
#include "core/base/util/text.h"

Sheet sheet_make(FILE *out, unsigned width, bool markdown) {
        return (Sheet){ out, width ? MIN(MAX(width, 80u), 200u) : SHEET_DEFAULT_WIDTH, markdown };
}

/* A backslash before whatever Markdown or the HTML in it could take for its own. */
static void print_markdown(const char *text, FILE *out) {
        for (; *text; text++) {
                if (strchr("\\`*_{}[]<>#|~$&!", *text))
                        fputc('\\', out);
                fputc(*text, out);
        }
}

void sheet_print(const Sheet *sheet, const char *text) {
        _cleanup_(freep) char *copy = strdup(text);

        if (!copy) {
                fputc('?', sheet->out);
                return;
        }
        text_mask(copy);
        if (sheet->markdown)
                print_markdown(copy, sheet->out);
        else
                fputs(copy, sheet->out);
}

static void print_formatted(const Sheet *sheet, const char *format, va_list args) {
        _cleanup_(freep) char *text = NULL;

        if (vasprintf(&text, format, args) < 0)
                text = NULL;
        sheet_print(sheet, text ? text : "?");
}

void sheet_part(const Sheet *sheet, unsigned level, const char *what, const char *format, ...) {
        va_list args;

        if (sheet->markdown)
                fprintf(sheet->out, "\n%s %s: ", level == 1 ? "##" : "###", what);
        else
                fprintf(sheet->out, "\n%-12s", what);
        va_start(args, format);
        print_formatted(sheet, format, args);
        va_end(args);
        fputs(sheet->markdown ? "\n\n" : "\n", sheet->out);
}

void sheet_fact(const Sheet *sheet, unsigned indent, const char *name, const char *format, ...) {
        va_list args;

        if (sheet->markdown)
                fprintf(sheet->out, "- **%s:** ", name);
        else
                fprintf(sheet->out, "%*s%-12s", (int)indent, "", name);
        va_start(args, format);
        print_formatted(sheet, format, args);
        va_end(args);
        fputc('\n', sheet->out);
}

void sheet_title(const Sheet *sheet, const char *title) {
        fputs(sheet->markdown ? "\n#### " : "\n", sheet->out);
        sheet_print(sheet, title);
        fputs(sheet->markdown ? "\n\n" : "\n", sheet->out);
}

void sheet_note(const Sheet *sheet, const char *format, ...) {
        va_list args;

        if (sheet->markdown)
                fputc('\n', sheet->out);
        va_start(args, format);
        print_formatted(sheet, format, args);
        va_end(args);
        fputc('\n', sheet->out);
}

void sheet_more(const Sheet *sheet, size_t n_rows, size_t n_shown, const char *what) {
        if (n_rows <= n_shown)
                return;
        if (sheet->markdown)
                fprintf(sheet->out, "\n… and %zu more %s\n", n_rows - n_shown, what);
        else
                fprintf(sheet->out, "%*s… and %zu more %s\n", SHEET_INDENT, "", n_rows - n_shown, what);
}

static void print_markdown_row(const Sheet *sheet, const char *const *cells, unsigned n) {
        for (unsigned i = 0; i < n; i++) {
                fputs("| ", sheet->out);
                print_markdown(cells[i], sheet->out);
                fputc(' ', sheet->out);
        }
        fputs("|\n", sheet->out);
}

static int print_markdown_table(const Sheet *sheet, const TextTable *table) {
        const char *titles[TABLE_MAX_COLUMNS];

        if (table->failed)
                return error_origin(-ENOMEM);
        for (unsigned i = 0; i < table->n_columns; i++)
                titles[i] = table->columns[i].title[0] ? table->columns[i].title : "%";
        print_markdown_row(sheet, titles, table->n_columns);
        for (unsigned i = 0; i < table->n_columns; i++)
                fputs(table->columns[i].kind == COLUMN_RIGHT ? "|---:" : "|---", sheet->out);
        fputs("|\n", sheet->out);
        for (size_t i = 0; i + table->n_columns <= table->n_cells; i += table->n_columns)
                print_markdown_row(sheet, table->cells + i, table->n_columns);
        return 0;
}

int sheet_table(const Sheet *sheet, TextTable *table, const char *title, size_t n_rows, const char *what) {
        size_t n_shown = table->n_columns ? table->n_cells / table->n_columns : 0;
        int r = 0;

        if (n_rows) {
                sheet_title(sheet, title);
                r = sheet->markdown ? print_markdown_table(sheet, table) :
                                      text_table_print(table, SHEET_INDENT, sheet->width, sheet->out);
                sheet_more(sheet, n_rows, n_shown, what);
        }
        text_table_deinit(table);
        return r;
}

double sheet_share(uint64_t part, uint64_t whole) {
        return whole ? 100.0 * (double)part / (double)whole : 0;
}

static const char *scaled(char *to, double value, const char *const *units, const double *steps, size_t n) {
        const char *sign = value < 0 ? "-" : "";
        size_t i = 0;

        value = value < 0 ? -value : value;
        while (i + 1 < n && value >= steps[i]) {
                value /= steps[i];
                i++;
        }
        snprintf(to, SHEET_VALUE_MAX,
                 value < 10 && i            ? "%s%.2f %s"
                         : value < 100 && i ? "%s%.1f %s"
                                            : "%s%.0f %s",
                 sign, value, units[i]);
        return to;
}

const char *sheet_value(char *to, const char *unit, double value) {
        static const char *const times[] = { "ns", "µs", "ms", "s" },
                                 *const sizes[] = { "B", "KiB", "MiB", "GiB" };
        static const double time_steps[] = { 1000, 1000, 1000 }, size_steps[] = { 1024, 1024, 1024 };

        if (!strcmp(unit, "nanoseconds"))
                return scaled(to, value, times, time_steps, ARRAY_SIZE(times));
        if (!strcmp(unit, "bytes"))
                return scaled(to, value, sizes, size_steps, ARRAY_SIZE(sizes));
        snprintf(to, SHEET_VALUE_MAX, "%.0f", value);
        return to;
}

const char *sheet_time(char *to, uint64_t realtime_ns) {
        time_t seconds = (time_t)(realtime_ns / NS_PER_SEC);
        struct tm tm;
        size_t n;

        *to = 0;
        if (!gmtime_r(&seconds, &tm))
                return to;
        n = strftime(to, 40, "%Y-%m-%d %H:%M:%S", &tm);
        snprintf(to + n, 24, ".%03u UTC", (unsigned)(realtime_ns % NS_PER_SEC / NS_PER_MS));
        return to;
}

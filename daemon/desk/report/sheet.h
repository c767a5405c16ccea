/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Sheet
 *
 * Headings, facts and tables for people, as text that fits a terminal or as Markdown. What profiles bring
 * (names) passes through here: it is masked (core/base/util/text.h), and nothing of a name is taken for
 * Markdown.
 */

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "core/base/terminal/text-table.h"

enum {
        SHEET_DEFAULT_WIDTH = 100,
        SHEET_DEFAULT_TOP = 20,
        SHEET_INDENT = 2,
        SHEET_VALUE_MAX = 32,
};

typedef struct Sheet {
        FILE *out;
        unsigned width;
        bool markdown;
} Sheet;

/* @width: 0 = the default; the terminal's otherwise, within reason. */
Sheet sheet_make(FILE *out, unsigned width, bool markdown);

/* A part begins: `Profile     samples …` or `## Profile: samples …`. @level: 1 or 2. */
_printf_(4, 5) void sheet_part(const Sheet *sheet, unsigned level, const char *what, const char *format, ...);

/* `value       20` or `- **value:** 20`. @indent: of the text. */
_printf_(4, 5) void sheet_fact(const Sheet *sheet, unsigned indent, const char *name, const char *format,
                               ...);

/* The heading of a table or a list. */
void sheet_title(const Sheet *sheet, const char *title);

/* A sentence of its own. */
_printf_(2, 3) void sheet_note(const Sheet *sheet, const char *format, ...);

/*
 * Prints @table under its title, if it has rows, and says how many of @n_rows are not in it; ends the table
 * in any case.
 * Return: 0, -ENOMEM.
 */
int sheet_table(const Sheet *sheet, TextTable *table, const char *title, size_t n_rows, const char *what);

/* `… and 3 more functions`, if there are more. */
void sheet_more(const Sheet *sheet, size_t n_rows, size_t n_shown, const char *what);

/* Text in a cell or a line of the sheet: masked, and none of it Markdown. */
void sheet_print(const Sheet *sheet, const char *text);

/* A part of a whole in percent. */
double sheet_share(uint64_t part, uint64_t whole);

/*
 * A value with its unit, short: `1.50 s`; numbers of other units are printed as they are. @to:
 * SHEET_VALUE_MAX bytes.
 */
const char *sheet_value(char *to, const char *unit, double value);

/* `2026-01-31 12:00:00.000 UTC`. @to: 64 bytes. */
const char *sheet_time(char *to, uint64_t realtime_ns);

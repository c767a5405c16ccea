/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * INI
 *
 * Reads the text of a configuration file, one `key = value` at a time. Text in,
 * entries out: it opens nothing and knows no option, so tests and the fuzzer feed
 * it plain strings.
 *
 *     # a comment fills its whole line; so does `;`
 *     [section]
 *     key = value to the end of the line, blanks around it cut off
 *
 * There is no quoting, no continuation of lines and no comment behind a value.
 */

#include <stddef.h>
#include <stdint.h>

enum {
        _INI_E_SUCCESS,
        INI_E_EOF,                      /* the text is used up */
        INI_E_SECTION,                  /* a section begins: entry.section and entry.line */
        INI_E_MALFORMED,                /* entry.line and entry.problem say what; reading may go on */
};

/* Part of the text; not NUL-terminated. */
typedef struct IniText {
        const char *data;
        size_t size;
} IniText;

typedef struct IniEntry {
        IniText section;                /* data = NULL before the first section */
        IniText key, value;
        uint32_t line;                  /* from 1 */
        const char *problem;            /* static string; only with INI_E_MALFORMED */
} IniEntry;

typedef struct IniCursor {
        const char *at, *end;
        IniText section;
        uint32_t line;
} IniCursor;

IniCursor ini_begin(const char *text, size_t size);

/* Return: 0, INI_E_SECTION or INI_E_MALFORMED, each with *entryp; INI_E_EOF. */
int ini_next(IniCursor *cursor, IniEntry *entryp);

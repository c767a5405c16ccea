/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * JSON Writer
 *
 * Prints JSON as it comes: groups are opened and closed by the caller, commas and escapes are put here.
 * Control characters of text are escaped, and bytes that are no UTF-8 become U+FFFD. What people look at in a
 * page is masked by U+FFFD, too (core/base/util/text.h).
 */

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "core/base/util/text.h"

typedef struct JsonWriter {
        FILE *out;                      /* where it goes; NULL = into `text` */
        Text *text;
        bool is_spaced;                 /* `"a": 1, "b": 2`; else no blanks */
        bool in_markup;                 /* no `<` is printed, and text is masked: it stands in HTML */
        bool comma;                     /* something stands before in this object or list */
        bool has_line;                  /* the next piece begins a line, behind `indent` blanks */
        unsigned indent;
} JsonWriter;

/* Begins a line for the next key, item or closing bracket. */
void json_line(JsonWriter *json, unsigned indent);

/* @key: NULL in a list. @bracket: `{` or `[`, and `}` or `]` at the end. */
void json_open(JsonWriter *json, const char *key, char bracket);
void json_close(JsonWriter *json, char bracket);

/* The end of a document: a line feed. */
void json_end(JsonWriter *json);

/* @text: NULL = null. */
void json_text(JsonWriter *json, const char *key, const char *text);
void json_number(JsonWriter *json, const char *key, uint64_t number);
/* In six digits. */
void json_real(JsonWriter *json, const char *key, double number);
void json_decimal(JsonWriter *json, const char *key, double number, int n_decimals);
void json_bool(JsonWriter *json, const char *key, bool value);
/* @value: JSON already. */
void json_raw(JsonWriter *json, const char *key, const char *value);

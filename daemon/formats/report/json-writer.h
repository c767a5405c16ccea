/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * JSON Writer
 *
 * Prints JSON as it comes: groups are opened and closed by the caller, commas and escapes are put here. Text
 * is UTF-8 already; control characters are escaped. What people look at in a page is masked by U+FFFD
 * (base/util/text.h).
 */

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

typedef struct JsonWriter {
        FILE *out;
        bool comma;                     /* something stands before in this object or list */
        bool in_markup;                 /* no `<` is printed, and text is masked: it stands in HTML */
} JsonWriter;

/* @key: NULL in a list. @bracket: `{` or `[`, and `}` or `]` at the end. */
void json_open(JsonWriter *json, const char *key, char bracket);
void json_close(JsonWriter *json, char bracket);

void json_text(JsonWriter *json, const char *key, const char *text);
void json_number(JsonWriter *json, const char *key, uint64_t number);
void json_real(JsonWriter *json, const char *key, double number);
void json_bool(JsonWriter *json, const char *key, bool value);

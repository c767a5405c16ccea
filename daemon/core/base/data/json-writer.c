/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Writes JSON to a stream while its values come: the writer remembers whether a comma or a new line is due
 * before the next value.
 */

#include "core/base/data/json-writer.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

static void put(JsonWriter *json, const char *bytes, size_t size) {
        if (json->out)
                fwrite(bytes, 1, size, json->out);
        else
                text_append(json->text, bytes, size);
}

static void put_string(JsonWriter *json, const char *text) {
        char escape[8];
        bool shown;

        put(json, "\"", 1);
        for (size_t n; *text; text += n) {
                unsigned char c = (unsigned char)*text;

                n = text_character(text, SIZE_MAX, &shown);
                if (c == '"' || c == '\\')
                        put(json, c == '"' ? "\\\"" : "\\\\", 2);
                else if ((json->in_markup && !shown) || (c >= 0x80 && n == 1))
                        put(json, "\xEF\xBF\xBD", 3);
                else if (c < 0x20 || c == 0x7f || (json->in_markup && c == '<'))
                        put(json, escape, (size_t)snprintf(escape, sizeof(escape), "\\u%04x", c));
                else
                        put(json, text, n);
        }
        put(json, "\"", 1);
}

/* Return: whether there was one. */
static bool put_line(JsonWriter *json) {
        if (!json->has_line)
                return false;
        put(json, "\n", 1);
        for (unsigned i = 0; i < json->indent; i++)
                put(json, " ", 1);
        json->has_line = false;
        return true;
}

static void put_key(JsonWriter *json, const char *key) {
        if (json->comma)
                put(json, ",", 1);
        if (!put_line(json) && json->comma && json->is_spaced)
                put(json, " ", 1);
        json->comma = true;
        if (key) {
                put_string(json, key);
                put(json, ": ", json->is_spaced ? 2 : 1);
        }
}

void json_line(JsonWriter *json, unsigned indent) {
        json->has_line = true;
        json->indent = indent;
}

void json_open(JsonWriter *json, const char *key, char bracket) {
        put_key(json, key);
        put(json, &bracket, 1);
        json->comma = false;
}

void json_close(JsonWriter *json, char bracket) {
        put_line(json);
        put(json, &bracket, 1);
        json->comma = true;
}

void json_end(JsonWriter *json) {
        put(json, "\n", 1);
}

void json_text(JsonWriter *json, const char *key, const char *text) {
        put_key(json, key);
        if (text)
                put_string(json, text);
        else
                put(json, "null", 4);
}

void json_raw(JsonWriter *json, const char *key, const char *value) {
        put_key(json, key);
        put(json, value, strlen(value));
}

void json_number(JsonWriter *json, const char *key, uint64_t number) {
        char digits[24];

        snprintf(digits, sizeof(digits), "%" PRIu64, number);
        json_raw(json, key, digits);
}

/* JSON has no word for what is no number. */
void json_real(JsonWriter *json, const char *key, double number) {
        char digits[40];

        snprintf(digits, sizeof(digits), "%.6g", number);
        json_raw(json, key, isfinite(number) ? digits : "null");
}

void json_decimal(JsonWriter *json, const char *key, double number, int n_decimals) {
        char digits[340];               /* the largest double has 309 digits */

        snprintf(digits, sizeof(digits), "%.*f", n_decimals, number);
        json_raw(json, key, isfinite(number) ? digits : "null");
}

void json_bool(JsonWriter *json, const char *key, bool value) {
        json_raw(json, key, value ? "true" : "false");
}

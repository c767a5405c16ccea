/* SPDX-License-Identifier: Apache-2.0 */
#include "formats/report/json-writer.h"

#include <inttypes.h>
#include <math.h>

#include "base/util/text.h"

static void print_string(JsonWriter *json, const char *text) {
        bool shown;

        fputc('"', json->out);
        for (size_t n; *text; text += n) {
                unsigned char c = (unsigned char)*text;

                n = text_character(text, SIZE_MAX, &shown);
                if (c == '"' || c == '\\')
                        fprintf(json->out, "\\%c", c);
                else if (json->in_markup && !shown)
                        fputs("\xEF\xBF\xBD", json->out);
                else if (c < 0x20 || c == 0x7f || (json->in_markup && c == '<'))
                        fprintf(json->out, "\\u%04x", c);
                else
                        fwrite(text, 1, n, json->out);
        }
        fputc('"', json->out);
}

static void print_key(JsonWriter *json, const char *key) {
        if (json->comma)
                fputc(',', json->out);
        json->comma = true;
        if (key) {
                print_string(json, key);
                fputc(':', json->out);
        }
}

void json_open(JsonWriter *json, const char *key, char bracket) {
        print_key(json, key);
        fputc(bracket, json->out);
        json->comma = false;
}

void json_close(JsonWriter *json, char bracket) {
        fputc(bracket, json->out);
        json->comma = true;
}

void json_text(JsonWriter *json, const char *key, const char *text) {
        print_key(json, key);
        print_string(json, text);
}

void json_number(JsonWriter *json, const char *key, uint64_t number) {
        print_key(json, key);
        fprintf(json->out, "%" PRIu64, number);
}

/* JSON has no word for what is no number. */
void json_real(JsonWriter *json, const char *key, double number) {
        print_key(json, key);
        fprintf(json->out, isfinite(number) ? "%.6g" : "null", number);
}

void json_bool(JsonWriter *json, const char *key, bool value) {
        print_key(json, key);
        fputs(value ? "true" : "false", json->out);
}

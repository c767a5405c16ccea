/* SPDX-License-Identifier: Apache-2.0 */
#include <criterion/criterion.h>
#include <math.h>
#include <stdlib.h>

#include "core/base/data/json-writer.h"

static void write_all(JsonWriter *json) {
        json_open(json, NULL, '{');
        json_text(json, "text", "a\"b\\c\n\x7f<\xE2\x82\xAC");
        json_text(json, "none", NULL);
        json_number(json, "number", UINT64_MAX);
        json_line(json, 2);
        json_open(json, "list", '[');
        json_real(json, NULL, 0.1234567);
        json_real(json, NULL, INFINITY);
        json_decimal(json, NULL, 2, 3);
        json_decimal(json, NULL, NAN, 3);
        json_open(json, NULL, '{');
        json_close(json, '}');
        json_line(json, 0);
        json_close(json, ']');
        json_bool(json, "yes", true);
        json_raw(json, "raw", "[1]");
        json_close(json, '}');
        json_end(json);
}

static const char compact[] =
        "{\"text\":\"a\\\"b\\\\c\\u000a\\u007f<\xE2\x82\xAC\",\"none\":null,\"number\":18446744073709551615,\n"
        "  \"list\":[0.123457,null,2.000,null,{}\n],\"yes\":true,\"raw\":[1]}\n";
static const char spaced[] =
        "{\"text\": \"a\\\"b\\\\c\\u000a\\u007f<\xE2\x82\xAC\", \"none\": null, \"number\": 18446744073709551615,\n"
        "  \"list\": [0.123457, null, 2.000, null, {}\n], \"yes\": true, \"raw\": [1]}\n";

Test(json_writer, writes_compact_and_spaced_text) {
        _cleanup_(text_deinit) Text text = { 0 }, wide = { 0 };

        write_all(&(JsonWriter){ .text = &text });
        cr_assert_str_eq(text.data, compact);
        write_all(&(JsonWriter){ .text = &wide, .is_spaced = true });
        cr_assert_str_eq(wide.data, spaced);
}

Test(json_writer, writes_the_same_into_a_file) {
        char *data;
        size_t size;
        FILE *out = open_memstream(&data, &size);

        write_all(&(JsonWriter){ .out = out });
        fclose(out);
        cr_assert_str_eq(data, compact);
        free(data);
}

Test(json_writer, begins_a_line_in_an_empty_group) {
        _cleanup_(text_deinit) Text text = { 0 };
        JsonWriter json = { .text = &text, .is_spaced = true };

        json_open(&json, NULL, '[');
        json_line(&json, 2);
        json_text(&json, NULL, "");
        json_line(&json, 2);
        json_text(&json, NULL, "");
        json_line(&json, 0);
        json_close(&json, ']');
        cr_assert_str_eq(text.data, "[\n  \"\",\n  \"\"\n]");
}

Test(json_writer, repairs_what_is_no_utf8) {
        _cleanup_(text_deinit) Text text = { 0 };

        json_text(&(JsonWriter){ .text = &text }, NULL, "\xFFz\xE2\x82");
        cr_assert_str_eq(text.data, "\"\xEF\xBF\xBDz\xEF\xBF\xBD\xEF\xBF\xBD\"");
}

/* What the script of a page is given may neither end it nor turn what is shown. */
Test(json_writer, masks_text_in_markup) {
        _cleanup_(text_deinit) Text text = { 0 };

        json_text(&(JsonWriter){ .text = &text, .in_markup = true }, NULL, "</script>\x01\xE2\x80\xAE");
        cr_assert_str_eq(text.data, "\"\\u003c/script>\xEF\xBF\xBD\xEF\xBF\xBD\"");
}

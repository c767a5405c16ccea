/* SPDX-License-Identifier: Apache-2.0 */

/* Values of recordings: integers, and strings in all of their encodings. */

#include <criterion/criterion.h>

#include "core/jfr/value.h"

/* As they stand in recordings: seven bits a byte, lowest first; a ninth byte has eight. */
Test(jfr_value, reads_integers_of_every_length) {
        static const struct {
                uint8_t bytes[JFR_MAX_INTEGER];
                size_t n;
                uint64_t value;
        } cases[] = {
                { { 0x00 }, 1, 0 },
                { { 0x7F }, 1, 0x7F },
                { { 0x80, 0x01 }, 2, 0x80 },
                { { 0x81, 0x00 }, 2, 1 },               /* longer than it had to be */
                { { 0xFF, 0x7F }, 2, 0x3FFF },
                { { 0x80, 0x80, 0x01 }, 3, 0x4000 },
                { { 0x81, 0x82, 0x83, 0x04 }, 4, 1 | 2 << 7 | 3 << 14 | 4 << 21 },
                { { 0xFF, 0xFF, 0xFF, 0xFF, 0x0F }, 5, 0xFFFFFFFF },
                { { 0x80, 0x80, 0x80, 0x80, 0x80, 0x7F }, 6, UINT64_C(0x7F) << 35 },
                { { 0x81, 0x80, 0x80, 0x80, 0x80, 0x80, 0x55 }, 7, 1 | UINT64_C(0x55) << 42 },
                { { 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0x7F }, 8, UINT64_MAX >> 8 },
                { { 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x00 }, 9, 0 },
                { { 0x81, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80 }, 9, 1 | UINT64_C(0x80) << 56 },
                { { 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF }, 9, UINT64_MAX },
        };

        for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
                uint8_t bytes[2 * JFR_MAX_INTEGER];
                const uint8_t *at = bytes;
                JfrCursor cursor = { bytes, bytes + cases[i].n, true, false };

                /* what follows must not count, whether it looks like more of it or not */
                memset(bytes, i % 2 ? 0xFF : 0, sizeof(bytes));
                memcpy(bytes, cases[i].bytes, cases[i].n);
                cr_expect_eq(jfr_quick_compressed(&at), cases[i].value, "case %zu", i);
                cr_expect_eq(at - bytes, (ptrdiff_t)cases[i].n, "case %zu", i);
                cr_expect_eq(jfr_compressed(&cursor), cases[i].value, "case %zu", i);
                cr_expect(!cursor.failed && cursor.at == cursor.end);
                cursor = (JfrCursor){ bytes, bytes + cases[i].n - 1, true, false };
                jfr_compressed(&cursor);
                cr_expect(cursor.failed, "case %zu, a byte short", i);
        }
}

/*
 * Of the JVM: its UTF-8 has characters beyond U+FFFF as two surrogates. Whatever is no such pair stays as it
 * is.
 */
Test(jfr_value, reads_characters_as_they_were_meant) {
        static const struct {
                JfrEncoding encoding;
                const char *bytes;
                size_t size;
                const char *text;
        } cases[] = {
                { JFR_STRING_UTF8, "plain", 5, "plain" },
                { JFR_STRING_UTF8, "\xC3\xA9\xED\xA0\xBD\xED\xB8\x80!", 9, "é\U0001F600!" },
                { JFR_STRING_UTF8, "\xED\xA0\x80\xED\xB0\x80\xED\xAF\xBF\xED\xBF\xBF", 12,
                  "\U00010000\U0010FFFF" },
                { JFR_STRING_UTF8, "\xF0\x9F\x98\x80", 4, "\U0001F600" },
                { JFR_STRING_UTF8, "\xED\x95\x9C\xED\x95\x9C", 6, "한한" },
                { JFR_STRING_UTF8, "\xED\xA0\xBD", 3, "\xED\xA0\xBD" }, /* half of a pair */
                { JFR_STRING_UTF8, "\xED\xB8\x80\xED\xA0\xBD", 6,
                  "\xED\xB8\x80\xED\xA0\xBD" }, /* the wrong way round */
                { JFR_STRING_UTF8, "\xED\xED\xA0\xBD\xED\xB8\x80\xED", 8, "\xED\U0001F600\xED" },
                { JFR_STRING_UTF8, "", 0, "" },
                { JFR_STRING_UTF16, "\x00\x41\xD8\x3D\xDE\x00", 6, "A\U0001F600" },
                { JFR_STRING_UTF16, "\xDE\x00\xD8\x3D", 4, "\uFFFD\uFFFD" },
                { JFR_STRING_LATIN1, "\xE9", 1, "é" },
        };

        for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
                /* memory of that size alone, so that a look beyond it is seen by sanitizers */
                uint8_t *data = malloc(cases[i].size + !cases[i].size);
                JfrString string = { .encoding = cases[i].encoding, .data = data, .size = cases[i].size };
                Text text = { 0 };

                memcpy(data, cases[i].bytes, cases[i].size);
                jfr_string_append(&string, &text);
                cr_expect_eq(text.size, strlen(cases[i].text), "case %zu", i);
                cr_expect_arr_eq(text.data, cases[i].text, text.size, "case %zu: %s", i, text.data);
                text_deinit(&text);
                free(data);
        }
}

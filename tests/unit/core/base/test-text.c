/* SPDX-License-Identifier: Apache-2.0 */
#include <criterion/criterion.h>
#include <criterion/redirect.h>
#include <stdio.h>
#include <string.h>

#include "core/base/util/text.h"

Test(text, takes_whole_decimal_numbers_only) {
        uint64_t value = 7;

        cr_assert_eq(text_u64("18446744073709551615", UINT64_MAX, &value), 0);
        cr_assert_eq(value, UINT64_MAX);
        value = 7;
        for (const char *const *bad =
                     (const char *const[]){ "", "-1", "+1", " 1", "1 ", "1x", "0x1", "18446744073709551616",
                                            "99999999999999999999999", NULL };
             *bad; bad++) {
                cr_assert_eq(text_u64(*bad, UINT64_MAX, &value), 1, "%s", *bad);
                cr_assert_eq(value, 7);
        }
        cr_assert_eq(text_u64("11", 10, &value), 1);
}

Test(text, reads_and_writes_hex) {
        const char *text = "ff00DEADbeef";
        uint64_t value;
        char hex[9];

        cr_assert_eq(text_hex(text, text + 12, &value), 0);
        cr_assert_eq(value, 0xff00deadbeef);
        cr_assert_eq(text_hex(text, text, &value), 1);
        cr_assert_eq(text_hex("12g", (const char *)"12g" + 3, &value), 1);
        text_to_hex(hex, "\x00\x7f\x80\xff", 4);
        cr_assert_str_eq(hex, "007f80ff");
}

/* The well-formed and ill-formed sequences are those of RFC 3629 and the Unicode Standard, table 3-7. */
Test(text, knows_utf8) {
        static const char *const good[] = { "",
                                            "ascii",
                                            "\xC3\xA9",
                                            "\xE2\x82\xAC",
                                            "\xF0\x9F\x98\x80",
                                            "\xED\x9F\xBF",
                                            "\xF4\x8F\xBF\xBF" };
        static const char *const bad[] = { "\x80",
                                           "\xC0\x80",
                                           "\xC1\xBF",
                                           "\xE0\x80\x80",
                                           "\xED\xA0\x80",
                                           "\xF0\x80\x80\x80",
                                           "\xF4\x90\x80\x80",
                                           "\xF5\x80\x80\x80",
                                           "\xFF",
                                           "\xC3",
                                           "\xE2\x82" };

        for (size_t i = 0; i < sizeof(good) / sizeof(*good); i++)
                cr_assert(text_is_utf8(good[i], strlen(good[i])), "good %zu", i);
        for (size_t i = 0; i < sizeof(bad) / sizeof(*bad); i++)
                cr_assert_not(text_is_utf8(bad[i], strlen(bad[i])), "bad %zu", i);
        cr_assert_not(text_is_utf8("a\0b", 3));
}

/* U+1D4B3 as UTF-16 is D835 DCB3; each of these is three bytes of a JVM. */
Test(text, joins_the_surrogates_of_jvms) {
        static const struct {
                const char *text, *expected;
        } cases[] = {
                { "a\xED\xA0\xB5\xED\xB2\xB3z", "a\xF0\x9D\x92\xB3z" },
                { "\xED\xAF\xBF\xED\xBF\xBF", "\xF4\x8F\xBF\xBF" },           /* U+10FFFF */
                { "\xED\xA0\x80\xED\xB0\x80", "\xF0\x90\x80\x80" },           /* U+10000 */
                { "\xED\xA0\xB5", "\uFFFD\uFFFD\uFFFD" },                        /* half a pair */
                { "\xED\xB2\xB3\xED\xA0\xB5", "\uFFFD\uFFFD\uFFFD\uFFFD\uFFFD\uFFFD" },
                { "\xED\xA0\xB5\xED\xB2", "\uFFFD\uFFFD\uFFFD\uFFFD\uFFFD" },
                { "a\xC0\x80z", "a\uFFFDz" },
                { "\xC0", "\uFFFD" },
        };

        for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
                char to[64];

                cr_expect_eq(text_repair_utf8(to, cases[i].text, strlen(cases[i].text)),
                             strlen(cases[i].expected));
                cr_expect_str_eq(to, cases[i].expected, "case %zu", i);
        }
}

Test(text, repairs_bad_bytes_and_keeps_good_ones) {
        char to[32];

        cr_assert_eq(text_repair_utf8(to, "a\xFFz\xC3\xA9", 5), 7);
        cr_assert_str_eq(to, "a\xEF\xBF\xBDz\xC3\xA9");
        cr_assert(text_is_utf8(to, strlen(to)));
}

/* "a", then characters of two, three and four bytes. */
Test(text, is_cut_between_characters) {
        static const char text[] = "a\xC3\xA9\xE2\x82\xAC\xF0\x9F\x98\x80";
        static const size_t expected[] = { 0, 1, 1, 3, 3, 3, 6, 6, 6, 6, 10, 10, 10 };

        for (size_t max = 0; max < sizeof(expected) / sizeof(*expected); max++)
                cr_expect_eq(text_cut_utf8(text, max), expected[max], "%zu bytes", max);
        cr_expect_eq(text_cut_utf8("", 5), 0);
        cr_expect_eq(text_cut_utf8("\x80\x80\x80", 2), 0, "no character begins");
        cr_expect_eq(text_cut_utf8("\x80\x80\x80", 3), 3, "nothing is cut");
}

Test(text, grows_a_buffer) {
        Text text = { 0 };

        for (int i = 0; i < 1000; i++)
                text_printf(&text, "%04d,", i);
        text_append(&text, "end", 3);
        text_append(&text, NULL, 0);
        cr_assert_not(text.failed);
        cr_assert_eq(text.size, 5003);
        cr_assert_str_eq(text.data + 4995, "0999,end");
        text_deinit(&text);
        cr_assert_null(text.data);
}

/* Those of Unicode's categories that the standard names; test-report-forms.py goes through all of them. */
Test(text, masks_what_drives_or_disguises) {
        static const struct {
                const char *text, *shown;
        } cases[] = {
                { "", "" },
                { "main", "main" },
                { "a\nb\x1b[2Jc\x7f", "a?b?[2Jc?" },
                { "a\xC2\x9B"
                  "31m\xC2\x80\xC2\xA0",
                  "a?31m?\xC2\xA0" }, /* C1; a hard blank stays */
                { "evil\xE2\x80\xAEgnp.exe\xE2\x80\xAA\xE2\x81\xA6\xE2\x81\xA9",
                  "evil?gnp.exe???" }, /* U+202E, 202A, 2066, 2069 */
                { "\xE2\x80\x8B\xE2\x80\x8F\xD8\x9C\xE2\x81\xA0\xE2\x81\xA4",
                  "?????" },                                     /* U+200B, 200F, 061C, 2060, 2064 */
                { "\xEF\xBB\xBFx\xE1\xA0\x8E\xC2\xAD", "?x??" }, /* U+FEFF, 180E, 00AD */
                { "\xF3\xA0\x80\x81\xF3\xA0\x81\xBFz", "??z" },  /* U+E0001, E007F */
                { "a\xE2\x80\xA8"
                  "b\xE2\x80\xA9"
                  "c",
                  "a?b?c" }, /* U+2028, 2029 */
                { "\x9B"
                  "31m\xC2\xC2\x9B\xE2\x80",
                  "?31m????" },                                  /* no UTF-8; U+009B in it */
                { "\xC3\xA9\xA9\xD0\x96", "\xC3\xA9?\xD0\x96" }, /* a byte too many */
                { "\xD0\x9F\xD1\x83\xD0\xBB \xE6\xB1\x89 \xF0\x9F\x98\x80\xEF\xB8\x8F",
                  "\xD0\x9F\xD1\x83\xD0\xBB \xE6\xB1\x89 \xF0\x9F\x98\x80\xEF\xB8\x8F" },
                { "\xD8\x80\xDB\x9D", "\xD8\x80\xDB\x9D" }, /* Arabic signs that one sees */
        };

        for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
                char copy[64];
                Text text = { 0 };

                strcpy(copy, cases[i].text);
                text_mask(copy);
                cr_expect_str_eq(copy, cases[i].shown, "%zu", i);
                text_append_masked(&text, cases[i].text);
                cr_expect_str_eq(text.data ? text.data : "", cases[i].shown, "%zu", i);
                text_deinit(&text);
        }
}

Test(text, is_never_markup) {
        Text text = { 0 };

        text_append_html(&text, "<a href=\"x\">&\n\xE2\x80\xAE\xC3\xA9\xFF");
        cr_assert_str_eq(text.data, "&lt;a href=&quot;x&quot;&gt;&amp;??\xC3\xA9?");
        text_deinit(&text);
}

Test(text, prints_masked, .init = cr_redirect_stdout) {
        text_print("a\0b\n\xE2\x80\xAE\xE2\x80", 9, stdout);
        putchar('|');
        text_print_lines("one\x1b\n\nt\xE2\x80\x8Bwo\nthree", stdout);
        fflush(stdout);
        cr_assert_stdout_eq_str("a?b?" "???|one?\n\nt?wo\nthree");
}

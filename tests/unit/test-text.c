/* SPDX-License-Identifier: Apache-2.0 */
#include <criterion/criterion.h>
#include <string.h>

#include "base/util/text.h"

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

Test(text, repairs_bad_bytes_and_keeps_good_ones) {
        char to[32];

        cr_assert_eq(text_repair_utf8(to, "a\xFFz\xC3\xA9", 5), 7);
        cr_assert_str_eq(to, "a\xEF\xBF\xBDz\xC3\xA9");
        cr_assert(text_is_utf8(to, strlen(to)));
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

Test(text, writes_json_strings) {
        Text text = { 0 };

        text_append_json(&text, "a\"b\\c\n\x7f\xE2\x82\xAC\xFFz");
        cr_assert_str_eq(text.data, "\"a\\\"b\\\\c\\u000a\\u007f\xE2\x82\xAC\xEF\xBF\xBDz\"");
        text_deinit(&text);
        text_append_json(&text, "");
        cr_assert_str_eq(text.data, "\"\"");
        text_deinit(&text);
}

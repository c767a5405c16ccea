/* SPDX-License-Identifier: Apache-2.0 */
#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>

#include "core/base/data/ini.h"

static IniCursor begin(const char *text) {
        return ini_begin(text, strlen(text));
}

static int is(IniText text, const char *expected) {
        return text.size == strlen(expected) && memcmp(text.data, expected, text.size) == 0;
}

Test(ini, reads_sections_keys_and_values_with_their_lines) {
        IniCursor cursor = begin("early = 1\n"
                                 "# comment\n"
                                 "  ; comment\n"
                                 "\n"
                                 "[one]\r\n"
                                 "\ta-b\t=  x = y # z  \r\n"
                                 " [ two ] \n"
                                 "empty=");
        IniEntry entry;

        cr_assert_eq(ini_next(&cursor, &entry), 0);
        cr_assert_null(entry.section.data);
        cr_assert(is(entry.key, "early") && is(entry.value, "1") && entry.line == 1);
        cr_assert_eq(ini_next(&cursor, &entry), INI_E_SECTION);
        cr_assert(is(entry.section, "one") && entry.line == 5);
        cr_assert_eq(ini_next(&cursor, &entry), 0);
        cr_assert(is(entry.section, "one") && is(entry.key, "a-b") && is(entry.value, "x = y # z") &&
                  entry.line == 6);
        cr_assert_eq(ini_next(&cursor, &entry), INI_E_SECTION);
        cr_assert(is(entry.section, "two") && entry.line == 7);
        cr_assert_eq(ini_next(&cursor, &entry), 0);
        cr_assert(is(entry.section, "two") && is(entry.key, "empty") && is(entry.value, "") &&
                  entry.line == 8);
        cr_assert_eq(ini_next(&cursor, &entry), INI_E_EOF);
        cr_assert_eq(ini_next(&cursor, &entry), INI_E_EOF);
}

Test(ini, has_nothing_in_an_empty_text) {
        IniCursor cursor = begin("");
        IniEntry entry;

        cr_assert_eq(ini_next(&cursor, &entry), INI_E_EOF);
        cursor = ini_begin(NULL, 0);
        cr_assert_eq(ini_next(&cursor, &entry), INI_E_EOF);
}

Test(ini, names_the_line_of_each_mistake_and_reads_on) {
        static const char *const bad[] = {
                "no equals sign", "= value",   "two words = 1",
                "[open",          "[]",        "[three such words]",
                "[two  words]",   "[",         "]",
                "[a]b",           "k\xFF = 1", "\xC3 = \xA9",
        };

        for (size_t i = 0; i < sizeof(bad) / sizeof(*bad); i++) {
                char text[64];
                IniCursor cursor;
                IniEntry entry;

                snprintf(text, sizeof(text), "\n%s\nnext = 1\n", bad[i]);
                cursor = begin(text);
                cr_assert_eq(ini_next(&cursor, &entry), INI_E_MALFORMED, "%s", bad[i]);
                cr_assert_eq(entry.line, 2);
                cr_assert(entry.problem && *entry.problem);
                cr_assert_eq(ini_next(&cursor, &entry), 0, "%s", bad[i]);
                cr_assert(is(entry.key, "next") && entry.line == 3 && !entry.section.data);
        }
}

Test(ini, names_a_byte_order_mark) {
        IniCursor cursor = begin("\xEF\xBB\xBF" "a = 1\nb = 2\n");
        IniEntry entry;

        cr_assert_eq(ini_next(&cursor, &entry), INI_E_MALFORMED);
        cr_assert(entry.line == 1 && strstr(entry.problem, "byte order mark"));
        cr_assert_eq(ini_next(&cursor, &entry), 0);
        cr_assert(is(entry.key, "b"));
}

Test(ini, refuses_nul_bytes) {
        static const char text[] = "a = b\0c\n";
        IniCursor cursor = ini_begin(text, sizeof(text) - 1);
        IniEntry entry;

        cr_assert_eq(ini_next(&cursor, &entry), INI_E_MALFORMED);
        cr_assert_eq(entry.line, 1);
}

/* SPDX-License-Identifier: Apache-2.0 */
#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/terminal/terminal.h"
#include "core/base/terminal/text-table.h"

static const Column columns[] = { { "n", COLUMN_RIGHT }, { "name", COLUMN_CUT }, { "where", COLUMN_CUT },
                                  { "id", COLUMN_LEFT } };

static char *print(TextTable *table, unsigned indent, unsigned width) {
        char *text = NULL;
        size_t size;
        FILE *out = open_memstream(&text, &size);

        cr_assert_eq(text_table_print(table, indent, width, out), 0);
        fclose(out);
        text_table_deinit(table);
        return text;
}

static void add(TextTable *table, int n, const char *name, const char *where, const char *id) {
        text_table_add(table, "%d", n);
        text_table_add(table, "%s", name);
        text_table_add(table, "%s", where);
        text_table_add(table, "%s", id);
}

Test(text_table, is_as_wide_as_what_it_holds) {
        _cleanup_(freep) char *text = NULL;
        TextTable table;

        text_table_init(&table, columns, 4);
        add(&table, 1, "a", "here", "");
        add(&table, 1000, "longer name", "", "x");
        text = print(&table, 2, 100);
        cr_assert_str_eq(text, "     n  name         where  id\n"
                               "     1  a            here\n"
                               "  1000  longer name         x\n");
}

Test(text_table, cuts_the_widest_columns_to_fit) {
        _cleanup_(freep) char *text = NULL;
        TextTable table;

        text_table_init(&table, columns, 4);
        add(&table, 1, "an_exceedingly_long_function_name_that_goes_on", "libshort.so", "0123456789");
        text = print(&table, 0, 50);
        cr_assert_str_eq(text, "n  name                    where        id\n"
                               "1  an_exceedingly_long_f…  libshort.so  0123456789\n");
}

Test(text_table, keeps_columns_in_line_behind_shortened_names) {
        static const Column named[] = { { "function", COLUMN_NAME }, { "in", COLUMN_LEFT } };
        _cleanup_(freep) char *text = NULL;
        TextTable table;

        text_table_init(&table, named, 2);
        text_table_add(&table, "%s", "shop::Engine<unsigned long, unsigned long>::price(int)");
        text_table_add(&table, "libshop.so");
        text_table_add(&table, "%s", "a_function_whose_name_has_no_parts");
        text_table_add(&table, "libc.so.6");
        text = print(&table, 0, 40);
        cr_assert_str_eq(text, "function                      in\n"
                               "shop::Engine<…>::price(int)   libshop.so\n"
                               "a_functio…_name_has_no_parts  libc.so.6\n");
}

Test(text_table, counts_characters_not_bytes) {
        _cleanup_(freep) char *text = NULL;
        TextTable table;

        text_table_init(&table, columns, 4);
        add(&table, 1, "größe", "x", "1");
        add(&table, 1, "lengt", "x", "2");
        text = print(&table, 0, 80);
        cr_assert_str_eq(text, "n  name   where  id\n1  größe  x      1\n1  lengt  x      2\n");
}

Test(text_table, never_sends_control_characters_to_a_terminal) {
        _cleanup_(freep) char *text = NULL;
        TextTable table;

        text_table_init(&table, columns, 4);
        add(&table, 1, "a\x1b[2J\n\x7f", "\xc2\x9b" "31m", "\xc3\xa9");
        text = print(&table, 0, 80);
        cr_assert_not_null(strstr(text, "a?[2J??"));
        cr_assert_not_null(strstr(text, "?31m"));
        cr_assert_not_null(strstr(text, "\xc3\xa9"), "letters stay");
        cr_assert_null(strchr(text, 0x1b));
        cr_assert_null(strstr(text, "\xc2\x9b"));
}

static char *wrap(const char *text, unsigned width) {
        char *wrapped = NULL;
        size_t size;
        FILE *out = open_memstream(&wrapped, &size);

        cr_assert_not_null(out);
        cli_print_wrapped(text, width, 4, out);
        fclose(out);
        return wrapped;
}

Test(wrapped, breaks_lines_between_words_before_the_width) {
        static const struct {
                const char *text;
                unsigned width;
                const char *wrapped;
        } cases[] = {
                { "  a  one two three\n  b  four\n", 12, "  a  one two\n    three\n  b  four\n" },
                { "  a  one two three\n", 0, "  a  one two three\n" },
                { "  a  größe zwei\n", 10, "  a  größe\n    zwei\n" },
                { "  abcd averyverylongword x\n", 10, "  abcd\n    averyverylongword\n    x\n" },
                { "no end", 10, "no end" },
                { "\n\nx\n", 3, "\n\nx\n" },
        };

        for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
                char *wrapped = wrap(cases[i].text, cases[i].width);

                cr_assert_str_eq(wrapped, cases[i].wrapped, "%s", wrapped);
                free(wrapped);
        }
}

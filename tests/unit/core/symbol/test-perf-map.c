/* SPDX-License-Identifier: Apache-2.0 */
#include <criterion/criterion.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/util/macro.h"
#include "core/base/util/text.h"
#include "core/symbol/jit/perf-map.h"

static int print_range(void *userdata, const CodeRange *range) {
        text_printf(userdata, "%" PRIx64 "+%" PRIx64 " %.*s\n", range->start, range->size,
                    (int)range->name_size, range->name);
        cr_assert_eq(range->time_ns, 0);
        return 0;
}

static PerfMap *map;
static Text ranges;

static void init(void) {
        map = calloc(1, sizeof(*map));
        ranges = (Text){ 0 };
}

static void fini(void) {
        free(map);
        text_deinit(&ranges);
}
TestSuite(perf_map, .init = init, .fini = fini);

static void feed(const char *text) {
        cr_assert_eq(perf_map_feed(map, text, strlen(text), print_range, &ranges), 0);
}

static void assert_ranges(const char *expected) {
        cr_assert_str_eq(ranges.data ? ranges.data : "", expected);
}

Test(perf_map, reads_numbers_with_and_without_0x) {
        feed("7f2d2c0a1000 3c LazyCompile:*spin /srv/server.js:12\n0x7F2D2C0A1040 0x200 java.lang.String.hashCode()I\n");
        assert_ranges(
                "7f2d2c0a1000+3c LazyCompile:*spin /srv/server.js:12\n7f2d2c0a1040+200 java.lang.String.hashCode()I\n");
        cr_assert_eq(map->n_lines, 2);
        cr_assert_eq(map->n_malformed, 0);
}

Test(perf_map, counts_lines_that_are_none_and_goes_on) {
        feed("\n"
             "hello\n"
             "1000 10\n"
             "1000 10 \n"
             "1000 0 empty\n"
             "1000  10 two blanks\n"
             "-1000 10 sign\n"
             "10000000000000000 10 seventeen digits\n"
             "fffffffffffffff0 11 beyond the end\n"
             "2000 10 good\n"
             "fffffffffffffff0 f last\n");
        assert_ranges("2000+10 good\nfffffffffffffff0+f last\n");
        cr_assert_eq(map->n_lines, 11);
        cr_assert_eq(map->n_malformed, 9);
}

Test(perf_map, refuses_a_name_with_nul) {
        static const char line[] = "1000 10 a\0b\n";

        cr_assert_eq(perf_map_feed(map, line, sizeof(line) - 1, print_range, &ranges), 0);
        assert_ranges("");
        cr_assert_eq(map->n_malformed, 1);
}

Test(perf_map, waits_for_the_end_of_a_line) {
        feed("1000 10 fi");
        assert_ranges("");
        feed("rst");
        assert_ranges("");
        feed("\n2000 20 sec");
        assert_ranges("1000+10 first\n");
        feed("ond\n");
        assert_ranges("1000+10 first\n2000+20 second\n");
}

/* Every way to cut the text in two yields the same. */
Test(perf_map, does_not_care_where_it_is_cut) {
        static const char text[] = "1000 10 a b\r\nbad\n0x20 0x30 c\n";

        for (size_t i = 0; i <= strlen(text); i++) {
                memset(map, 0, sizeof(*map));
                text_deinit(&ranges);
                cr_assert_eq(perf_map_feed(map, text, i, print_range, &ranges), 0);
                feed(text + i);
                assert_ranges("1000+10 a b\n20+30 c\n");
                cr_assert_eq(map->n_malformed, 1);
        }
}

Test(perf_map, forgets_the_begin_of_a_line_when_the_file_begins_anew) {
        feed("1000 10 half");
        perf_map_restart(map);
        feed("2000 20 whole\n");
        assert_ranges("2000+20 whole\n");
}

static size_t longest;

static int measure(void *userdata, const CodeRange *range) {
        longest = MAX(longest, range->name_size);
        ++*(unsigned *)userdata;
        return 0;
}

Test(perf_map, cuts_a_name_of_a_megabyte) {
        char *piece = malloc(1 << 20);
        unsigned n = 0;

        memset(piece, 'x', 1 << 20);
        longest = 0;
        cr_assert_eq(perf_map_feed(map, "1000 10 ", 8, measure, &n), 0);
        for (int i = 0; i < 3; i++)
                cr_assert_eq(perf_map_feed(map, piece, 1 << 20, measure, &n), 0);
        cr_assert_eq(perf_map_feed(map, "\n2000 20 y\n", 11, measure, &n), 0);
        /* and the same in one piece */
        memcpy(piece, "3000 10 ", 8);
        piece[(1 << 20) - 1] = '\n';
        cr_assert_eq(perf_map_feed(map, piece, 1 << 20, measure, &n), 0);
        cr_assert_eq(n, 3);
        cr_assert_eq(longest, CODE_MAX_NAME);
        cr_assert_eq(map->n_malformed, 0);
        free(piece);
}

static int refuse(void *userdata, const CodeRange *range) {
        ++*(unsigned *)userdata;
        return -12;
}

Test(perf_map, ends_with_what_the_sink_says) {
        unsigned n = 0;

        cr_assert_eq(perf_map_feed(map, "1000 10 a\n2000 10 b\n", 20, refuse, &n), -12);
        cr_assert_eq(n, 1);
}

/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Line tables made by hand, and by compilers.
 */

#include <criterion/criterion.h>

#include "core/base/util/macro.h"
#include "host/runtime/python/python-code.h"

static uint32_t line_at(uint32_t version, const void *table, size_t size, uint32_t first, int64_t position) {
        return python_line(version, table, size, first, position);
}

#define LINE(_version, _table, _first, _position) \
        line_at(_version, _table, sizeof(_table), _first, _position)

Test(python_line, lnotab_steps_forth_and_back) {
        static const uint8_t table[] = { 0, 1, 6, 1, 8, 0xfe, 4, 10 };

        cr_assert_eq(LINE(0x0308, table, 10, 0), 11);
        cr_assert_eq(LINE(0x0308, table, 10, 5), 11);
        cr_assert_eq(LINE(0x0309, table, 10, 6), 12);
        cr_assert_eq(LINE(0x0309, table, 10, 13), 12);
        cr_assert_eq(LINE(0x0309, table, 10, 14), 10);
        cr_assert_eq(LINE(0x0309, table, 10, 1000), 20);
        cr_assert_eq(LINE(0x0309, table, 10, -1), 10);
}

Test(python_line, ranges_may_have_no_line) {
        static const uint8_t table[] = { 6, 1, 8, 0x80, 4, 2 };

        cr_assert_eq(LINE(0x030a, table, 10, 0), 11);
        cr_assert_eq(LINE(0x030a, table, 10, 5), 11);
        cr_assert_eq(LINE(0x030a, table, 10, 6), 0);
        cr_assert_eq(LINE(0x030a, table, 10, 13), 0);
        cr_assert_eq(LINE(0x030a, table, 10, 14), 13);
        cr_assert_eq(LINE(0x030a, table, 10, 18), 0);
}

Test(python_line, locations_of_each_kind) {
        static const uint8_t table[] = {
                0x80 | 15 << 3 | 0,             /* 2 bytes without a line */
                0x80 | 10 << 3 | 1, 4, 8,       /* 4: the same line */
                0x80 | 0 << 3 | 0, 0x12,        /* 2: short, the same line */
                0x80 | 12 << 3 | 0, 0, 9,       /* 2: two lines on */
                0x80 | 13 << 3 | 0, 3,          /* 2: one line back */
                0x80 | 14 << 3 | 7, 0x40 | 8, 3, 1, 2, 3,       /* 16: 100 lines on */
        };

        cr_assert_eq(LINE(0x030b, table, 20, 0), 0);
        cr_assert_eq(LINE(0x030b, table, 20, 2), 20);
        cr_assert_eq(LINE(0x030b, table, 20, 4), 20);
        cr_assert_eq(LINE(0x030c, table, 20, 6), 20);
        cr_assert_eq(LINE(0x030c, table, 20, 8), 22);
        cr_assert_eq(LINE(0x030d, table, 20, 10), 21);
        cr_assert_eq(LINE(0x030e, table, 20, 12), 121);
        cr_assert_eq(LINE(0x030e, table, 20, 27), 121);
        cr_assert_eq(LINE(0x030e, table, 20, 28), 0);
        cr_assert_eq(LINE(0x030e, table, 20, -2), 20);
}

/*
 * By the compilers of 3.11 and 3.13; lines: of each instruction, by co_positions().
 *
 *     1  def f():
 *     2      try:
 *     3          g()
 *     4      except ValueError:
 *     5          return h()
 *     8  def wrap(function):
 *     9      def wrapped(*args, **kwargs):
 *    10          return function(*args, **kwargs)
 */
static const uint8_t except_11_table[] = {
        128, 0, 240, 2, 3, 5, 19, 221, 8, 9, 137, 3, 140, 3, 136, 3, 136, 3, 136, 3, 248, 221, 11,
        21, 240, 0, 1, 5, 19, 240, 0, 1, 5, 19, 240, 0, 1, 5, 19, 221, 15, 16, 137, 115, 140, 115,
        136, 10, 136, 10, 136, 10, 240, 3, 1, 5, 19, 248, 248, 248,
};
static const uint8_t except_11_lines[] = {
        1, 2, 3, 3, 3, 3, 3, 3, 3, 3, 3, 3, 3, 3, 3, 3, 3, 3, 0, 4, 4, 4, 4, 4, 4, 4, 4, 4, 5, 5, 5,
        5, 5, 5, 5, 5, 5, 5, 5, 5, 5, 5, 5, 5, 4, 0, 0, 0,
};

static const uint8_t star_11_table[] = {
        248, 128, 0, 216, 15, 23, 136, 120, 152, 20, 208, 15, 40, 160, 22, 208, 15, 40, 208, 15, 40,
        208, 8, 40,
};
static const uint8_t star_11_lines[] = {
        0, 9, 10, 10, 10, 10, 10, 10, 10, 10,
};

static const uint8_t except_13_table[] = {
        128, 0, 240, 2, 3, 5, 19, 220, 8, 9, 141, 3, 248, 220, 11, 21, 243, 0, 1, 5, 19, 220, 15,
        16, 139, 115, 138, 10, 240, 3, 1, 5, 19, 250,
};
static const uint8_t except_13_lines[] = {
        1, 2, 3, 3, 3, 3, 3, 3, 3, 3, 3, 3, 3, 0, 4, 4, 4, 4, 4, 4, 4, 4, 4, 5, 5, 5, 5, 5, 5, 5, 5,
        5, 5, 5, 5, 4, 0, 0, 0,
};

static const uint8_t star_13_table[] = {
        248, 128, 0, 217, 15, 23, 152, 20, 208, 15, 40, 160, 22, 209, 15, 40, 208, 8, 40,
};
static const uint8_t star_13_lines[] = {
        0, 9, 10, 10, 10, 10, 10, 10, 10, 10,
};

static void check(uint32_t version, const uint8_t *table, size_t size, uint32_t first, const uint8_t *lines,
                  size_t n) {
        for (size_t i = 0; i < n; i++)
                cr_assert_eq(python_line(version, table, size, first, (int64_t)i * 2), lines[i], "%zu", i);
        cr_assert_eq(python_line(version, table, size, first, (int64_t)n * 2), 0);
}

#define CHECK(_version, _name, _first) \
        check(_version, _name##_table, sizeof(_name##_table), _first, _name##_lines, \
              ARRAY_SIZE(_name##_lines))

Test(python_line, a_call_in_an_except_block) {
        CHECK(0x030b, except_11, 1);
        CHECK(0x030d, except_13, 1);
}

Test(python_line, a_call_with_stars_in_a_closure) {
        CHECK(0x030b, star_11, 9);
        CHECK(0x030d, star_13, 9);
}

Test(python_line, what_is_no_table) {
        static const uint8_t no_entry[] = { 5 }, cut[] = { 0x80 | 14 << 3, 0x7f }, endless[] = {
                0x80 | 13 << 3, 0x7f, 0x7f, 0x7f, 0x7f, 0x7f, 0x7f, 0x7f, 0x7f, 0x7f,
        }, below[] = { 0x80 | 13 << 3, 0x3f };

        cr_assert_eq(LINE(0x030b, no_entry, 1, 0), 0);
        cr_assert_eq(LINE(0x030b, cut, 1, 0), 0);
        cr_assert_eq(LINE(0x030b, endless, 1, 0), 0);
        cr_assert_eq(LINE(0x030b, below, 1, 0), 0);
        cr_assert_eq(line_at(0x030b, "", 0, 1, 0), 0);
        cr_assert_eq(line_at(0x0309, "x", 1, 7, 50), 7);
        cr_assert_eq(line_at(0x0309, "", 0, 7, 50), 7, "all of it is of one line");
        cr_assert_eq(line_at(0x030a, "x", 1, 7, 50), 0);
}

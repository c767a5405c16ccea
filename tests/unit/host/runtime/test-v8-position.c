/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Tables of source positions made by hand: numbers of seven bits, zig-zag, each the difference to the one
 * before (v8-position.c).
 */

#include <criterion/criterion.h>

#include "core/base/util/macro.h"
#include "host/runtime/v8/v8-position.h"


static V8Position find(const uint8_t *table, size_t size, uint32_t major, int32_t offset) {
        V8Position position = { -2, -2 };

        v8_position_find(table, size, major, offset, &position);
        return position;
}

Test(v8_position, the_first_code_offset_counts_from_minus_one) {
        /* code +1 → 0, word +22 → offset 10; code +3 → 3, word +8 → offset 14 */
        static const uint8_t table[] = { 2, 44, 6, 16 };

        cr_assert_eq(find(table, sizeof(table), 12, 0).script_offset, 10);
        cr_assert_eq(find(table, sizeof(table), 12, 2).script_offset, 10);
        cr_assert_eq(find(table, sizeof(table), 12, 3).script_offset, 14);
        cr_assert_eq(find(table, sizeof(table), 12, 99).script_offset, 14);
        cr_assert_eq(find(table, sizeof(table), 12, 3).inlining_id, -1);
        cr_assert_eq(find(table, sizeof(table), 12, -1).script_offset, -2, "before the first entry");
}

Test(v8_position, a_place_that_begins_no_statement_is_negative_up_to_13) {
        /* ~1 is -2, zig-zag 3: code +1 */
        static const uint8_t table[] = { 3, 44 };

        cr_assert_eq(find(table, sizeof(table), 13, 0).script_offset, 10);
}

Test(v8_position, from_14_on_two_flags_stand_below_the_difference) {
        /* code 1 << 2 | 3 */
        static const uint8_t table[] = { 7, 44, 4 << 2, 16 };

        cr_assert_eq(find(table, sizeof(table), 14, 0).script_offset, 10);
        cr_assert_eq(find(table, sizeof(table), 14, 3).script_offset, 10);
        cr_assert_eq(find(table, sizeof(table), 14, 4).script_offset, 14);
}

Test(v8_position, a_word_has_offset_and_inlining_id) {
        V8Position position = v8_position_of((uint64_t)(3 + 1) << 31 | (100 + 1) << 1);

        cr_assert_eq(position.script_offset, 100);
        cr_assert_eq(position.inlining_id, 3);
        cr_assert_eq(v8_position_of(0).inlining_id, -1);
        cr_assert_eq(v8_position_of(0).script_offset, -1);
        cr_assert_eq(v8_position_of(201 << 1 | 1).script_offset, -1, "external");
}

Test(v8_position, an_extent_is_that_of_the_whole_table) {
        static const uint8_t table[] = { 2, 44, 6, 16, 2, 3 };
        V8Extent extent;

        cr_assert(v8_position_extent(table, sizeof(table), 12, &extent));
        cr_assert_eq(extent.n, 3);
        cr_assert_eq(extent.last_code, 4);
        cr_assert_eq(extent.low, 10);
        cr_assert_eq(extent.high, 14);
}

Test(v8_position, what_ends_in_an_entry_or_has_no_place_is_no_table) {
        static const uint8_t cut[] = { 2, 44, 6 }, endless[] = { 2, 0xff, 0xff }, outside[] = { 2, 45 };
        V8Extent extent;

        cr_assert_not(v8_position_extent(cut, sizeof(cut), 12, &extent));
        cr_assert_not(v8_position_extent(endless, sizeof(endless), 12, &extent));
        cr_assert_not(v8_position_extent(outside, sizeof(outside), 12, &extent));
        cr_assert_not(v8_position_extent(cut, 0, 12, &extent));
}

Test(v8_position, a_table_may_not_lead_out_of_numbers) {
        static const uint8_t far[] = { 0xfe, 0xff, 0xff, 0xff, 0x1f, 44, 0xfe, 0xff, 0xff, 0xff, 0x1f, 44 };

        cr_assert_eq(find(far, sizeof(far), 12, INT32_MAX).script_offset, -2);
}

Test(v8_position, lines_end_by_four_characters) {
        static const uint8_t one[] = "a\nb\r\nc\rd";
        static const uint16_t two[] = { 'a', 0x2028, 'b', 0x2029, 'c', '\n' };
        uint32_t ends[8];

        cr_assert_eq(v8_line_ends(one, 8, 1, 100, 0, ends, ARRAY_SIZE(ends)), 3);
        cr_assert_eq(ends[0], 101);
        cr_assert_eq(ends[1], 104, "of \\r\\n the \\n is the end");
        cr_assert_eq(ends[2], 106);
        cr_assert_eq(v8_line_ends((const uint8_t *)two, 6, 2, 0, 0, ends, ARRAY_SIZE(ends)), 3);
        cr_assert_eq(ends[1], 3);
        cr_assert_eq(v8_line_ends(one, 5, 1, 0, 0, ends, 1), 2, "more than there is room for");
}

Test(v8_position, a_carriage_return_at_the_end_of_a_piece_asks_for_the_next_character) {
        static const uint8_t piece[] = "a\r";
        uint32_t ends[2];

        cr_assert_eq(v8_line_ends(piece, 2, 1, 0, '\n', ends, 2), 0);
        cr_assert_eq(v8_line_ends(piece, 2, 1, 0, 'b', ends, 2), 1);
}

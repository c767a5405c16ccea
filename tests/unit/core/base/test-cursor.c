/* SPDX-License-Identifier: Apache-2.0 */
#include <criterion/criterion.h>

#include "core/base/data/cursor.h"

Test(cursor, reads_in_order_without_alignment) {
        const uint8_t bytes[] = { 1, 2, 0, 3, 0, 0, 0, 4, 0, 0, 0, 0, 0, 0, 0 };
        Cursor cursor = cursor_make(bytes, sizeof(bytes));

        cr_assert_eq(cursor_u8(&cursor), 1);
        cr_assert_eq(cursor_u16(&cursor), 2);
        cr_assert_eq(cursor_u32(&cursor), 3);
        cr_assert_eq(cursor_u64(&cursor), 4);
        cr_assert_eq(cursor_left(&cursor), 0);
        cr_assert_not(cursor.failed);
}

Test(cursor, stays_failed_once_a_read_has_failed) {
        const uint8_t bytes[] = { 1, 2, 3 };
        Cursor cursor = cursor_make(bytes, sizeof(bytes));

        cr_assert_eq(cursor_u32(&cursor), 0);
        cr_assert(cursor.failed);
        cr_assert_eq(cursor_u8(&cursor), 0, "no later read succeeds");
        cr_assert_eq(cursor_left(&cursor), 0);
        cr_assert_null(cursor_take(&cursor, 1));
}

Test(cursor, refuses_a_length_that_would_wrap) {
        const uint8_t bytes[] = { 1, 2, 3 };
        Cursor cursor = cursor_make(bytes, sizeof(bytes));

        cursor_u8(&cursor);
        cr_assert_null(cursor_take(&cursor, SIZE_MAX));
        cr_assert(cursor.failed);
}

Test(cursor_varint, reads_the_examples_of_the_protobuf_documentation) {
        /* 150, and -2 as an int64: "Protocol Buffers, Encoding" */
        const uint8_t bytes[] = {
                0x96, 0x01, 0xFE, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0x01, 0x00
        };
        Cursor cursor = cursor_make(bytes, sizeof(bytes));

        cr_assert_eq(cursor_varint(&cursor), 150);
        cr_assert_eq((int64_t)cursor_varint(&cursor), -2);
        cr_assert_eq(cursor_varint(&cursor), 0);
        cr_assert_not(cursor.failed);
}

Test(cursor_varint, refuses_one_that_is_cut_off_or_longer_than_64_bits) {
        const uint8_t cut[] = { 0x96 };
        const uint8_t wide[] = { 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0x02 };
        const uint8_t endless[] = { 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x00 };
        Cursor cursor = cursor_make(cut, sizeof(cut));

        cr_assert_eq(cursor_varint(&cursor), 0);
        cr_assert(cursor.failed);
        cursor = cursor_make(wide, sizeof(wide));
        cr_assert_eq(cursor_varint(&cursor), 0);
        cr_assert(cursor.failed);
        cursor = cursor_make(endless, sizeof(endless));
        cr_assert_eq(cursor_varint(&cursor), 0);
        cr_assert(cursor.failed);
}

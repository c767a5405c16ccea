/* SPDX-License-Identifier: Apache-2.0 */
#include <criterion/criterion.h>

#include "util/cursor.h"

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

/* SPDX-License-Identifier: Apache-2.0 */
#include <criterion/criterion.h>

#include "core/base/data/protobuf.h"

#define CURSOR_OF(_bytes) cursor_make(_bytes, sizeof(_bytes) - 1)

/* The examples of protobuf.dev/programming-guides/encoding; a double and a fixed32 as protoc encodes them. */
Test(field_next, reads_each_kind) {
        Cursor cursor = CURSOR_OF("\x08\x96\x01"
                                  "\x12\x07testing"
                                  "\x19\x00\x00\x00\x00\x00\x00\xf8\x3f"
                                  "\x25\x01\x00\x00\x80");
        Field field;

        cr_assert(field_next(&cursor, &field));
        cr_assert(field.number == 1 && field.wire == WIRE_VARINT && field.value == 150);
        cr_assert(!field.data && !field.size);
        cr_assert(field_next(&cursor, &field));
        cr_assert(field.number == 2 && field.wire == WIRE_BYTES && !field.value);
        cr_assert_eq(field.size, 7);
        cr_assert_arr_eq(field.data, "testing", 7);
        cr_assert(field_next(&cursor, &field));
        cr_assert(field.number == 3 && field.wire == WIRE_FIXED64);
        cr_assert_eq(field.value, 0x3FF8000000000000, "1.5");
        cr_assert(!field.data && !field.size);
        cr_assert(field_next(&cursor, &field));
        cr_assert(field.number == 4 && field.wire == WIRE_FIXED32 && field.value == 0x80000001);
        cr_assert_not(field_next(&cursor, &field));
        cr_assert_not(cursor.failed, "the end is no mistake");
}

Test(field_next, reads_a_message_in_a_message) {
        Cursor cursor = CURSOR_OF("\x1a\x03\x08\x96\x01"), inner;
        Field field;

        cr_assert(field_next(&cursor, &field) && field.number == 3);
        inner = field_cursor(&field);
        cr_assert(field_next(&inner, &field) && field.number == 1 && field.value == 150);
        cr_assert_not(field_next(&inner, &field));
        cr_assert_not(inner.failed);
}

Test(field_next, takes_empty_bytes) {
        Cursor cursor = CURSOR_OF("\x12\x00");
        Field field;

        cr_assert(field_next(&cursor, &field) && field.data && !field.size);
        cr_assert_not(field_next(&cursor, &field));
        cr_assert_not(cursor.failed);
}

static void refuse(Cursor cursor) {
        Field field;

        cr_assert_not(field_next(&cursor, &field));
        cr_assert(cursor.failed);
}

Test(field_next, refuses_what_is_no_protobuf) {
        refuse(CURSOR_OF("\x08"));                                      /* no value */
        refuse(CURSOR_OF("\x08\x96"));                                  /* a varint that is cut off */
        refuse(CURSOR_OF("\x12\x08testing"));                           /* one byte less than it says */
        refuse(CURSOR_OF("\x12\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01")); /* 2^64 - 1 bytes */
        refuse(CURSOR_OF("\x19\x00\x00\x00\x00\x00\x00\xf8"));
        refuse(CURSOR_OF("\x25\x01\x00\x00"));
        refuse(CURSOR_OF("\x0b\x0c"));                                  /* a group */
        refuse(CURSOR_OF("\x0e\x00"));                                  /* wire type 6 */
        refuse(CURSOR_OF("\x00\x01"));                                  /* field 0 */
        refuse(CURSOR_OF("\x80\x80\x80\x80\x10\x01"));                  /* field 2^29 */
}

Test(field_next, takes_the_largest_number_of_a_field) {
        Cursor cursor = CURSOR_OF("\xf8\xff\xff\xff\x0f\x01");
        Field field;

        cr_assert(field_next(&cursor, &field));
        cr_assert_eq(field.number, (1u << 29) - 1);
}

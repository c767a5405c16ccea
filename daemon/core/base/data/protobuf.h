/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Protobuf Fields
 *
 * The wire format, one field at a time, over bytes that others chose. It allocates nothing, and a
 * message within a message is bytes: its reader makes another cursor of them.
 *
 *     0a 08 "checkout"         field 1, bytes: a string, a message or a packed list
 *     10 96 01                 field 2, varint: 150
 */

#include <stdbool.h>
#include <stdint.h>

#include "core/base/data/cursor.h"

typedef enum WireType { WIRE_VARINT = 0, WIRE_FIXED64 = 1, WIRE_BYTES = 2, WIRE_FIXED32 = 5 } WireType;

typedef struct Field {
        uint64_t number;                /* 1 to 2^29 - 1 */
        WireType wire;
        uint64_t value;                 /* value of all wire types but WIRE_BYTES, which has 0 */
        const uint8_t *data;            /* content of WIRE_BYTES, in place; else NULL */
        size_t size;
} Field;

/* The next field. Return: false at the end, or with cursor->failed when it is no protobuf. */
static inline bool field_next(Cursor *cursor, Field *field) {
        uint64_t tag;

        if (!cursor_left(cursor))
                return false;
        tag = cursor_varint(cursor);
        *field = (Field){ .number = tag >> 3, .wire = tag & 7 };
        if (field->wire == WIRE_VARINT)
                field->value = cursor_varint(cursor);
        else if (field->wire == WIRE_FIXED64)
                field->value = cursor_u64(cursor);
        else if (field->wire == WIRE_FIXED32)
                field->value = cursor_u32(cursor);
        else if (field->wire == WIRE_BYTES) {
                field->size = cursor_varint(cursor);
                field->data = cursor_take(cursor, field->size);
        } else
                cursor->failed = true;  /* groups (3, 4): nothing that is read here has them */
        cursor->failed |= field->number == 0 || field->number >= 1u << 29;
        return !cursor->failed;
}

/* Over the bytes of a field. */
static inline Cursor field_cursor(const Field *field) {
        return cursor_make(field->data, field->size);
}

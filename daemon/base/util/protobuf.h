/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Protobuf Fields
 *
 * The wire format, one field at a time, over bytes that a receiver chose. Just
 * enough for the two tiny messages that come back over HTTP and for counting
 * the profiles of a request; it allocates nothing and does not recurse.
 */

#include <stdbool.h>
#include <stdint.h>

#include "base/util/cursor.h"

typedef enum WireType { WIRE_VARINT = 0, WIRE_FIXED64 = 1, WIRE_BYTES = 2, WIRE_FIXED32 = 5 } WireType;

typedef struct Field {
        uint64_t number;
        WireType wire;
        uint64_t value;                 /* WIRE_VARINT */
        const uint8_t *data;            /* the others, in place */
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
                field->size = 8;
        else if (field->wire == WIRE_FIXED32)
                field->size = 4;
        else if (field->wire == WIRE_BYTES)
                field->size = cursor_varint(cursor);
        else
                cursor->failed = true;  /* groups (3, 4) are not used by anything that we talk to */
        if (field->wire != WIRE_VARINT)
                field->data = cursor_take(cursor, field->size);
        /* field numbers are 1 to 2^29 - 1 */
        if (field->number == 0 || field->number >= (1u << 29))
                cursor->failed = true;
        return !cursor->failed;
}

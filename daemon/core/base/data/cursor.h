/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Cursor
 *
 * A bounds-checked reader over untrusted bytes. Reads advance
 * only on success; alignment is never assumed. Once a read has failed, `failed`
 * stays set and every later read yields zero, so that a parser may check once
 * at the end of a group.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

typedef struct Cursor {
        const uint8_t *data;
        size_t size;
        size_t at;
        bool failed;
} Cursor;

static inline Cursor cursor_make(const void *data, size_t size) {
        return (Cursor){ .data = data, .size = size };
}

static inline size_t cursor_left(const Cursor *cursor) {
        return cursor->failed ? 0 : cursor->size - cursor->at;
}

/* The next @n bytes in place, or NULL (and `failed`) if there are fewer. */
static inline const void *cursor_take(Cursor *cursor, size_t n) {
        const void *p;

        if (n > cursor_left(cursor)) {
                cursor->failed = true;
                return NULL;
        }
        p = cursor->data + cursor->at;
        cursor->at += n;
        return p;
}

static inline bool cursor_copy(Cursor *cursor, void *to, size_t n) {
        const void *p = cursor_take(cursor, n);

        if (!p) {
                memset(to, 0, n);
                return false;
        }
        memcpy(to, p, n);
        return true;
}

#define CURSOR_READ(_type, _name) \
        static inline _type cursor_##_name(Cursor *cursor) { \
                _type value; \
                cursor_copy(cursor, &value, sizeof(value)); \
                return value; \
        }
CURSOR_READ(uint8_t, u8)
CURSOR_READ(uint16_t, u16)
CURSOR_READ(uint32_t, u32)
CURSOR_READ(uint64_t, u64)
#undef CURSOR_READ

/* A base-128 number as protobuf writes it: at most ten bytes; bits above the 64th make it malformed. */
static inline uint64_t cursor_varint(Cursor *cursor) {
        uint64_t value = 0;

        for (unsigned shift = 0; shift < 70; shift += 7) {
                uint8_t byte = cursor_u8(cursor);

                if (cursor->failed)
                        return 0;
                if (shift == 63 && byte > 1)
                        break;
                value |= (uint64_t)(byte & 0x7F) << shift;
                if (!(byte & 0x80))
                        return value;
        }
        cursor->failed = true;
        return 0;
}

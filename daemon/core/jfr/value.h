/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Values of Recordings
 *
 * A bounds-checked reader over bytes of a recording (JFR, versions 2.x). A chunk says once how its integers
 * are written: compressed (seven bits a byte, lowest first; a ninth byte has eight) or plain (big endian).
 * Strings say it each for themselves:
 *
 *     0 null | 1 empty | 2 index into the pool of strings | 3 UTF-8 (the JVM's) | 4 UTF-16 units as integers
 *     | 5 Latin-1
 *
 * Once a read has failed, `failed` stays set and every later read yields zero.
 */

#include <endian.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "core/base/util/text.h"

typedef struct JfrCursor {
        const uint8_t *at, *end;
        bool compressed;
        bool failed;
} JfrCursor;

typedef enum JfrEncoding {
        JFR_STRING_NULL,
        JFR_STRING_EMPTY,
        JFR_STRING_POOL,
        JFR_STRING_UTF8,
        JFR_STRING_UTF16,
        JFR_STRING_LATIN1,
} JfrEncoding;

enum { JFR_MAX_INTEGER = 9 };           /* bytes of a compressed one */

/* A string as it stands in the recording. */
typedef struct JfrString {
        JfrEncoding encoding;
        const uint8_t *data;
        size_t size;                    /* bytes of data */
        uint64_t index;                 /* JFR_STRING_POOL */
        bool compressed;                /* JFR_STRING_UTF16 */
} JfrString;

static inline size_t jfr_left(const JfrCursor *cursor) {
        return cursor->failed ? 0 : (size_t)(cursor->end - cursor->at);
}

static inline const uint8_t *jfr_take(JfrCursor *cursor, size_t n) {
        const uint8_t *p = cursor->at;

        if (n > jfr_left(cursor)) {
                cursor->failed = true;
                return NULL;
        }
        cursor->at += n;
        return p;
}

static inline uint64_t jfr_big_endian(JfrCursor *cursor, unsigned size) {
        const uint8_t *p = jfr_take(cursor, size);
        uint64_t value = 0;

        for (unsigned i = 0; p && i < size; i++)
                value = value << 8 | p[i];
        return value;
}

static inline uint64_t jfr_compressed(JfrCursor *cursor) {
        uint64_t value = 0;

        for (unsigned shift = 0; shift < 56; shift += 7) {
                if (cursor->failed || cursor->at >= cursor->end) {
                        cursor->failed = true;
                        return 0;
                }
                value |= (uint64_t)(*cursor->at & 0x7F) << shift;
                if (!(*cursor->at++ & 0x80))
                        return value;
        }
        return value | jfr_big_endian(cursor, 1) << 56;
}

#define JFR_MARKS UINT64_C(0x8080808080808080)

/* The highest bit of each of the eight bytes in which an integer ends, if none of them is a ninth one. */
static inline uint64_t jfr_integer_ends(const uint8_t *at) {
        uint64_t word;

        memcpy(&word, at, sizeof(word));
        return ~le64toh(word) & JFR_MARKS;
}

/* How many integers end there. */
static inline uint64_t jfr_count_ends(uint64_t ends) {
        return (ends >> 7) * 0x0101010101010101 >> 56;
}

/*
 * As jfr_quick_compressed(), of three bytes and more: eight at once. Sevens of bits move together by pairs,
 * pairs of pairs, and halves.
 */
static inline uint64_t jfr_quick_long(const uint8_t **atp) {
        uint64_t ends = jfr_integer_ends(*atp), word;

        memcpy(&word, *atp, sizeof(word));
        *atp += ends ? ((unsigned)__builtin_ctzll(ends) + 1) / 8 : 9;
        word = le64toh(word) & (ends ^ (ends - 1)) & ~JFR_MARKS;        /* without an end: all eight */
        word = (word & 0x007F007F007F007F) | (word & 0x7F007F007F007F00) >> 1;
        word = (word & 0x00003FFF00003FFF) | (word & 0x3FFF00003FFF0000) >> 2;
        word = (word & 0x000000000FFFFFFF) | (word & 0x0FFFFFFF00000000) >> 4;
        return ends ? word : word | (uint64_t)(*atp)[-1] << 56;
}

/*
 * As jfr_compressed(), for bytes of which at least nine can be read. Most integers are of one byte or two
 * (indices, weights, states), in an order that no CPU foresees: so there is no branch between these.
 */
static inline uint64_t jfr_quick_compressed(const uint8_t **atp) {
        uint64_t first = (*atp)[0], second = (*atp)[1], more = first >> 7;

        if (first & second & 0x80)
                return jfr_quick_long(atp);
        *atp += 1 + more;
        return (first & 0x7F) | (second & -more) << 7;
}

/* An integer that is @size bytes when it is plain. */
static inline uint64_t jfr_integer(JfrCursor *cursor, unsigned size) {
        return cursor->compressed ? jfr_compressed(cursor) : jfr_big_endian(cursor, size);
}

static inline uint8_t jfr_byte(JfrCursor *cursor) {
        return (uint8_t)jfr_big_endian(cursor, 1);
}

static inline uint32_t jfr_int(JfrCursor *cursor) {
        return (uint32_t)jfr_integer(cursor, 4);
}

static inline uint64_t jfr_long(JfrCursor *cursor) {
        return jfr_integer(cursor, 8);
}

static inline double jfr_float(JfrCursor *cursor) {
        uint32_t bits = (uint32_t)jfr_big_endian(cursor, 4);
        float value;

        memcpy(&value, &bits, sizeof(value));
        return (double)value;
}

static inline double jfr_double(JfrCursor *cursor) {
        uint64_t bits = jfr_big_endian(cursor, 8);
        double value;

        memcpy(&value, &bits, sizeof(value));
        return value;
}

/* Reads a string, and moves the cursor behind it. */
JfrString jfr_string(JfrCursor *cursor);

/* Appends the string as UTF-8; of a pool's string nothing. */
void jfr_string_append(const JfrString *string, Text *text);

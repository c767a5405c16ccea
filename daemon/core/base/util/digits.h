/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Digits
 *
 * Numbers as text where millions of them are made: eight digits at once in one register, without a branch for
 * each. All write up to DIGITS_SLACK bytes behind what they return.
 */

#include <endian.h>
#include <stdint.h>
#include <string.h>

enum {
        DIGITS_MAX = 20,                /* digits of the largest number */
        DIGITS_SLACK = 7,
};

#define DIGITS_SHORT UINT64_C(100000000)                /* numbers of at most eight digits are smaller */
#define DIGITS_ZEROS UINT64_C(0x3030303030303030)

/*
 * The digits of @value < 10^8 as bytes, the first one lowest: split in halves, quarters, and digits, side by
 * side.
 */
static inline uint64_t digits_of(uint64_t value) {
        uint64_t fours = value / 10000 | (value % 10000) << 32;
        uint64_t hundreds = (fours * 10486 >> 20) & UINT64_C(0x7F0000007F);
        uint64_t twos = hundreds | (fours - 100 * hundreds) << 16;
        uint64_t tens = (twos * 103 >> 10) & UINT64_C(0x000F000F000F000F);

        return tens | (twos - 10 * tens) << 8;
}

static inline char *digits_put_word(char *to, uint64_t word, unsigned n) {
        word = htole64(word);
        memcpy(to, &word, sizeof(word));
        return to + n;
}

/* All eight of @value < 10^8, zeros in front too. */
static inline char *digits_put_8(char *to, uint64_t value) {
        return digits_put_word(to, digits_of(value) | DIGITS_ZEROS, 8);
}

/* @value < 10^8 without zeros in front. */
static inline char *digits_put_short(char *to, uint64_t value) {
        uint64_t digits = digits_of(value);
        unsigned n_zeros = (unsigned)__builtin_ctzll(digits | UINT64_C(1) << 56) / 8;

        return digits_put_word(to, (digits | DIGITS_ZEROS) >> 8 * n_zeros, 8 - n_zeros);
}

static inline char *digits_put(char *to, uint64_t value) {
        uint64_t high;

        if (value < DIGITS_SHORT)
                return digits_put_short(to, value);
        high = value / DIGITS_SHORT;
        to = high < DIGITS_SHORT
                ? digits_put_short(to, high)
                : digits_put_8(digits_put_short(to, high / DIGITS_SHORT), high % DIGITS_SHORT);
        return digits_put_8(to, value % DIGITS_SHORT);
}

/*
 * Eight hexadecimal digits of 32 bits, lower case: a digit in each byte, then 39 more where it is a letter.
 */
static inline char *digits_put_hex_8(char *to, uint32_t value) {
        uint64_t nibbles = value, letters;

        nibbles = (nibbles << 16 | nibbles) & UINT64_C(0x0000FFFF0000FFFF);
        nibbles = (nibbles << 8 | nibbles) & UINT64_C(0x00FF00FF00FF00FF);
        nibbles = (nibbles << 4 | nibbles) & UINT64_C(0x0F0F0F0F0F0F0F0F);
        nibbles = __builtin_bswap64(nibbles);
        letters = (nibbles + UINT64_C(0x0606060606060606)) >> 4 & UINT64_C(0x0101010101010101);
        return digits_put_word(to, nibbles + DIGITS_ZEROS + letters * ('a' - '0' - 10), 8);
}

static inline char *digits_put_hex_16(char *to, uint64_t value) {
        return digits_put_hex_8(digits_put_hex_8(to, (uint32_t)(value >> 32)), (uint32_t)value);
}

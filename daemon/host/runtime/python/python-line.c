/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Three forms, all read from the begin on:
 *
 *     3.8, 3.9     pairs (bytes, signed lines): the line changes behind so many bytes
 *                      06 01 08 fe          line + 1 from byte 6, - 2 from byte 14
 *     3.10         pairs (bytes, signed lines): these bytes have that line; -128 = none
 *                      06 01 08 80          bytes 0-5: line + 1; bytes 6-13: none
 *     3.11 on      entries of a first byte 1kkkknnn, then bytes below 0x80; n + 1 instructions of two bytes
 *                      k 0-9    short: same line, one byte more
 *                      k 10-12  line + (k - 10), two bytes more
 *                      k 13     a signed number: lines
 *                      k 14     four numbers: lines (signed), end line, columns
 *                      k 15     no line
 *                  A number is little-endian, six bits a byte, bit 6 = more. Signed: bit 0 is the sign.
 *
 * An entry of 3.11 also covers the instruction's caches, where a caller's position may be.
 */
#include "host/runtime/python/python-line.h"

#include <stdbool.h>

enum {
        NO_LINE = -128,                 /* 3.10 */
        UNIT = 2,                       /* bytes of an instruction */
        CODE_ONE_LINE = 10,
        CODE_NO_COLUMN = 13,
        CODE_LONG = 14,
        CODE_NONE = 15,
        MAX_SHIFT = 30,
};

static uint32_t line_or_none(int64_t line) {
        return line > 0 && line <= INT32_MAX ? (uint32_t)line : 0;
}

static uint32_t line_of_lnotab(const uint8_t *table, size_t size, int64_t line, int64_t position) {
        int64_t at = 0;

        for (size_t i = 0; i + 1 < size; i += 2) {
                at += table[i];
                if (at > position)
                        break;
                line += (int8_t)table[i + 1];
        }
        return line_or_none(line);
}

static uint32_t line_of_ranges(const uint8_t *table, size_t size, int64_t line, int64_t position) {
        int64_t at = 0;

        for (size_t i = 0; i + 1 < size; i += 2) {
                int8_t lines = (int8_t)table[i + 1];

                at += table[i];
                if (lines != NO_LINE)
                        line += lines;
                if (at > position)
                        return lines == NO_LINE ? 0 : line_or_none(line);
        }
        return 0;
}

/* A number at *@ip. Return: whether it ends in the table. */
static bool read_number(const uint8_t *table, size_t size, size_t *ip, uint32_t *numberp) {
        uint32_t number = 0;

        for (unsigned shift = 0; *ip < size && shift <= MAX_SHIFT; shift += 6) {
                uint8_t byte = table[(*ip)++];

                number |= (uint32_t)(byte & 63) << shift;
                if (!(byte & 64)) {
                        *numberp = number;
                        return true;
                }
        }
        return false;
}

static uint32_t line_of_locations(const uint8_t *table, size_t size, int64_t line, int64_t position) {
        int64_t at = 0;

        for (size_t i = 0; i < size;) {
                uint8_t first = table[i++];
                unsigned kind = first >> 3 & 15;
                uint32_t number = 0;

                if (!(first & 0x80))
                        return 0;
                if (kind == CODE_NO_COLUMN || kind == CODE_LONG) {
                        if (!read_number(table, size, &i, &number))
                                return 0;
                        line += number & 1 ? -(int64_t)(number >> 1) : (int64_t)(number >> 1);
                } else if (kind >= CODE_ONE_LINE && kind < CODE_NO_COLUMN) {
                        line += kind - CODE_ONE_LINE;
                }
                at += ((first & 7) + 1) * UNIT;
                if (at > position)
                        return kind == CODE_NONE ? 0 : line_or_none(line);
                while (i < size && !(table[i] & 0x80))  /* columns */
                        i++;
        }
        return 0;
}

uint32_t python_line(uint32_t version, const uint8_t *table, size_t size, uint32_t first_line,
                     int64_t position) {
        /* Nothing was executed yet. */
        if (position < 0)
                return first_line;
        if (version < 0x030a)
                return line_of_lnotab(table, size, first_line, position);
        if (version == 0x030a)
                return line_of_ranges(table, size, first_line, position);
        return line_of_locations(table, size, first_line, position);
}

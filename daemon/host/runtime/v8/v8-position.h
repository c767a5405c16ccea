/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Source Positions of V8
 *
 * Pure: tables that lead from code to places in a script, and lines of a text.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct V8Position {
        int32_t script_offset;          /* characters from the script's begin; -1 = not known */
        int32_t inlining_id;            /* index of an inlining position; -1 = the function itself */
} V8Position;

/* The position that a word of V8's says: of a table, or of an inlining position. */
V8Position v8_position_of(uint64_t word);

/*
 * The entry of @table for the code at @offset, which counts from the first instruction or bytecode. @major:
 * of V8's release. Return: whether there is one.
 */
bool v8_position_find(const uint8_t *table, size_t size, uint32_t major, int32_t offset,
                      V8Position *position);

/* Extent of a whole table of source positions. */
typedef struct V8Extent {
        uint32_t n;                     /* entries */
        int32_t last_code;
        int32_t low, high;              /* script offsets */
} V8Extent;

/* Return: whether @table can be one: its code offsets rise, and its end is that of an entry. */
bool v8_position_extent(const uint8_t *table, size_t size, uint32_t major, V8Extent *extent);

/*
 * Ends of lines in @n characters of @width bytes, the first of which is number @first of the text: \n, \r
 * without \n behind it, U+2028, U+2029. @next: the character behind them, 0 = none. Return: how many were
 * found; up to @room of them are written.
 */
size_t v8_line_ends(const uint8_t *text, size_t n, unsigned width, uint32_t first, uint32_t next,
                    uint32_t *ends, size_t room);

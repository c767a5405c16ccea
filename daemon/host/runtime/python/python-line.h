/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Line Tables of CPython
 *
 * Pure: bytes of a code object's table in, a line out.
 */

#include <stddef.h>
#include <stdint.h>

/*
 * The line of the instruction at @position, in bytes from the first one; < 0 = the function's begin.
 * @version: major << 8 | minor, 0x0308 or newer. @table: co_lnotab (3.8, 3.9) or co_linetable. Return: the
 * line, 0 = the instruction has none, or the table says nothing of it.
 */
uint32_t python_line(uint32_t version, const uint8_t *table, size_t size, uint32_t first_line,
                     int64_t position);

/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Baseline Code of V8
 *
 * From a place in baseline code to the bytecode that it was made of.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { V8_N_SCALES = 3, V8_MAX_BYTECODES = 256 };

/* Bytes of each bytecode with its operands, by the size of these: 1, 2 and 4 bytes. */
typedef struct V8Sizes {
        uint32_t n;                     /* bytecodes of this release; 0 = not known */
        uint8_t bytes[V8_N_SCALES][V8_MAX_BYTECODES];
} V8Sizes;

/*
 * Searches V8's file for its table of sizes, for 250 ms at most: no question waits for all of it. @fd:
 * borrowed. *atp: 0 at first; where the search goes on. Return: whether it has come to the end, and has found
 * one table alone.
 */
bool v8_sizes_find(int fd, uint64_t file_size, uint64_t *atp, V8Sizes *sizes);

/* The same of one piece of the file, some milliseconds' work. Return: whether there are more. */
bool v8_sizes_search(int fd, uint64_t file_size, uint64_t *atp, V8Sizes *sizes);

/* Pure. Finds the first table in bytes. */
bool v8_sizes_find_in(const uint8_t *data, size_t n, V8Sizes *sizes);

/*
 * Pure. The bytecode that the code at @pc, from the first instruction on, was made of; a return address
 * counts as the call before it, unless it @is_exact. @table: of the code's steps. Return: its offset; -1 = it
 * is not known.
 */
int32_t v8_baseline_index(const uint8_t *table, size_t n_table, const uint8_t *bytecodes, size_t n_bytecodes,
                          const V8Sizes *sizes, uint32_t pc, bool is_exact);

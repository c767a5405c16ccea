/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Go's Table
 *
 * .gopclntab: which function lies where, as Go programs carry it for their own unwinder, stripped (-s -w) or
 * not. Since Go 1.18:
 *
 *       0  u32 0xfffffff0 (Go 1.18) or 0xfffffff1 (Go 1.20), u8 0, 0, smallest instruction, size of a pointer
 *       8  u64 functions, files, runtime.text: 0 where a linker has left it to the program's start, or Go has
 *          dropped it
 *      32  u64 offsets of: names | units | files | values by pc | functions
 *   names  each with a NUL
 *   functions  { u32 start, u32 at } in order, and u32, the end of the last; from runtime.text, and from
 *              functions
 *          at  { u32 start, u32 name, … } from names
 *
 * Pure: bytes in, values out. All of them are a stranger's.
 */

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

enum {
        GO_TABLE_HEADER = 72,
        GO_TABLE_MAGIC_118 = 0xf0,      /* the last byte; three times 0xff before it */
        GO_TABLE_MAGIC_120 = 0xf1,
};

/* Where its parts begin, in the order in which they lie. */
typedef enum GoPart { GO_NAMES, GO_UNITS, GO_FILES, GO_VALUES, GO_FUNCTIONS, GO_N_PARTS } GoPart;

typedef struct GoTable {
        const char *data;               /* borrowed */
        uint64_t size;
        uint64_t text;                  /* runtime.text; 0 = it does not say */
        uint64_t parts[GO_N_PARTS];
        uint32_t n;                     /* functions */
} GoTable;

typedef struct GoFunction {
        uint32_t start, size;           /* from runtime.text; size 0 = the next one does not lie behind it */
        const char *name;               /* in the table */
        uint16_t n_name;                /* up to SYMBOL_MAX_NAME */
} GoFunction;

/* Wherever it lies. */
static inline uint64_t go_table_word(const char *data) {
        uint64_t word;

        memcpy(&word, data, sizeof(word));
        return word;
}

/*
 * How many functions a table with this header says it has. @data: GO_TABLE_HEADER bytes. Return: 0 = it is no
 * such header.
 */
uint32_t go_table_count(const char *data);

/*
 * @data: from the table's start, to its end or further. Return: whether it is one, and all of its parts are
 * within.
 */
bool go_table_init(GoTable *table, const char *data, uint64_t size);

/* The @index-th of n, and whether it makes sense. */
bool go_table_function(const GoTable *table, uint32_t index, GoFunction *function);

/* Where the first one starts, and the last one ends. */
uint32_t go_table_start(const GoTable *table);
uint32_t go_table_end(const GoTable *table);

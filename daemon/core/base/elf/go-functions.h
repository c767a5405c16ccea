/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Functions of a Go Program
 *
 * Finds .gopclntab in an ELF file and reads it: the list of functions that each Go program carries for its
 * own unwinder, stripped (-s -w) or not. GoTable is the table alone (pure: bytes in, values out); GoFunctions
 * is the table of one file, with the address that its functions count from. The target wrote all of these
 * bytes.
 */

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#include "core/base/elf/image.h"

enum {
        GO_TABLE_HEADER = 72,
        GO_MAX_NAME = 4096,             /* bytes of a name; longer ones are cut */
        GO_TABLE_MAGIC_118 = 0xf0,      /* the last byte; three times 0xff before it */
        GO_TABLE_MAGIC_120 = 0xf1,
};

/* Parts of the table, in the order in which they lie in it. */
typedef enum GoPart { GO_NAMES, GO_UNITS, GO_FILES, GO_VALUES, GO_FUNCTIONS, GO_N_PARTS } GoPart;

typedef struct GoTable {
        const char *data;               /* borrowed */
        uint64_t size;
        uint64_t text;                  /* runtime.text; 0 = the header does not have it */
        uint64_t parts[GO_N_PARTS];
        uint32_t n;                     /* functions */
} GoTable;

typedef struct GoFunction {
        /* start from runtime.text; size 0 = the next one does not lie behind it */
        uint32_t start, size;
        const char *name;               /* in the table */
        uint16_t n_name;                /* up to GO_MAX_NAME */
} GoFunction;

/* Read a number of the table, which may lie at any address. */
static inline uint64_t go_table_word(const char *data) {
        uint64_t word;

        memcpy(&word, data, sizeof(word));
        return word;
}

static inline uint32_t go_table_u32(const char *data) {
        uint32_t value;

        memcpy(&value, data, sizeof(value));
        return value;
}

/* Number of functions that a header claims. @data: GO_TABLE_HEADER bytes. Return: 0 = not such a header. */
uint32_t go_table_count(const char *data);

/*
 * @data: starts with the table and may go on behind it. Return: whether it is a table with all parts inside.
 */
bool go_table_init(GoTable *table, const char *data, uint64_t size);

/* Bytes of the processor's smallest instruction, 1 to 4. */
uint32_t go_table_unit(const GoTable *table);

/* Function number @index, of table->n. Return: whether its entry is sound. */
bool go_table_function(const GoTable *table, uint32_t index, GoFunction *function);

bool go_function_has_name(const GoFunction *function, const char *name);

/* Start of function number @index, of table->n, or the end of the last one. */
uint32_t go_table_start_of(const GoTable *table, uint32_t index);

/* Start of the first function and end of the last one, both relative to runtime.text. */
uint32_t go_table_start(const GoTable *table);
uint32_t go_table_end(const GoTable *table);

enum {
        _GO_FUNCTIONS_E_SUCCESS,
        GO_FUNCTIONS_E_NONE,            /* no table, or it has no more functions than are known already */
        /* the program is Go's, but its table is damaged, too large, or of an unknown version */
        GO_FUNCTIONS_E_REFUSED,
};

enum { GO_N_BASES = 12 };

typedef struct GoFunctions {
        GoTable table;
        /* addresses of the module, one of which funcdata count from (go-lines.c); 0 = none */
        uint64_t bases[GO_N_BASES];
        /* address of runtime.text; one executable segment holds all functions */
        uint64_t text;
        ImageBytes bytes;               /* memory that `table` points into */
} GoFunctions;

/*
 * Finds and checks the table of @image.
 * @n_known: number of functions with symbols; 0 = none, or exported ones only.
 * @max_bytes: largest table that is accepted. @may_map: see image_bytes_init().
 * Return: 0, GO_FUNCTIONS_E_*, -ENOMEM.
 */
int go_functions_init(GoFunctions *functions, const ElfImage *image, uint32_t n_known, uint64_t max_bytes,
                      bool may_map);
void go_functions_deinit(GoFunctions *functions);

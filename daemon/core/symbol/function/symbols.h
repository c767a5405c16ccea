/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Symbol Table
 *
 * Functions of one ELF file, as symbol-list.h finds them, sorted by address in 16 bytes each, and their
 * names. Touches no globals. Names are as in the file, without the default version (`@@GLIBC_2.2.5`), and with
 * a byte for their language before them, where they have one (language.h).
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/base/util/macro.h"
#include "core/symbol/function/symbol-list.h"

enum { SYMBOL_FUNCTION_BYTES = 16 };    /* memory of one function, without its name */

typedef struct SymbolTable SymbolTable;

/* Part of a list that a table takes: functions within 4 GiB from the first, and up to a number of bytes. */
typedef struct SymbolExtent {
        uint64_t base;                  /* address of the first function */
        uint32_t n;
        uint32_t names_size;            /* each with a NUL */
        uint32_t n_left_out;
        bool is_full;                   /* static functions too: there was a .symtab, or Go's table */
} SymbolExtent;

/* @most: bytes of the table; functions beyond are left out and counted. */
void symbol_list_measure(const SymbolList *list, uint32_t most, SymbolExtent *extent);

/* Return: 0, -ENOMEM. */
int symbol_table_new_list(SymbolTable **tablep, const SymbolList *list);

/*
 * A table that arrives in pieces from another process (symbol-wire.h), which is not trusted. First the room:
 * Return: 0, -ENOMEM.
 */
int symbol_table_new_empty(SymbolTable **tablep, const SymbolExtent *extent);

/*
 * Function number @index, after those before it. Return: false = not in order, or senseless: give the table
 * up.
 */
bool symbol_table_put(SymbolTable *table, uint32_t index, uint32_t start, uint32_t size);

/* Room for extent.names_size bytes of names, each with a NUL, in the order of the functions. */
char *symbol_table_names(SymbolTable *table);

/* When all is there. Return: whether each function has a name; then the table can be used. */
bool symbol_table_finish(SymbolTable *table);

SymbolTable *symbol_table_free(SymbolTable *table);
DEFINE_CLEANUP(SymbolTable, symbol_table_free)

/*
 * Finds the function that holds @address (an ELF address), the innermost if they nest. Return: its name,
 * which lives as long as the table, and *offsetp from its start; or NULL.
 */
const char *symbol_table_find(const SymbolTable *table, uint64_t address, uint64_t *offsetp);

uint32_t symbol_table_n_symbols(const SymbolTable *table);
uint32_t symbol_table_n_left_out(const SymbolTable *table);     /* over a cap */
bool symbol_table_is_full(const SymbolTable *table);
size_t symbol_table_memory(const SymbolTable *table);

/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Symbol Table
 *
 * The functions of one ELF file, from .symtab and .dynsym, sorted by address in
 * 16 bytes each beside their names. Takes a descriptor and limits, touches no
 * globals. Names are as in the file, without the default version (`@@GLIBC_2.2.5`).
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "symbol/image.h"
#include "util/macro.h"

typedef struct SymbolTable SymbolTable;

enum { SYMBOLS_MAX_NAME = 4096 };       /* longer names are cut */

typedef struct SymbolLimits {
        uint32_t max_symbols;           /* of both tables; more are left out and counted */
        uint64_t max_string_bytes;      /* of one string table; a longer one is read so far */
} SymbolLimits;

extern const SymbolLimits symbol_default_limits;

/*
 * Reads the functions of @image. A file without symbols yields an empty table; a symbol that makes no
 * sense is left out. @limits: NULL = symbol_default_limits. Return: 0, IMAGE_E_*, -ENOMEM.
 */
int symbol_table_new(SymbolTable **tablep, const ElfImage *image, const SymbolLimits *limits);

/*
 * The same of two files: an object and what was split from it (a debug file, .gnu_debugdata). Where a section lies at
 * another address in @split than in @image (the object was moved by a prelinker), its symbols are moved as well.
 */
int symbol_table_new_split(SymbolTable **tablep, const ElfImage *image, const ElfImage *split,
                           const SymbolLimits *limits);

SymbolTable *symbol_table_free(SymbolTable *table);
DEFINE_CLEANUP(SymbolTable, symbol_table_free)

/*
 * The function that holds @address (an ELF address), the innermost if they nest. Return: its name, which lives
 * as long as the table, and *offsetp from its start; or NULL.
 */
const char *symbol_table_find(const SymbolTable *table, uint64_t address, uint64_t *offsetp);

uint32_t symbol_table_n_symbols(const SymbolTable *table);
uint32_t symbol_table_n_left_out(const SymbolTable *table);     /* over max_symbols */
bool symbol_table_is_full(const SymbolTable *table);            /* there was a .symtab: static functions too */
size_t symbol_table_memory(const SymbolTable *table);

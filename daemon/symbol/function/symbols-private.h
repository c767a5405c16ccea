/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* What a table of symbols.h consists of, for those that make one. */

#include "symbol/function/symbols.h"

enum { SYMBOL_NO_PARENT = UINT32_MAX };

typedef struct SymbolFunction {
        uint32_t start;                 /* from the table's base */
        uint32_t size;
        uint32_t name;
        uint32_t parent;                /* function that encloses this one, or SYMBOL_NO_PARENT */
} SymbolFunction;

struct SymbolTable {
        SymbolExtent extent;
        SymbolFunction *functions;
        char *names;
};

/* Room for that many functions and names. Return: 0, -ENOMEM. */
int symbol_table_make(SymbolTable **tablep, const SymbolExtent *extent);

/* When starts and sizes are there. */
void symbol_table_set_parents(SymbolTable *table);

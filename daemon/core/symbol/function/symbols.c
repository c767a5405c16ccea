/* SPDX-License-Identifier: Apache-2.0 */

/*
 * From a list of symbols to a table of functions: {start - base, size, name, parent} in 16 bytes each, and
 * the names.
 *
 * Symbols may nest (a cold part's symbol in the middle of another, hand-written assembly):
 *
 *     outer   |-----------------------|
 *     inner         |-----|
 *     find             ^         ^            `inner` is the last start at or before both
 *                                             addresses; the second lies in its parent `outer`
 */
#include "core/symbol/function/symbols.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/util/error.h"

enum {
        NO_PARENT = UINT32_MAX,
        MAX_NESTING = 64,               /* enclosing functions that a lookup tries */
};

typedef struct SymbolFunction {
        uint32_t start;                 /* relative to the table's base */
        uint32_t size;
        uint32_t name;                  /* offset in `names` */
        uint32_t parent;                /* index of the function that encloses this one, or NO_PARENT */
} SymbolFunction;

_Static_assert(sizeof(SymbolFunction) == SYMBOL_FUNCTION_BYTES, "as symbols.h says");

struct SymbolTable {
        SymbolExtent extent;
        SymbolFunction *functions;
        char *names;
};

/* Sets `parent`, once starts and sizes are there. */
static void set_parents(SymbolTable *table) {
        uint32_t open = NO_PARENT;

        for (uint32_t i = 0; i < table->extent.n; i++) {
                SymbolFunction *function = &table->functions[i];

                while (open != NO_PARENT &&
                       function->start - table->functions[open].start >= table->functions[open].size)
                        open = table->functions[open].parent;
                function->parent = open;
                open = i;
        }
}

void symbol_list_measure(const SymbolList *list, uint32_t most, SymbolExtent *extent) {
        SymbolExtent all = { .base = list->n_symbols ? list->symbols[0].start : 0 };

        while (all.n < list->n_symbols) {
                const FileSymbol *symbol = &list->symbols[all.n];
                uint64_t bytes = all.names_size + symbol_name_size(symbol) +
                        (all.n + UINT64_C(1)) * sizeof(SymbolFunction);

                if (symbol->start - all.base > UINT32_MAX || bytes > most)
                        break;
                all.names_size += symbol_name_size(symbol);
                all.n++;
        }
        all.n_left_out = list->n_left_out + list->n_symbols - all.n;
        all.is_full = symbol_list_is_full(list);
        *extent = all;
}

int symbol_table_new_empty(SymbolTable **tablep, const SymbolExtent *extent) {
        _cleanup_(symbol_table_freep) SymbolTable *table = calloc(1, sizeof(*table));

        if (!table)
                return error_origin(-ENOMEM);
        table->extent = *extent;
        table->functions = calloc(extent->n + 1u, sizeof(*table->functions));
        table->names = malloc(extent->names_size + 1u);
        if (!table->functions || !table->names)
                return error_origin(-ENOMEM);
        *tablep = take(table);
        return 0;
}

static void pack(SymbolTable *table, const SymbolList *list) {
        uint32_t at = 0;

        for (uint32_t i = 0; i < table->extent.n; i++) {
                const FileSymbol *symbol = &list->symbols[i];

                table->functions[i] = (SymbolFunction){
                        .start = (uint32_t)(symbol->start - table->extent.base),
                        .size = (uint32_t)MIN(symbol->size, (uint64_t)UINT32_MAX),
                        .name = at
                };
                symbol_put_name(symbol, table->names + at);
                at += symbol_name_size(symbol);
        }
        set_parents(table);
}

int symbol_table_new_list(SymbolTable **tablep, const SymbolList *list) {
        SymbolExtent extent;
        int r;

        symbol_list_measure(list, UINT32_MAX, &extent);
        r = symbol_table_new_empty(tablep, &extent);
        if (r)
                return error_fold(r);
        pack(*tablep, list);
        return 0;
}

SymbolTable *symbol_table_free(SymbolTable *table) {
        if (!table)
                return NULL;
        free(table->functions);
        free(table->names);
        free(table);
        return NULL;
}

/* ---- in pieces ---- */

bool symbol_table_put(SymbolTable *table, uint32_t index, uint32_t start, uint32_t size) {
        if (index ? start <= table->functions[index - 1].start : start != 0)
                return false;
        if (!size || table->extent.base + start < table->extent.base)
                return false;
        table->functions[index] = (SymbolFunction){ .start = start, .size = size };
        return true;
}

char *symbol_table_names(SymbolTable *table) {
        return table->names;
}

bool symbol_table_finish(SymbolTable *table) {
        uint32_t at = 0;

        for (uint32_t i = 0; i < table->extent.n; i++) {
                uint32_t left = table->extent.names_size - at;
                size_t n = strnlen(table->names + at, MIN(left, SYMBOL_MAX_NAME + 1u));

                if (n == 0 || n == left || n > SYMBOL_MAX_NAME)
                        return false;
                table->functions[i].name = at;
                at += (uint32_t)n + 1;
        }
        set_parents(table);
        return at == table->extent.names_size;
}

/* ---- lookup ---- */

/* Index of the last function that starts at or before @start, or NO_PARENT. */
static uint32_t last_start(const SymbolTable *table, uint32_t start) {
        uint32_t low = 0, high = table->extent.n;

        while (low < high) {
                uint32_t middle = low + (high - low) / 2;

                if (table->functions[middle].start <= start)
                        low = middle + 1;
                else
                        high = middle;
        }
        return low ? low - 1 : NO_PARENT;
}

const char *symbol_table_find(const SymbolTable *table, uint64_t address, uint64_t *offsetp) {
        uint64_t start = address - table->extent.base;
        uint32_t i;

        if (address < table->extent.base || start > UINT32_MAX)
                return NULL;
        i = last_start(table, (uint32_t)start);
        for (unsigned n = 0; i != NO_PARENT && n < MAX_NESTING; n++) {
                const SymbolFunction *function = &table->functions[i];

                if (start - function->start < function->size) {
                        *offsetp = start - function->start;
                        return table->names + function->name;
                }
                i = function->parent;
        }
        return NULL;
}

uint32_t symbol_table_n_symbols(const SymbolTable *table) {
        return table->extent.n;
}

uint32_t symbol_table_n_left_out(const SymbolTable *table) {
        return table->extent.n_left_out;
}

bool symbol_table_is_full(const SymbolTable *table) {
        return table->extent.is_full;
}

size_t symbol_table_memory(const SymbolTable *table) {
        return sizeof(*table) + (table->extent.n + 1u) * sizeof(SymbolFunction) + table->extent.names_size +
                1;
}

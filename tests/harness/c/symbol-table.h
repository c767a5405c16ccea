/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* A table of symbols from one file, or from two, in this process: the daemon's arrives from another one. */

#include "core/symbol/function/symbols.h"

/* @split: NULL = there is one file. Return: as symbol_list_init() and symbol_table_new_list(). */
static inline int read_symbol_table(SymbolTable **tablep, const ElfImage *image, const ElfImage *split,
                                    const SymbolLimits *limits) {
        SymbolList list = { 0 };
        int r = symbol_list_init(&list, image, split, limits);

        if (!r)
                r = symbol_table_new_list(tablep, &list);
        symbol_list_deinit(&list);
        return r;
}

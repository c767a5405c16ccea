/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Symbols of an Object
 *
 * The best that there are: .symtab of the object, else of its debug file, else what is packed in it, the
 * latter two with .dynsym; else .dynsym alone; without any .symtab also what Go keeps of its functions
 * (go-functions.h). Where a debug file comes from, and where symbols go, is the caller's.
 */

#include "core/symbol/function/object-path.h"
#include "core/symbol/function/symbol-list.h"

typedef struct ObjectSymbols {
        const SymbolLimits *limits;     /* NULL = symbol_default_limits */
        /*
         * The object's debug file, believed already; @own: NULL = the object is not here. Return: 0; 1 =
         * none; -ENOMEM.
         */
        int (*open_debug)(void *userdata, const ElfImage *own, SymbolFile *file);
        /* takes a list that is not empty. Return: 0, -ENOMEM */
        int (*sink)(void *userdata, const SymbolList *list);
        void *userdata;
} ObjectSymbols;

/* @own: NULL = not here, and *statep says why. Return: 0 with *statep and *gop, -ENOMEM. */
int object_symbols_read(const ObjectSymbols *to, const SymbolFile *own, SymbolState *statep, SymbolGo *gop);

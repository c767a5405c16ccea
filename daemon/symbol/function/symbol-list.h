/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Symbol List
 *
 * The functions of one ELF file in the order of their addresses, as .symtab and .dynsym tell of them, and in
 * a Go program without symbols .gopclntab, with names that still lie in the file's tables. Takes images and
 * limits, touches no globals.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "symbol/function/go-functions.h"
#include "symbol/function/image.h"

enum {
        SYMBOL_MAX_NAME = GO_MAX_NAME,  /* bytes of a name; longer ones are cut */
        SYMBOL_N_TABLES = 2,            /* .symtab, .dynsym */
        SYMBOL_N_IMAGES = 2,            /* the object, what was split from it */
};

typedef struct SymbolLimits {
        uint32_t max_symbols;           /* of both tables; more are left out and counted */
        /* of one string table; a longer one is read so far; a longer table of Go's is refused */
        uint64_t max_string_bytes;
        /* such a table is mapped, not read: then a file that is cut ends the process */
        bool may_map;
} SymbolLimits;

extern const SymbolLimits symbol_default_limits;

/* What came of .gopclntab. */
typedef enum SymbolGo {
        SYMBOL_GO_NONE,                 /* there is none, or it knows no function more than the symbols */
        SYMBOL_GO_READ,
        SYMBOL_GO_REFUSED,              /* damaged, or of a version that is not known */
        SYMBOL_N_GO,
} SymbolGo;

typedef struct FileSymbol {
        uint64_t start, size;
        const char *name;               /* in a string table, without a NUL */
        uint16_t n_name;
        uint8_t binding, image;
        uint16_t section;               /* of that image */
} FileSymbol;

typedef struct SymbolList {
        /* one of each address, the next one's is greater; each has a name and a size */
        FileSymbol *symbols;
        uint32_t n_symbols, room;
        uint32_t n_left_out;            /* over max_symbols */
        bool is_full;                   /* there was a .symtab: static functions too */
        ImageBytes strings[SYMBOL_N_IMAGES][SYMBOL_N_TABLES];
        SymbolGo go_state;
        GoFunctions go;
} SymbolList;

/*
 * Of @image alone, or with what was split from it (@split: a debug file, .gnu_debugdata; NULL = none). Where
 * a section lies at another address in @split than in @image (the object was moved by a prelinker), its
 * symbols are moved as well. A file without symbols yields an empty list; a symbol that makes no sense is
 * left out. Images in memory are borrowed.
 * @limits: NULL = symbol_default_limits. Return: 0, IMAGE_E_*, -ENOMEM.
 */
int symbol_list_init(SymbolList *list, const ElfImage *image, const ElfImage *split,
                     const SymbolLimits *limits);
void symbol_list_deinit(SymbolList *list);

/* Whether functions that are not exported are in it: all that have symbols, or all of Go's. */
static inline bool symbol_list_is_full(const SymbolList *list) {
        return list->is_full || list->go_state == SYMBOL_GO_READ;
}

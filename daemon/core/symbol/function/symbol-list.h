/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Symbol List
 *
 * Functions of one ELF file in the order of their addresses, from .symtab and .dynsym, and in a Go program
 * without symbols from .gopclntab. Names still lie in the file's tables. Takes images and limits, touches no
 * globals.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/base/elf/go-functions.h"
#include "core/base/elf/image.h"
#include "core/symbol/function/language.h"

enum {
        SYMBOL_MAX_NAME = GO_MAX_NAME,  /* bytes of a name, with that of its language; longer ones are cut */
        SYMBOL_N_TABLES = 2,            /* .symtab, .dynsym */
        SYMBOL_N_IMAGES = 2,            /* the object, what was split from it */
};

typedef struct SymbolLimits {
        uint32_t max_symbols;           /* symbols of both tables; more are left out and counted */
        /* bytes of one string table; a longer one is read up to there; a longer table of Go's is refused */
        uint64_t max_string_bytes;
        /* whether such a table is mapped, not read: then a file that is truncated ends the process */
        bool may_map;
} SymbolLimits;

extern const SymbolLimits symbol_default_limits;

/* Result of reading .gopclntab. */
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
        uint16_t section;               /* section of that image */
        bool is_label;                  /* whether it has no type */
        uint8_t language;               /* NameLanguage */
} FileSymbol;

/* Bytes of a name as it is kept: with a byte for its language, if it has one, and a NUL. */
static inline uint32_t symbol_name_size(const FileSymbol *symbol) {
        return symbol->n_name + 1u + (symbol->language != NAME_PLAIN);
}

/* Writes that many bytes to @to. */
void symbol_put_name(const FileSymbol *symbol, char *to);

typedef struct SymbolList {
        /* symbols in ascending order, one for each address; each has a name and a size */
        FileSymbol *symbols;
        uint32_t n_symbols, room;
        uint32_t n_left_out;            /* over max_symbols */
        bool is_full;                   /* there was a .symtab: static functions too */
        ImageBytes strings[SYMBOL_N_IMAGES][SYMBOL_N_TABLES];
        SymbolGo go_state;
        GoFunctions go;
} SymbolList;

/*
 * Reads @image alone, or with the file that was split from it (@split: a debug file, .gnu_debugdata; NULL =
 * none). If a section lies at another address in @split than in @image (a prelinker has moved the object),
 * its symbols are moved as well. A file without symbols yields an empty list. Senseless symbols are left out.
 * Images in memory are borrowed. @limits: NULL = symbol_default_limits. Return: 0, IMAGE_E_*, -ENOMEM.
 */
int symbol_list_init(SymbolList *list, const ElfImage *image, const ElfImage *split,
                     const SymbolLimits *limits);
void symbol_list_deinit(SymbolList *list);

/* Whether the list has functions that are not exported: all with symbols, or all of Go's. */
static inline bool symbol_list_is_full(const SymbolList *list) {
        return list->is_full || list->go_state == SYMBOL_GO_READ;
}

/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Languages of Names
 *
 * Ada, Nim and Haskell write names that a C function could have, too. So a name is believed to be theirs only
 * where the same file says that the unit which it begins or ends with is one of that language.
 */

#include <elf.h>
#include <stdbool.h>
#include <stddef.h>

#include "core/base/data/hashmap.h"

/* A language is handed on as a byte before the name: no name begins with one of these. */
typedef enum NameLanguage {
        NAME_PLAIN,
        NAME_ADA,
        NAME_NIM,
        NAME_HASKELL,
        N_NAME_LANGUAGES,
} NameLanguage;

static inline NameLanguage name_language(const char *name) {
        return name[0] > 0 && name[0] < N_NAME_LANGUAGES ? (NameLanguage)name[0] : NAME_PLAIN;
}

/* The name as it is in the file. */
static inline const char *name_in_file(const char *name) {
        return name + (name_language(name) != NAME_PLAIN);
}

enum { LANGUAGE_MAX_UNITS = 1 << 16 };  /* names of units beyond stay as they are in the file */

typedef struct LanguageUnits {
        Hashmap units;                  /* hash of a language and a unit → not NULL */
        bool has_gnat, has_haskell;     /* a symbol of that runtime is there */
} LanguageUnits;

void language_units_deinit(LanguageUnits *units);

/* Looks at a symbol of any kind, whose name is @n bytes at @name. Return: 0, -ENOMEM. */
int language_note(LanguageUnits *units, const Elf64_Sym *symbol, const char *name, size_t n);

/* The language of a function's name, once all symbols of its file were noted. */
NameLanguage language_of(const LanguageUnits *units, const char *name, size_t n);

/*
 * Pure. The readable form of a name of Nim or Haskell, NUL-terminated, in @room bytes at @to. Return: its
 * length; 0 = it has none.
 */
size_t language_readable(NameLanguage language, const char *name, char *to, size_t room);

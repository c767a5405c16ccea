/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Symbolizer
 *
 * Names functions of objects that a profile knows by path and build id, from files
 * of this machine: the file at that path, if it has .symtab; else its debug file
 * /usr/lib/debug/.build-id/xx/yyyy.debug; else the file's .dynsym. A file is believed only if
 * it has the object's build id. The vdso is read from our own memory under the same rule.
 *
 * Tables stay in a cache with a cap in bytes and objects; the one that was not used
 * for longest goes. Paths come from payloads, so only regular files are opened.
 */

#include <stddef.h>
#include <stdint.h>

#include "util/macro.h"

typedef struct Symbolizer Symbolizer;

typedef struct SymbolObject {
        const char *path;               /* absolute, or `[vdso]` */
        const char *build_id_gnu;       /* lower-case hex; "" = none */
        const char *build_id_go;        /* "" = none */
} SymbolObject;

typedef enum SymbolState {
        SYMBOL_STATE_NAMED,             /* .symtab of the file or of its debug file */
        SYMBOL_STATE_DYNAMIC,           /* .dynsym alone: static functions have no name */
        SYMBOL_STATE_NO_ID,             /* the profile has no build id, so that no file can be believed */
        SYMBOL_STATE_ABSENT,            /* no such file here, and no debug file */
        SYMBOL_STATE_OTHER,             /* the file here has another build id */
        SYMBOL_STATE_UNREADABLE,        /* no regular file, no permission, no sound ELF */
        SYMBOL_STATE_STRIPPED,          /* no symbols at all */
        SYMBOL_N_STATES,
} SymbolState;

typedef struct SymbolizerOptions {
        const char *debug_directory;    /* NULL = /usr/lib/debug/.build-id */
        uint32_t max_objects;           /* 0 = 1024 */
        size_t max_bytes;               /* of all tables; 0 = 256 MiB; one table may exceed it alone */
} SymbolizerOptions;

/* @options may be NULL. Return: 0, -ENOMEM. */
int symbolizer_new(Symbolizer **symbolizerp, const SymbolizerOptions *options);
Symbolizer *symbolizer_free(Symbolizer *symbolizer);
DEFINE_CLEANUP(Symbolizer, symbolizer_free)

/*
 * The function of @object that holds @address (an ELF address). *namep is NULL if there is none, else it
 * lives until the next call. *statep says how the object was read. @offsetp: from the function's start.
 * Return: 0, -ENOMEM.
 */
int symbolizer_find(Symbolizer *symbolizer, const SymbolObject *object, uint64_t address, const char **namep,
                    uint64_t *offsetp, SymbolState *statep);

/* What a state means, for people: `stripped`, … Static string. */
const char *symbol_state_text(SymbolState state);

/* Bytes of all tables, and the number of objects known. */
size_t symbolizer_memory(const Symbolizer *symbolizer);
uint32_t symbolizer_n_objects(const Symbolizer *symbolizer);

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

#include "symbol/demangle.h"
#include "util/macro.h"

typedef struct Symbolizer Symbolizer;

/*
 * Where to get an object that cannot be opened by its path here: of a process in a container, or deleted. Not part of
 * what an object is known by: whoever comes first gives the file for all.
 */
typedef struct SymbolSource {
        /* Opens the file itself (map_files). Return: a descriptor that is the symbolizer's, or -1. NULL = by path. */
        int (*open)(void *userdata);
        void *userdata;
        const char *root;               /* put before paths: /proc/PID/root. NULL = none */
} SymbolSource;

typedef struct SymbolObject {
        const char *path;               /* absolute, or `[vdso]` */
        const char *build_id_gnu;       /* lower-case hex; "" = none */
        const char *build_id_go;        /* "" = none */
        const SymbolSource *source;     /* NULL = by path */
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
        DemangleStyle style;            /* of C++ and Rust names; 0 = short */
} SymbolizerOptions;

/* @options may be NULL. Return: 0, -ENOMEM. */
int symbolizer_new(Symbolizer **symbolizerp, const SymbolizerOptions *options);
Symbolizer *symbolizer_free(Symbolizer *symbolizer);
DEFINE_CLEANUP(Symbolizer, symbolizer_free)

typedef struct SymbolName {
        const char *name;               /* for people, in the symbolizer's style; NULL = no function is known there */
        const char *linkage_name;       /* as in the file */
        uint64_t offset;                /* from the function's start */
        SymbolState state;              /* how the object was read */
} SymbolName;

/*
 * The function of @object that holds @address (an ELF address; of a caller: its return address - 1). Both names live
 * until the next call. Return: 0, -ENOMEM.
 */
int symbolizer_name(Symbolizer *symbolizer, const SymbolObject *object, uint64_t address, SymbolName *name);

/* The same in parts. @offsetp is not set without a name. */
int symbolizer_find(Symbolizer *symbolizer, const SymbolObject *object, uint64_t address, const char **namep,
                    uint64_t *offsetp, SymbolState *statep);

/* What a state means, for people: `stripped`, … Static string. */
const char *symbol_state_text(SymbolState state);

/* Bytes of all tables, and the number of objects known. */
size_t symbolizer_memory(const Symbolizer *symbolizer);
uint32_t symbolizer_n_objects(const Symbolizer *symbolizer);

/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Object Files
 *
 * From what a profile says about an object to the file itself, and to the small ELF file that distributions
 * pack into its .gnu_debugdata; debug files: debug-file.h. A file counts only if it is known to be the same
 * build. Paths come from payloads and from targets: only regular files are opened, looked at before that.
 */

#include <stdbool.h>

#include "core/base/elf/image.h"
#include "core/base/util/macro.h"

/*
 * Source of an object that cannot be opened by its path here: one of a process in a container, or deleted. It
 * is no part of the object's identity: the first source gives the file for all. An object with a `file` gets
 * that one.
 */
typedef struct SymbolSource {
        /*
         * Opens the file itself (map_files). Return: a descriptor that is the symbolizer's, or -1. NULL = by
         * path.
         */
        int (*open)(void *userdata);
        void *userdata;
        const char *root;               /* put before paths: /proc/PID/root. NULL = none */
} SymbolSource;

typedef struct SymbolObject {
        const char *path;               /* absolute, or `[vdso]` */
        const char *build_id_gnu;       /* lower-case hex; "" = none */
        const char *build_id_go;        /* "" = none */
        const char *build_id_htlhash;   /* counts if there is none of the others; NULL or "" = none */
        /* object_file_number(): no other file counts, whatever id it has; 0 = not known */
        uint64_t file;
        const SymbolSource *source;     /* NULL = by path */
} SymbolObject;

typedef enum SymbolState {
        SYMBOL_STATE_NAMED,             /* .symtab of the file or of its debug file; Go's own table */
        SYMBOL_STATE_DYNAMIC,           /* .dynsym alone: static functions have no name */
        SYMBOL_STATE_NO_ID,             /* the profile has no build id, so that no file can be believed */
        SYMBOL_STATE_ABSENT,            /* no such file here, and no debug file */
        SYMBOL_STATE_OTHER,             /* the file here has another build id */
        SYMBOL_STATE_UNREADABLE,        /* no regular file, no permission, no sound ELF */
        SYMBOL_STATE_STRIPPED,          /* no symbols at all, and no table of Go's */
        SYMBOL_STATE_LARGE,             /* symbols take more memory than their reader may have */
        SYMBOL_N_STATES,
} SymbolState;

typedef struct SymbolFile {
        int fd;                         /* -1 = none */
        char *memory;                   /* unpacked bytes; NULL = none */
        ElfImage image;
} SymbolFile;

#define SYMBOL_FILE_NULL { .fd = -1, .image = { .fd = -1 } }

/* Whether it is known by an id: else only the file itself can be believed. */
bool symbol_object_has_id(const SymbolObject *object);

static inline const char *symbol_object_root(const SymbolObject *object) {
        return object->source ? object->source->root : NULL;
}

void symbol_file_deinit(SymbolFile *file);

/*
 * The object itself, or `[vdso]` from our own memory. Return: 0; 1 = none that counts, *statep says why;
 * -ENOMEM.
 */
int symbol_file_open(SymbolFile *file, const SymbolObject *object, SymbolState *statep);

/* Steps of symbol_file_open(): a regular file at a path, or of a source. Return: 0; 1 with *statep. */
int symbol_file_look(const char *root, const char *path, int *fdp, uint64_t *sizep, SymbolState *statep);
int symbol_source_open(const SymbolSource *source, int *fdp, uint64_t *sizep, SymbolState *statep);

/*
 * The object's own file, from its source or by path; by path only the very file, if that is known. Return: as
 * before.
 */
int symbol_object_open(const SymbolObject *object, int *fdp, uint64_t *sizep, SymbolState *statep);

/* Reads its shape. Return: 0; 1 with *statep; -ENOMEM. symbol_file_take() has the descriptor in any case. */
int symbol_file_take(SymbolFile *file, int fd, uint64_t size, SymbolState *statep);

/* Whether it is the object; of one without an id its own file is. Return: 0; 1 = another build; -ENOMEM. */
int symbol_file_check(const SymbolObject *object, const SymbolFile *file);

/* Unpacks .gnu_debugdata of @own. Return: 0; 1 = none, or it is damaged or too large; -ENOMEM. */
int symbol_file_open_packed(SymbolFile *file, const ElfImage *own);

/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Object Files
 *
 * From what a profile says about an object to the files that tell its names: the object itself, its separate debug
 * file, and the small ELF file that distributions pack into .gnu_debugdata. A file counts only if it is known to be
 * the same build. Paths come from payloads and from targets: only regular files are opened, looked at before that.
 *
 * Debug files are searched as gdb does:
 *
 *     by build id         /usr/lib/debug/.build-id/xx/yyyy.debug
 *     by .gnu_debuglink   a name and a CRC-32; DIR is where the object lies
 *                         DIR/name, DIR/.debug/name, /usr/lib/debug/DIR/name
 *
 * A debug file's own link is not followed.
 */

#include <stdbool.h>

#include "symbol/image.h"
#include "util/macro.h"

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
        const char *build_id_htlhash;   /* counts if there is none of the others; NULL or "" = none */
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

typedef struct SymbolFile {
        int fd;                         /* -1 = none */
        ElfImage image;
} SymbolFile;

#define SYMBOL_FILE_NULL { .fd = -1, .image = { .fd = -1 } }

void symbol_file_deinit(SymbolFile *file);

/* The object itself, or `[vdso]` from our own memory. Return: 0; 1 = none that counts, *statep says why; -ENOMEM. */
int symbol_file_open(SymbolFile *file, const SymbolObject *object, SymbolState *statep);

typedef enum DebugUse {
        DEBUG_FOR_SYMBOLS,              /* it must have .symtab */
        DEBUG_FOR_LINES,                /* it must have .debug_info */
} DebugUse;

/*
 * Its debug file, if it serves @use. @own: the object itself, NULL = not on this machine (then only a build id can
 * find it). @debug_directory: /usr/lib/debug. Return: 0; 1 = none; -ENOMEM.
 */
int symbol_file_open_debug(SymbolFile *file, const SymbolObject *object, const ElfImage *own,
                           const char *debug_directory, DebugUse use);

/* Whether @image itself serves @use. */
bool elf_image_serves(const ElfImage *image, DebugUse use);

/* What .gnu_debugdata of @own holds, unpacked. Return: 0; 1 = none, or it is damaged or too large; -ENOMEM. */
int symbol_file_open_packed(SymbolFile *file, const ElfImage *own);

/* What a .gnu_debuglink section says: a file's name without folders (in @data), and its CRC-32. Return: 0, 1. */
int debug_link_parse(const char *data, size_t size, const char **namep, uint32_t *crcp);

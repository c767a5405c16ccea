/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Debug Files
 *
 * What was split from an object, by the same rules of belief as object.h. They are searched as gdb does:
 *
 *     by build id         /usr/lib/debug/.build-id/xx/yyyy.debug
 *     by .gnu_debuglink   a name and a CRC-32; DIR is where the object lies
 *                         DIR/name, DIR/.debug/name, /usr/lib/debug/DIR/name
 *
 * A debug file's own link is not followed.
 *
 * DIR is where some target sees the object, and anybody may have made a folder of that name here. Of an
 * object whose file is known, a file in DIR counts only if the object itself lies at its path here, and the
 * file belongs to its owner or to root, and not everybody may write it.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "symbol/function/object-path.h"

enum {
        DEBUG_MAX_PATH = 4096,
        DEBUG_N_PLACES = 5,
};

typedef enum DebugUse {
        DEBUG_FOR_SYMBOLS,              /* it must have .symtab */
        DEBUG_FOR_LINES,                /* it must have .debug_info */
} DebugUse;

/* What a .gnu_debuglink section says: a file's name without folders, and its CRC-32. */
typedef struct DebugLink {
        char name[256];
        uint32_t crc;
} DebugLink;

/* *namep: in @data. Return: 0, 1. */
int debug_link_parse(const char *data, size_t size, const char **namep, uint32_t *crcp);

/* Return: 0; 1 = none, or one that makes no sense; -ENOMEM. */
int debug_link_read(const ElfImage *own, DebugLink *link);

/*
 * Where a debug file may be, one place after the other; each is believed only if it is one:
 * debug_file_check().
 */
typedef struct DebugSearch {
        const SymbolObject *object;     /* borrowed, as the next two */
        const char *directory;          /* /usr/lib/debug */
        const DebugLink *link;          /* NULL = none */
        unsigned at;
        char path[DEBUG_MAX_PATH];
        const char *root;               /* for symbol_file_look() */
        bool by_link;                   /* its sum counts */
        bool is_beside;                 /* it lies in DIR */
} DebugSearch;

/* Opens the file at the next place that has one. Return: 0 with *fdp and *sizep; 1 = there are no more. */
int debug_search_next(DebugSearch *search, int *fdp, uint64_t *sizep);

/*
 * Whether @file is the object's, and serves @use. @crcp: the sum in the link, NULL = by build id alone.
 * Return: 0; 1 = not; -ENOMEM.
 */
int debug_file_check(const SymbolObject *object, const SymbolFile *file, const uint32_t *crcp, DebugUse use);

/*
 * Its debug file, if it serves @use. @own: the object itself, NULL = not on this machine (then only a build
 * id can find it). @debug_directory: /usr/lib/debug. Return: 0; 1 = none; -ENOMEM.
 */
int debug_file_open(SymbolFile *file, const SymbolObject *object, const ElfImage *own,
                    const char *debug_directory, DebugUse use);

/* Whether @image itself serves @use. */
bool elf_image_serves(const ElfImage *image, DebugUse use);

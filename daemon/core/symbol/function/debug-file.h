/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Debug Files
 *
 * Files that were split from an object. They are checked by the rules of object-path.h, and searched as gdb
 * does:
 *
 *     by build id         /usr/lib/debug/.build-id/xx/yyyy.debug
 *     by .gnu_debuglink   a name and a CRC-32; DIR is where the object lies
 *                         DIR/name, DIR/.debug/name, /usr/lib/debug/DIR/name
 *
 * A debug file's own link is not followed.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/base/data/shares.h"
#include "core/symbol/function/object-path.h"

/* A source of debug files of other machines. */
typedef struct SymbolRemote SymbolRemote;

struct SymbolRemote {
        /*
         * Opens a file that is known to have this build id; its content is to be read by a worker without
         * rights. Return: 0 with *fdp (owned by the caller) and *sizep; 1 = none.
         */
        int (*fetch)(const SymbolRemote *remote, const char *build_id_gnu, int *fdp, uint64_t *sizep);
        void *userdata;
        ShareOwner owner;               /* process whose file it is asked for */
};

enum {
        DEBUG_MAX_PATH = 4096,
        DEBUG_N_PLACES = 5,
};

typedef enum DebugUse {
        DEBUG_FOR_SYMBOLS,              /* the file must have .symtab */
        DEBUG_FOR_LINES,                /* the file must have .debug_info */
} DebugUse;

/* Content of a .gnu_debuglink section: a file's name without folders, and its CRC-32. */
typedef struct DebugLink {
        char name[256];
        uint32_t crc;
} DebugLink;

/* *namep: in @data. Return: 0, 1. */
int debug_link_parse(const char *data, size_t size, const char **namep, uint32_t *crcp);

/* Return: 0; 1 = none, or one that makes no sense; -ENOMEM. */
int debug_link_read(const ElfImage *own, DebugLink *link);

/*
 * Places where a debug file may be, one after the other. A file there counts only after debug_file_check().
 */
typedef struct DebugSearch {
        const SymbolObject *object;     /* borrowed, as the next two */
        const char *directory;          /* /usr/lib/debug */
        const DebugLink *link;          /* NULL = none */
        unsigned at;
        char path[DEBUG_MAX_PATH];
        const char *root;               /* for symbol_file_look() */
        bool by_link;                   /* the file was found by link: its sum counts */
        bool is_beside;                 /* the file lies in DIR */
        const SymbolRemote *remote;     /* asked last, by build id; NULL = none */
} DebugSearch;

/* Opens the file at the next place that has one. Return: 0 with *fdp and *sizep; 1 = there are no more. */
int debug_search_next(DebugSearch *search, int *fdp, uint64_t *sizep);

/*
 * Checks that @file is the object's, and serves @use. @crcp: the sum in the link, NULL = by build id alone.
 * Return: 0; 1 = not; -ENOMEM.
 */
int debug_file_check(const SymbolObject *object, const SymbolFile *file, const uint32_t *crcp, DebugUse use);

/*
 * Opens the debug file of an object, if it serves @use. @own: the object itself, NULL = not on this machine
 * (then only a build id can find it). @debug_directory: /usr/lib/debug. Return: 0; 1 = none; -ENOMEM.
 */
int debug_file_open(SymbolFile *file, const SymbolObject *object, const ElfImage *own,
                    const char *debug_directory, DebugUse use);

/* Whether @image itself serves @use. */
bool elf_image_serves(const ElfImage *image, DebugUse use);

/* Whether @image has lines itself: DWARF, or Go's own table. */
bool elf_image_has_lines(const ElfImage *image);

/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * GDB's List of Code
 *
 * Reads the list in which compilers at run time register the ELF image of each piece of code for debuggers
 * (__jit_debug_descriptor), from outside of the process. Memory in, functions out.
 *
 * Nobody locks the list, and the process may write anything: a read counts if a second one finds the same
 * entries, and the same bytes in their images.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/symbol/jit/code.h"

enum {
        GDB_LIST_MAX_IMAGES = 4096,     /* images of a list; more are left out and counted, as what follows */
        GDB_LIST_MAX_IMAGE = 16 << 20,  /* bytes of one image */
        GDB_LIST_MAX_BYTES = 64 << 20,  /* bytes of all images of a list */
};

typedef struct GdbMemory {
        /* Reads up to 64 KiB of the process. Return: whether all of it was there. */
        bool (*read)(void *userdata, uint64_t address, void *to, size_t size);
        void *userdata;
} GdbMemory;

typedef struct GdbListCounts {
        uint32_t n_images;              /* images that were read */
        uint32_t n_malformed;           /* images that are no ELF, and functions outside of their section */
        uint32_t n_over_cap;
} GdbListCounts;

enum {
        _GDB_LIST_E_SUCCESS,
        GDB_LIST_E_NONE,                /* there is no list of the known version */
        GDB_LIST_E_CHANGED,             /* the list was being changed: what @sink got is void */
};

/*
 * The functions in all images of the list whose descriptor is at @address. @sink: may return > 0, too, if it
 * has no room: that function and all behind it are over the cap. Return: 0, GDB_LIST_E_*, what @sink returned
 * below 0, -ENOMEM.
 */
int gdb_list_read(const GdbMemory *memory, uint64_t address, CodeSink sink, void *userdata,
                  GdbListCounts *counts);

/*
 * Where the descriptor is in the ELF file @fd of @size bytes, by what it exports, or all of its symbols.
 * Return: whether it has one; *addressp: in ELF addresses.
 */
bool gdb_list_find(int fd, uint64_t size, uint64_t *addressp);

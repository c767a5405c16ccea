/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Entries
 *
 * A section of call frame information is a list of entries: a CIE holds what many
 * functions have in common, an FDE describes one function and names its CIE. This
 * module reads their headers; it runs no instructions.
 */

#include <stdbool.h>
#include <stdint.h>

#include "host/sampling/unwind/cfi/counts.h"
#include "host/sampling/unwind/cfi/layout.h"
#include "host/sampling/unwind/cfi/reader.h"
#include "host/sampling/unwind/cfi/state.h"

enum {
        ENTRY_MAX_SIZE = 32768,         /* the largest found in 60 MiB of them has 3,144 bytes */
        CIE_CACHE_SIZE = 64,            /* a power of two; a library has 2 … 40 CIEs */
};

typedef struct Entry {
        uint64_t offset;                /* in the section */
        uint64_t size;                  /* bytes from `offset` to the next entry */
        uint64_t cie_offset;            /* offset of an FDE's CIE */
        uint32_t id_at;                 /* place of the id, from `offset` */
        bool is_cie;
        bool is_64;
} Entry;

/* CIEs by offset; direct-mapped, so that its memory has a bound and a crafted file only reads again. */
typedef struct CieCache {
        Reader *reader;                 /* borrowed; must not be the one that FDEs are read by */
        const CfiSection *section;      /* borrowed */
        Cie cies[CIE_CACHE_SIZE];
} CieCache;

enum {
        ENTRY_E_END = CFI_PROBLEM_N,    /* the terminator, or the section is used up */
};

/*
 * Reads the header at @offset. Return: 0, ENTRY_E_END, CFI_PROBLEM_LENGTH (nothing behind it can be found).
 */
int entry_read(Entry *entry, Reader *reader, const CfiSection *section, uint64_t offset);

/* CIE at @offset, valid until the next call. NULL = not a CIE that can be used. */
const Cie *cie_get(CieCache *cache, uint64_t offset);

/* Reads the FDE of @entry. Return: 0, CFI_PROBLEM_*. */
int fde_read(Fde *fde, Reader *reader, CieCache *cies, const Entry *entry);

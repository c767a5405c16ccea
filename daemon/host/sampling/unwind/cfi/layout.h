/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Layout
 *
 * Parts of an ELF file's headers that the unwinder needs: which addresses are text, and where the call frame
 * information lies. PT_GNU_EH_FRAME leads to it by way of .eh_frame_hdr. Statically linked glibc and musl
 * executables have none, so the section table is the second way, and .debug_frame the last. A file may have
 * .debug_frame beside .eh_frame, of other functions: assembly asks for it, and GHC writes it.
 */

#include <stdbool.h>
#include <stdint.h>

#include "host/sampling/unwind/cfi/reader.h"

enum {
        LAYOUT_MAX_SEGMENTS = 32,        /* PT_LOADs; what follows is ignored */
        LAYOUT_MAX_HEADERS = 256,        /* program headers looked at */
        LAYOUT_MAX_SECTIONS = 1024,      /* section headers looked at */
};

typedef struct LayoutSegment {
        uint64_t address, offset, size; /* the part that is in the file */
} LayoutSegment;

/* Call frame information. `size` may be beyond its true end where only the segment is known. */
typedef struct CfiSection {
        uint64_t offset;                /* in the file */
        uint64_t address;               /* ELF address */
        uint64_t size;
        bool is_debug_frame;
} CfiSection;

/* The sorted table of .eh_frame_hdr: pairs of int32, {start of function, its FDE}, relative to `address`. */
typedef struct HdrTable {
        uint64_t offset;                /* offset of the first pair, in the file */
        uint64_t address;               /* ELF address of the header */
        uint64_t n;                     /* pairs; 0 = no table that can be used */
} HdrTable;

typedef struct Layout {
        uint64_t text_low, text_high;   /* whole pages */
        CfiSection section;
        HdrTable table;
        LayoutSegment segments[LAYOUT_MAX_SEGMENTS];
        uint32_t n_segments;
        uint64_t hdr_address;           /* PT_GNU_EH_FRAME, 0 = none */
} Layout;

enum {
        _LAYOUT_E_SUCCESS,
        LAYOUT_E_NOT_ELF,                /* no ELF64 for this machine, or its headers are not all there */
        LAYOUT_E_NO_TEXT,                /* no executable segment, or more than 4 GiB from first to last */
        LAYOUT_E_NO_CFI,                 /* no .eh_frame and no .debug_frame */
};

/* Which call frame information of a file is meant. */
typedef enum LayoutCfi {
        LAYOUT_CFI_FIRST,               /* the first of what there is */
        LAYOUT_CFI_BESIDE,              /* .debug_frame alone */
} LayoutCfi;

/* Return: 0, LAYOUT_E_*. */
int layout_read(Layout *layout, Reader *reader, LayoutCfi which);

/*
 * File offset of the bytes from @address to the end of its segment. Return: false = the file has none there.
 */
bool layout_find(const Layout *layout, uint64_t address, uint64_t *offsetp, uint64_t *sizep);

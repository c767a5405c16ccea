/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Call Frame Information
 *
 * An ELF file → its functions in order of address, each with the rows that say
 * how to unwind from anywhere in it. It reads .eh_frame, or .debug_frame where
 * there is no .eh_frame, or where that is asked for. One bad entry costs that
 * entry; it is counted, and the rest goes on. Works in slices, keeps no globals, and never maps the file.
 */

#include <stddef.h>
#include <stdint.h>

#include "core/base/util/macro.h"
#include "host/sampling/unwind/cfi/counts.h"
#include "host/sampling/unwind/cfi/layout.h"
#include "host/sampling/unwind/cfi/program.h"

typedef struct Cfi Cfi;

/* A function, cut where the next one begins. */
typedef struct CfiFunction {
        uint64_t start, end;            /* ELF addresses */
        const Row *rows;                /* first at `start`; valid until the next call */
        uint32_t n_rows;                /* 0 = known to be there, but its entry is bad */
} CfiFunction;

enum {
        _CFI_E_SUCCESS,
        CFI_E_NOT_ELF = LAYOUT_E_NOT_ELF,
        CFI_E_NO_TEXT = LAYOUT_E_NO_TEXT,
        CFI_E_NO_CFI = LAYOUT_E_NO_CFI,
        CFI_E_AGAIN,                    /* the budget is used up; call again */
        CFI_E_END,                      /* no function is left */
};

/*
 * @fd: borrowed until cfi_free(). @max_functions: cap. Return: 0, CFI_E_NOT_ELF, _NO_TEXT, _NO_CFI, -ENOMEM.
 */
int cfi_new(Cfi **cfip, int fd, uint32_t max_functions, LayoutCfi which);

/* Reads memory instead of a file, for the vdso's image. */
int cfi_new_memory(Cfi **cfip, const void *data, size_t size, uint32_t max_functions, LayoutCfi which);

Cfi *cfi_free(Cfi *cfi);
DEFINE_CLEANUP(Cfi, cfi_free)

/*
 * Works for about *@budgetp bytes of the file, of which a million takes some 7 ms, and subtracts what it
 * used.
 * Return: 0 = *functionp is the next function, CFI_E_AGAIN, CFI_E_END, -ENOMEM.
 */
int cfi_next(Cfi *cfi, uint64_t *budgetp, CfiFunction *functionp);

const Layout *cfi_layout(const Cfi *cfi);
const CfiCounts *cfi_counts(const Cfi *cfi);

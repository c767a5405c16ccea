/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Scan
 *
 * Rows for code without a description, from the code itself: beginnings of functions are known, and each
 * path from there is followed, instruction by instruction. A function whose paths contradict each other, or
 * that returns from another place than it was called to, has no rows at all. table.c asks for the gaps
 * between the functions that are described.
 */

#include <stddef.h>
#include <stdint.h>

#include "core/base/util/macro.h"
#include "host/sampling/unwind/cfi/cfi.h"

typedef struct Scan Scan;

enum {
        _SCAN_E_SUCCESS,
        SCAN_E_END,                     /* no code is left */
        SCAN_E_NONE,                    /* no file for this machine, or one of Go's */
};

enum {
        SCAN_MAX_GAP = 4 << 20,         /* bytes of code without a description; more of them get no rows */
        SCAN_MAX_STARTS = 1 << 18,      /* beginnings of functions that symbols and relocations tell of */
};

/* @fd: borrowed until scan_free(). Return: 0, SCAN_E_NONE, -ENOMEM. */
int scan_new(Scan **scanp, int fd);
int scan_new_memory(Scan **scanp, const void *data, size_t size);
Scan *scan_free(Scan *scan);
DEFINE_CLEANUP(Scan, scan_free)

/* Reads the code between two ELF addresses and follows it, in one go. Return: 0, -ENOMEM. */
int scan_gap(Scan *scan, uint64_t start, uint64_t end);

/*
 * The next piece of that gap, whose rows are valid until the next call. A row without a rule stands where the
 * code was not understood. Return: 0, SCAN_E_END.
 */
int scan_next(Scan *scan, CfiFunction *functionp);

/*
 * Whether a path from the first byte of that gap has returned as it was called. A jump out and a stop fit in
 * with any frame, so that without a return nothing shows that the gap begins as a function does.
 */
bool scan_returns(Scan *scan);

const Layout *scan_layout(const Scan *scan);

/* Bytes of code with derived rows, and functions that were given up. */
uint64_t scan_n_bytes(const Scan *scan);
uint64_t scan_n_refused(const Scan *scan);

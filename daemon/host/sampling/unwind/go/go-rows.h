/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Rows of Go
 *
 * The functions of a Go program in order of address, each with its rows, from .gopclntab. As cfi.h, beside
 * which table.c uses it: a program with C in it has both.
 */

#include <stddef.h>
#include <stdint.h>

#include "core/base/util/macro.h"
#include "host/sampling/unwind/cfi/cfi.h"

typedef struct GoRows GoRows;

enum {
        _GO_ROWS_E_SUCCESS,
        GO_ROWS_E_NONE,                 /* not a program of Go, or none that can be understood */
        GO_ROWS_E_END,                  /* no function is left */
};

enum { GO_ROWS_MAX_BYTES = 96 << 20 };  /* bytes of .gopclntab, which is read into memory */

/*
 * @fd: borrowed until go_rows_free(). @max_functions: cap. Return: 0, GO_ROWS_E_NONE, -ENOMEM.
 */
int go_rows_new(GoRows **rowsp, int fd, uint32_t max_functions);
int go_rows_new_memory(GoRows **rowsp, const void *data, size_t size, uint32_t max_functions);
GoRows *go_rows_free(GoRows *rows);
DEFINE_CLEANUP(GoRows, go_rows_free)

/*
 * The next function, whose rows are valid until the next call. *budgetp: as for cfi_next(), which says when
 * to stop. Return: 0, GO_ROWS_E_END.
 */
int go_rows_next(GoRows *rows, uint64_t *budgetp, CfiFunction *functionp);

const Layout *go_rows_layout(const GoRows *rows);
const CfiCounts *go_rows_counts(const GoRows *rows);

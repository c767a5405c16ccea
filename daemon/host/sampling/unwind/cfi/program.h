/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Program
 *
 * Runs call frame instructions: a small language whose programs build a table of
 * "from this pc on, the frame looks like that". Yields rows of finished rules.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "host/sampling/unwind/cfi/counts.h"
#include "host/sampling/unwind/cfi/encoding.h"
#include "host/sampling/unwind/cfi/state.h"

enum {
        PROGRAM_MAX_ROWS = 16384,       /* rows of one function; the most found is 893 */
        PROGRAM_MAX_NESTING = 16,       /* depth of remember_state; compilers use 1 … 3 */
};

/* A rule that holds from @address to the next row's, or to the end of the function. */
typedef struct Row {
        uint64_t address;
        uint64_t rule;                  /* see unwind_abi.h */
} Row;

/* Rows of one function; room for PROGRAM_MAX_ROWS. */
typedef struct RowList {
        Row *rows;
        uint32_t n;
        bool may_land;                  /* a row uses the register of eh-return.h */
} RowList;

/* Runs a CIE's own instructions, from the cursor to its end, into cie->initial. Return: 0, CFI_PROBLEM_*. */
int program_run_initial(Cie *cie, Cursor *code, const Encoded *where, CfiCounts *counts);

/*
 * Replaces the rows of @list by those of @fde; on a problem they are meaningless. Return: 0, CFI_PROBLEM_*.
 */
int program_run(const Fde *fde, RowList *list, CfiCounts *counts);

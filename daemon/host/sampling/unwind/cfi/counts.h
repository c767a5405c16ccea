/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Counts
 *
 * Mistakes in one file, and correct entries that a rule cannot express. A bad entry costs that entry and is
 * counted by its first problem. A row without a rule is counted by what the rule would have needed.
 */

#include <stdint.h>

/* X(NAME, "text") */
#define CFI_PROBLEMS(X) \
        X(LENGTH, "an entry's length leads out of the section") \
        X(TOO_LARGE, "an entry is larger than any compiler makes") \
        X(CIE, "its common information entry is not there or of an unknown kind") \
        X(POINTER, "the function's address cannot be read from the file") \
        X(RANGE, "the function lies outside the text") \
        X(MISMATCH, "the sorted table names another function than the entry") \
        X(TRUNCATED, "an instruction's operands are cut off") \
        X(OPCODE, "an unknown instruction") \
        X(NESTING, "remember and restore do not nest, or too deep") \
        X(ADVANCE, "an instruction lies outside its function") \
        X(ROWS, "more rows than any compiler makes") \
        X(OVER_CAP, "functions beyond the cap of a file") \
        X(GO_SIZES, "Go's record of a function is damaged")

#define CFI_UNSUPPORTED(X) \
        X(CFA_UNSET, "no instruction says where the CFA is") \
        X(CFA_REGISTER, "CFA by a register beyond the general ones") \
        X(CFA_OFFSET, "CFA offset beyond its field") \
        X(CFA_EXPRESSION, "CFA by an expression of no known pattern") \
        X(RETURN_ADDRESS, "return address not below the CFA") \
        X(FRAME_POINTER, "frame pointer where the row cannot say it (lost, the frame is not)") \
        X(BASE_REGISTER, "rbx where the row cannot say it (lost, the frame is not)") \
        X(DENSE_PAGE, "rows of a page that do not fit a block") \
        X(GO_STACK, "a function of Go's that goes to another stack")

typedef enum CfiProblem {
        _CFI_PROBLEM_NONE,
#define X(name, text) CFI_PROBLEM_##name,
        CFI_PROBLEMS(X)
#undef X
        CFI_PROBLEM_N,
} CfiProblem;

typedef enum CfiUnsupported {
#define X(name, text) CFI_UNSUPPORTED_##name,
        CFI_UNSUPPORTED(X)
#undef X
        CFI_UNSUPPORTED_N,
} CfiUnsupported;

typedef struct CfiCounts {
        uint64_t n_entries;             /* functions described */
        uint64_t n_rows;                /* before merging */
        uint64_t n_overlaps;            /* functions cut where the next one starts */
        uint64_t n_derived;             /* bytes of code whose rows were derived from it (scan.h) */
        uint64_t n_refused;             /* functions without a description that were not understood */
        uint64_t n_passed;              /* bytes of code without a description that were not scanned */
        uint64_t problems[CFI_PROBLEM_N];
        uint64_t unsupported[CFI_UNSUPPORTED_N];
} CfiCounts;

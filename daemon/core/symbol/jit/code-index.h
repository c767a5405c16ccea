/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Code Index
 *
 * Which function is at an address of code that a process makes while it runs. Ranges come in any order and
 * lie over each other: the one that came last counts, and what it covers of others is theirs no more. What
 * was covered stays known for a while, for samples of a time before.
 *
 * Adding and finding take a time that grows with the logarithm of the number of ranges. Bounded in ranges and
 * in bytes of names: where room is needed, names of ranges that are gone are forgotten first, then the ranges
 * that came first go, an eighth at once, and are counted.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/base/util/macro.h"
#include "core/symbol/jit/code.h"

typedef struct CodeIndex CodeIndex;

enum {
        _CODE_INDEX_E_SUCCESS,
        CODE_INDEX_E_FULL,              /* the name is longer than all names may be: the range was left out */
};

typedef struct CodeIndexLimits {
        uint32_t max_ranges;            /* 0 = 262,144 at 32 bytes each; 4 at least */
        size_t max_name_bytes;          /* 0 = 16 MiB */
} CodeIndexLimits;

/* @limits may be NULL. Return: 0, -ENOMEM. */
int code_index_new(CodeIndex **indexp, const CodeIndexLimits *limits);
CodeIndex *code_index_free(CodeIndex *index);
DEFINE_CLEANUP(CodeIndex, code_index_free)

/* Return: 0, CODE_INDEX_E_FULL, -ENOMEM. */
int code_index_add(CodeIndex *index, const CodeRange *range);

/* Ranges that made room for later ones, since the index was made. */
uint64_t code_index_n_dropped(const CodeIndex *index);

/*
 * The function that was at @address at @time_ns (MONOTONIC), as far as ranges have times; with one range
 * alone there, it is that one. Return: its name, not terminated, which lives until the next code_index_add(),
 * *sizep of it, *startp, where it begins, and *is_pastp, whether something else is there by now; or NULL.
 */
const char *code_index_find(const CodeIndex *index, uint64_t address, uint64_t time_ns, size_t *sizep,
                            uint64_t *startp, bool *is_pastp);

size_t code_index_memory(const CodeIndex *index);

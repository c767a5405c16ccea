/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Check of Tables
 *
 * Whether bytes that somebody else made are a table in the form of bpf/unwind_abi.h: each word, record and
 * index leads to where it may. What the rules say may still be wrong; that is a matter of this one file's
 * stacks.
 */

#include <stdint.h>

#include "sampling/unwind/table.h"

/* Where a check in steps is; starts as zeros. */
typedef struct TableCheck {
        uint64_t page;
        uint64_t n_rows;                /* of records of more than one */
} TableCheck;

enum {
        _TABLE_CHECK_E_SUCCESS,
        TABLE_CHECK_E_AGAIN,
        TABLE_CHECK_E_MALFORMED,
};

/* Looks at about @budget bytes. Return: 0 = it is one, TABLE_CHECK_E_*. */
int table_check(TableCheck *check, const Table *table, uint64_t budget);

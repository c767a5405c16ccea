/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Check of Tables
 *
 * Checks that bytes of an untrusted process are a table in the form of bpf/border/unwind_abi.h: each word,
 * record and index leads to an allowed place. The rules may still be wrong; that spoils this one file's
 * stacks.
 */

#include <stdint.h>

#include "host/sampling/unwind/tables/table.h"

/* Progress of a check in steps; starts as zeros. */
typedef struct TableCheck {
        uint64_t page;
        uint64_t n_rows;                /* rows of records with more than one */
} TableCheck;

enum {
        _TABLE_CHECK_E_SUCCESS,
        TABLE_CHECK_E_AGAIN,
        TABLE_CHECK_E_MALFORMED,
};

/* Checks about @budget bytes. Return: 0 = it is a table, TABLE_CHECK_E_*. */
int table_check(TableCheck *check, const Table *table, uint64_t budget);

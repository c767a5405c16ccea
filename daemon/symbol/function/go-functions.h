/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Functions of a Go Program
 *
 * Finds go-table.h's table in an ELF file, by the name of its section or, where a linker has put it in with
 * other data or the file has no sections, by its first bytes; and runtime.text, from which its functions
 * count.
 */

#include "symbol/function/go-table.h"
#include "symbol/function/image-bytes.h"

enum {
        _GO_FUNCTIONS_E_SUCCESS,
        GO_FUNCTIONS_E_NONE,            /* no table, or it knows no more functions than are known already */
        /* there should be one; but it is damaged, too large, or of a version that is not known */
        GO_FUNCTIONS_E_REFUSED,
};

typedef struct GoFunctions {
        GoTable table;
        /* the address of runtime.text; all functions lie in one executable segment */
        uint64_t text;
        ImageBytes bytes;               /* that hold the table */
} GoFunctions;

/*
 * @n_known: functions that have symbols; 0 = the file has none, or only what it exports. @max_bytes: of the
 * table.
 * Return: 0, GO_FUNCTIONS_E_*, -ENOMEM.
 */
int go_functions_init(GoFunctions *functions, const ElfImage *image, uint32_t n_known, uint64_t max_bytes,
                      bool may_map);
void go_functions_deinit(GoFunctions *functions);

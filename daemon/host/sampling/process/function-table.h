/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Function Tables
 *
 * Where each function of an ELF file begins, by the sorted table of its .eh_frame_hdr. Functions without rows
 * are not in it.
 */

#include <stdbool.h>
#include <stdint.h>

#include "host/sampling/process/dynamic-symbol.h"

typedef struct FunctionTable {
        uint64_t address;
        uint32_t n;
        int32_t (*pairs)[2];            /* begin, row: relative to `address` */
} FunctionTable;

/* Return: whether there is a table; function_table_deinit() in any case. */
bool function_table_read(FunctionTable *table, const DynamicImage *image);
void function_table_deinit(FunctionTable *table);

/* ELF address. */
uint64_t function_table_begin(const FunctionTable *table, uint32_t i);

/* The function that @address lies in, as far as the table says; n = in none. */
uint32_t function_table_find(const FunctionTable *table, uint64_t address);

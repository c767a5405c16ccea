/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Table
 *
 * Descriptor of an ELF file in, table of unwind rows out: one flat run of blocks
 * in the form of bpf/border/unwind_abi.h. Building is done in steps, so that a library
 * with 840,000 rows never keeps the event loop waiting. No globals: it may move
 * into a worker without privileges as it is.
 */

#include <stddef.h>
#include <stdint.h>

#include "border/unwind_abi.h"
#include "core/base/util/macro.h"
#include "host/sampling/unwind/cfi/cfi.h"

typedef struct TableLimits {
        uint32_t max_functions;
        size_t max_bytes;               /* bytes of the table */
        uint32_t max_scan;              /* bytes of code without a description that are scanned (scan.h) */
} TableLimits;

/* A megabyte of code needs some 100 KiB of table; Chrome and libxul 20 to 30 MiB. */
#define TABLE_LIMITS_DEFAULT ((TableLimits){ .max_functions = 1U << 20, .max_bytes = 32U << 20 })

typedef struct Table {
        uint8_t *data;                  /* owned */
        size_t size;                    /* a multiple of UNWIND_BLOCK_SIZE */
        uint64_t text_low, text_high;   /* ELF addresses that the first and the last page stand for */
        uint64_t n_rows;                /* rows in the table */
        CfiCounts counts;
} Table;

typedef struct TableBuilder TableBuilder;

enum {
        _TABLE_E_SUCCESS,
        TABLE_E_NOT_ELF = CFI_E_NOT_ELF,
        TABLE_E_NO_TEXT = CFI_E_NO_TEXT,
        TABLE_E_NO_CFI = CFI_E_NO_CFI,
        TABLE_E_AGAIN = CFI_E_AGAIN,
        TABLE_E_TOO_LARGE,              /* over max_bytes: the file gets no table at all */
};

/*
 * @fd: borrowed until table_builder_free(). Return: 0, TABLE_E_NOT_ELF, _NO_TEXT, _NO_CFI, _TOO_LARGE,
 * -ENOMEM.
 */
int table_builder_new(TableBuilder **builderp, int fd, const TableLimits *limits);
int table_builder_new_memory(TableBuilder **builderp, const void *data, size_t size,
                             const TableLimits *limits);
TableBuilder *table_builder_free(TableBuilder *builder);
DEFINE_CLEANUP(TableBuilder, table_builder_free)

/*
 * Works for about @budget bytes of the file (100,000 are some 0.7 ms) and stops.
 * Return: 0 = *tablep is filled, to be given to table_deinit(); TABLE_E_AGAIN, TABLE_E_TOO_LARGE, -ENOMEM.
 */
int table_builder_step(TableBuilder *builder, uint64_t budget, Table *tablep);

void table_deinit(Table *table);

/* Rule for ELF address @address; 0 (UNWIND_CFA_NONE) where there is none. */
uint64_t table_find(const Table *table, uint64_t address);

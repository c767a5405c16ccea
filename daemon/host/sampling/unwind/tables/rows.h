/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Rows
 *
 * Packs rows into the table of blocks of bpf/border/unwind_abi.h: they come by ascending
 * address, equal neighbours become one, and a page is written as soon as the next
 * one begins, so that only the result and one page are ever in memory.
 */

#include <stddef.h>
#include <stdint.h>

#include "border/unwind_abi.h"

enum {
        _ROWS_E_SUCCESS,
        ROWS_E_TOO_LARGE,               /* over the cap of bytes */
};

enum {
        ROWS_HASH_SIZE = 512,           /* twice UNWIND_MAX_RULES, a power of two */
};

typedef struct RowsSlot {
        uint64_t rule;
        uint32_t serial;                /* block that the slot is valid for */
        uint8_t index;
} RowsSlot;

typedef struct Rows {
        uint8_t *data;                  /* the blocks, owned */
        uint32_t n_blocks, room, max_blocks;
        uint64_t text_low;
        uint32_t n_pages;               /* pages of text */

        /* the block in work */
        uint32_t block;                 /* 0 = none yet: block 0 is always directory */
        uint32_t used;                  /* bytes of records */
        uint32_t n_rules;
        uint32_t serial;
        RowsSlot slots[ROWS_HASH_SIZE];
        /* by rule: record of a page with only this rule; 0xffff = none */
        uint16_t singles[UNWIND_MAX_RULES];

        /* the page in work */
        uint32_t page;                  /* UINT32_MAX = none */
        uint32_t n;
        uint64_t last;                  /* the rule in force */

        uint64_t n_rows;                /* written */
        uint64_t n_dense;               /* pages that fit no block: all of them says "cannot be expressed" */

        /* n entries each; the last fields, as they need no clearing */
        uint16_t keys[UNWIND_PAGE_SIZE];
        uint64_t rules[UNWIND_PAGE_SIZE];
        uint8_t indexes[UNWIND_PAGE_SIZE];
} Rows;

/* @text_low, @text_high: whole pages. Return: 0, ROWS_E_TOO_LARGE, -ENOMEM. */
int rows_init(Rows *rows, uint64_t text_low, uint64_t text_high, size_t max_bytes);
void rows_deinit(Rows *rows);

/*
 * Adds a row: from @address (inside the text, never below an earlier one) on, @rule holds. Return: 0,
 * ROWS_E_TOO_LARGE, -ENOMEM.
 */
int rows_add(Rows *rows, uint64_t address, uint64_t rule);

/* Writes what is left: from @address on there are no rows. Return: as rows_add(). */
int rows_finish(Rows *rows, uint64_t address);

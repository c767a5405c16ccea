/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Takes rows in order, drops those equal to the one before, and packs the rest into pages of records.
 */

#include "host/sampling/unwind/tables/rows.h"

#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/util/error.h"
#include "core/base/util/macro.h"

enum {
        NO_PAGE = UINT32_MAX,
        NO_RECORD = 0xffff,
        GROW_BLOCKS = 16,               /* added to a quarter of the present blocks */
};

static uint8_t *block_data(Rows *rows, uint32_t block) {
        return rows->data + (size_t)block * UNWIND_BLOCK_SIZE;
}

/* Makes room for one more block, cleared. */
static int add_block(Rows *rows) {
        uint32_t room = MIN(rows->room + GROW_BLOCKS + rows->room / 4, rows->max_blocks);
        uint8_t *data;

        if (rows->n_blocks == rows->max_blocks)
                return ROWS_E_TOO_LARGE;
        if (rows->n_blocks == rows->room) {
                data = realloc(rows->data, (size_t)room * UNWIND_BLOCK_SIZE);
                if (!data)
                        return error_origin(-ENOMEM);
                rows->data = data;
                rows->room = room;
        }
        memset(block_data(rows, rows->n_blocks), 0, UNWIND_BLOCK_SIZE);
        rows->n_blocks++;
        return 0;
}

static int begin_block(Rows *rows) {
        int r = add_block(rows);

        if (r)
                return r;
        rows->block = rows->n_blocks - 1;
        rows->used = 0;
        rows->n_rules = 0;
        rows->serial++;
        return 0;
}

int rows_init(Rows *rows, uint64_t text_low, uint64_t text_high, size_t max_bytes) {
        uint64_t n_directory;
        int r = 0;

        memset(rows, 0, offsetof(Rows, keys));
        rows->text_low = text_low;
        rows->n_pages = (uint32_t)((text_high - text_low) >> UNWIND_PAGE_SHIFT);
        rows->page = NO_PAGE;
        rows->max_blocks = (uint32_t)MIN(max_bytes / UNWIND_BLOCK_SIZE, (size_t)UINT32_MAX);
        n_directory = (rows->n_pages + (1ULL << UNWIND_DIRECTORY_SHIFT) - 1) >> UNWIND_DIRECTORY_SHIFT;
        while (!r && rows->n_blocks < n_directory)
                r = add_block(rows);
        if (r)
                rows_deinit(rows);
        return r;
}

void rows_deinit(Rows *rows) {
        free(rows->data);
        rows->data = NULL;
}

/* Index of @rule among this block's rules, to which it is added. UNWIND_MAX_RULES = no room for one more. */
static uint32_t intern(Rows *rows, uint64_t rule) {
        uint32_t at = (uint32_t)(rule * UINT64_C(0x9e3779b97f4a7c15) >> 55);
        RowsSlot *slot;

        for (;; at = (at + 1) % ROWS_HASH_SIZE) {
                slot = &rows->slots[at];
                if (slot->serial != rows->serial)
                        break;
                if (slot->rule == rule)
                        return slot->index;
        }
        if (rows->n_rules == UNWIND_MAX_RULES)
                return UNWIND_MAX_RULES;
        *slot = (RowsSlot){ .rule = rule, .serial = rows->serial, .index = (uint8_t)rows->n_rules };
        rows->singles[rows->n_rules] = NO_RECORD;
        memcpy(block_data(rows, rows->block) + UNWIND_BLOCK_SIZE - 8 * (rows->n_rules + 1), &rule, 8);
        return rows->n_rules++;
}

/*
 * Interns the page's rules in the block in work. False = record and rules together
 * do not fit; the rules that were added then lie in space that the block never
 * uses, since it is left for a new one.
 */
static bool fits(Rows *rows) {
        uint32_t record = 3 * rows->n;

        if (!rows->block || rows->used + record + 8 * rows->n_rules > UNWIND_BLOCK_SIZE)
                return false;
        for (uint32_t i = 0; i < rows->n; i++) {
                /* Another rule must not run into the records that are there. */
                if (rows->used + 8 * (rows->n_rules + 1) > UNWIND_BLOCK_SIZE)
                        return false;
                rows->indexes[i] = (uint8_t)intern(rows, rows->rules[i]);
                if (rows->indexes[i] == UNWIND_MAX_RULES)
                        return false;
        }
        return rows->used + record + 8 * rows->n_rules <= UNWIND_BLOCK_SIZE;
}

static void set_word(Rows *rows, uint32_t page, uint32_t offset, uint32_t n) {
        uint64_t word = unwind_word(rows->block, offset, n);

        memcpy(rows->data + (size_t)page * 8, &word, sizeof(word));
}

static void write_record(Rows *rows, uint32_t page) {
        uint8_t *at = block_data(rows, rows->block) + rows->used;
        bool is_single = rows->n == 1;

        if (is_single && rows->singles[rows->indexes[0]] != NO_RECORD) {
                set_word(rows, page, rows->singles[rows->indexes[0]], 1);
                return;
        }
        set_word(rows, page, rows->used, rows->n);
        if (is_single)
                rows->singles[rows->indexes[0]] = (uint16_t)rows->used;
        memcpy(at, rows->keys, 2 * rows->n);
        memcpy(at + 2 * rows->n, rows->indexes, rows->n);
        rows->n_rows += rows->n;
        rows->used += 3 * rows->n + (rows->n & 1);
}

/*
 * Writes the rows in work as those of @page: into this block, else into a new one, else as one row that says
 * BAD.
 */
static int write_page(Rows *rows, uint32_t page) {
        int r;

        if (rows->n == 0 || (rows->n == 1 && rows->rules[0] == 0))
                return 0;
        if (!fits(rows)) {
                r = begin_block(rows);
                if (r)
                        return r;
                if (!fits(rows)) {
                        rows->n_dense++;
                        rows->n = 1;
                        rows->keys[0] = 0;
                        rows->rules[0] = unwind_rule(UNWIND_CFA_BAD, 0, 0, 0, 0);
                        rows->serial++;
                        rows->n_rules = 0;
                        fits(rows);
                }
        }
        write_record(rows, page);
        return 0;
}

/* Goes on to @page. Pages between have the one rule that is in force. */
static int turn_page(Rows *rows, uint32_t page) {
        int r = write_page(rows, rows->page);

        rows->n = 1;
        rows->keys[0] = 0;
        rows->rules[0] = rows->last;
        for (uint32_t i = rows->page + 1; !r && i < page && rows->last; i++)
                r = write_page(rows, i);
        rows->page = page;
        return r;
}

static void push(Rows *rows, uint16_t key, uint64_t rule) {
        if (rows->n > 0 && rows->keys[rows->n - 1] == key)
                rows->n--;
        if (rows->n > 0 && rows->rules[rows->n - 1] == rule)
                return;
        rows->keys[rows->n] = key;
        rows->rules[rows->n] = rule;
        rows->n++;
}

int rows_add(Rows *rows, uint64_t address, uint64_t rule) {
        uint64_t offset = address - rows->text_low;
        uint32_t page = (uint32_t)(offset >> UNWIND_PAGE_SHIFT);
        int r;

        if (rule == rows->last)
                return 0;
        if (page != rows->page) {
                r = turn_page(rows, page);
                if (r)
                        return r;
        }
        push(rows, (uint16_t)(offset % UNWIND_PAGE_SIZE), rule);
        rows->last = rule;
        return 0;
}

int rows_finish(Rows *rows, uint64_t address) {
        int r = 0;

        if (rows->page == NO_PAGE)
                return 0;
        if ((address - rows->text_low) >> UNWIND_PAGE_SHIFT < rows->n_pages)
                r = rows_add(rows, address, 0);
        /* The rule that was in force until the end may span whole pages. */
        if (!r)
                r = turn_page(rows, rows->n_pages);
        return r;
}

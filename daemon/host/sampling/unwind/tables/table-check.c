/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Pages with one row may share a record; each page with more rows has its own. So the rows of these fit into
 * the table, three bytes each. A table with more is crafted to keep us busy.
 */
#include "host/sampling/unwind/tables/table-check.h"

#include <string.h>


enum {
        WORDS = 1 << UNWIND_DIRECTORY_SHIFT,    /* directory words in a block */
        ROW_BYTES = 3,
};

typedef struct Extent {
        uint64_t n_pages, n_directory, n_blocks;
} Extent;

static bool measure(const Table *table, Extent *extent) {
        if (!table->data || table->size == 0 || table->size % UNWIND_BLOCK_SIZE ||
            table->text_low >= table->text_high || (table->text_low | table->text_high) % UNWIND_PAGE_SIZE ||
            table->text_high - table->text_low > UINT32_MAX)
                return false;
        extent->n_pages = (table->text_high - table->text_low) >> UNWIND_PAGE_SHIFT;
        extent->n_directory = (extent->n_pages + WORDS - 1) / WORDS;
        extent->n_blocks = table->size / UNWIND_BLOCK_SIZE;
        return extent->n_directory <= extent->n_blocks;
}

/* Kinds of UNWIND_CFA_FP and above have gaps. An unknown kind ends a walk as unsupported. */
static bool is_rule(uint64_t rule) {
        return unwind_rule_cfa(rule) != UNWIND_CFA_FP;
}

static bool check_rows(const uint8_t *block, uint32_t at, uint32_t n) {
        uint32_t end = at + ROW_BYTES * n, before = 0;

        for (uint32_t i = 0; i < n; i++) {
                uint32_t index = block[at + 2 * n + i];
                uint16_t key;
                uint64_t rule;

                memcpy(&key, block + at + 2 * i, sizeof(key));
                if (key >= UNWIND_PAGE_SIZE || (i == 0 ? key != 0 : key <= before) ||
                    index >= UNWIND_MAX_RULES || UNWIND_BLOCK_SIZE - 8 * (index + 1) < end)
                        return false;
                memcpy(&rule, block + UNWIND_BLOCK_SIZE - 8 * (index + 1), sizeof(rule));
                if (!is_rule(rule))
                        return false;
                before = key;
        }
        return true;
}

static bool check_page(TableCheck *check, const Table *table, const Extent *extent, uint64_t word) {
        uint32_t block = unwind_word_block(word), at = unwind_word_offset(word), n = unwind_word_rows(word);

        if (n == 0)
                return true;
        if (n > 1)
                check->n_rows += n;
        return n <= UNWIND_MAX_ROWS && block >= extent->n_directory && block < extent->n_blocks &&
                at % 2 == 0 && at + ROW_BYTES * n <= UNWIND_BLOCK_SIZE &&
                check->n_rows <= table->size / ROW_BYTES &&
                check_rows(table->data + (size_t)block * UNWIND_BLOCK_SIZE, at, n);
}

int table_check(TableCheck *check, const Table *table, uint64_t budget) {
        uint64_t word, used = 0;
        Extent extent;

        if (!measure(table, &extent))
                return TABLE_CHECK_E_MALFORMED;
        for (; check->page < extent.n_pages && used < budget; check->page++) {
                memcpy(&word, table->data + check->page * sizeof(word), sizeof(word));
                if (!check_page(check, table, &extent, word))
                        return TABLE_CHECK_E_MALFORMED;
                used += sizeof(word) + ROW_BYTES * unwind_word_rows(word);
        }
        return check->page < extent.n_pages ? TABLE_CHECK_E_AGAIN : 0;
}

/* SPDX-License-Identifier: Apache-2.0 */
#include "sampling/unwind/table.h"

#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "base/util/error.h"
#include "sampling/unwind/rows.h"

enum {
        GAP = 15,                       /* bytes of padding between functions that are not worth a row */
};

struct TableBuilder {
        Cfi *cfi;
        uint64_t end;                   /* end of the last function; 0 = none yet */
        Rows rows;
};

TableBuilder *table_builder_free(TableBuilder *builder) {
        if (!builder)
                return NULL;
        rows_deinit(&builder->rows);
        cfi_free(builder->cfi);
        free(builder);
        return NULL;
}

/* Takes @cfi over. */
static int new_builder(TableBuilder **builderp, Cfi *cfi, const TableLimits *limits) {
        const Layout *layout = cfi_layout(cfi);
        _cleanup_(table_builder_freep) TableBuilder *builder = malloc(sizeof(*builder));
        int r;

        if (!builder) {
                cfi_free(cfi);
                return error_origin(-ENOMEM);
        }
        builder->cfi = cfi;
        builder->end = 0;
        r = rows_init(&builder->rows, layout->text_low, layout->text_high, limits->max_bytes);
        if (r == ROWS_E_TOO_LARGE)
                return TABLE_E_TOO_LARGE;
        if (r)
                return error_fold(r);
        *builderp = take(builder);
        return 0;
}

int table_builder_new(TableBuilder **builderp, int fd, const TableLimits *limits) {
        Cfi *cfi;
        int r = cfi_new(&cfi, fd, limits->max_functions);

        return r ? r : new_builder(builderp, cfi, limits);
}

int table_builder_new_memory(TableBuilder **builderp, const void *data, size_t size,
                             const TableLimits *limits) {
        Cfi *cfi;
        int r = cfi_new_memory(&cfi, data, size, limits->max_functions);

        return r ? r : new_builder(builderp, cfi, limits);
}

static int add_function(TableBuilder *builder, const CfiFunction *function) {
        int r = 0;

        if (builder->end && function->start - builder->end > GAP)
                r = rows_add(&builder->rows, builder->end, 0);
        if (!r && function->n_rows == 0)
                r = rows_add(&builder->rows, function->start, 0);
        for (uint32_t i = 0; !r && i < function->n_rows; i++)
                r = rows_add(&builder->rows, function->rows[i].address, function->rows[i].rule);
        builder->end = function->end;
        return r;
}

static int finish(TableBuilder *builder, Table *tablep) {
        const Layout *layout = cfi_layout(builder->cfi);
        Rows *rows = &builder->rows;
        int r = rows_finish(rows, builder->end);

        if (r)
                return r;
        *tablep = (Table){
                .data = take(rows->data),
                .size = (size_t)rows->n_blocks * UNWIND_BLOCK_SIZE,
                .text_low = layout->text_low,
                .text_high = layout->text_high,
                .n_rows = rows->n_rows,
                .counts = *cfi_counts(builder->cfi),
        };
        tablep->counts.unsupported[CFI_UNSUPPORTED_DENSE_PAGE] = rows->n_dense;
        return 0;
}

int table_builder_step(TableBuilder *builder, uint64_t budget, Table *tablep) {
        CfiFunction function;
        bool is_last;
        int r;

        for (;;) {
                r = cfi_next(builder->cfi, &budget, &function);
                if (r == CFI_E_AGAIN)
                        return TABLE_E_AGAIN;
                if (r && r != CFI_E_END)
                        return error_fold(r);
                is_last = r == CFI_E_END;
                r = is_last ? finish(builder, tablep) : add_function(builder, &function);
                if (r == ROWS_E_TOO_LARGE)
                        return TABLE_E_TOO_LARGE;
                if (r)
                        return error_fold(r);
                if (is_last)
                        return 0;
        }
}

void table_deinit(Table *table) {
        free(table->data);
        *table = (Table){ 0 };
}

static uint64_t read_word(const Table *table, uint32_t block, uint32_t at) {
        uint64_t word;

        memcpy(&word, table->data + (size_t)block * UNWIND_BLOCK_SIZE + at, sizeof(word));
        return word;
}

uint64_t table_find(const Table *table, uint64_t address) {
        uint64_t offset = address - table->text_low, word;
        uint32_t page = (uint32_t)(offset >> UNWIND_PAGE_SHIFT), block, n, low = 0;
        const uint8_t *record;

        if (address < table->text_low || address >= table->text_high)
                return 0;
        word = read_word(table, page >> UNWIND_DIRECTORY_SHIFT, page % (1 << UNWIND_DIRECTORY_SHIFT) * 8);
        block = unwind_word_block(word);
        n = unwind_word_rows(word);
        if (n == 0)
                return 0;
        record = table->data + (size_t)block * UNWIND_BLOCK_SIZE + unwind_word_offset(word);
        for (uint32_t left = n; left > 1; left -= left / 2) {
                uint16_t key;

                memcpy(&key, record + 2 * (low + left / 2), sizeof(key));
                if (key <= offset % UNWIND_PAGE_SIZE)
                        low += left / 2;
        }
        return read_word(table, block, UNWIND_BLOCK_SIZE - 8 * (record[2 * n + low] + 1U));
}

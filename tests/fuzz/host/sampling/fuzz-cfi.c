/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Fuzz: ELF headers, call frame information, packing. The first byte says what
 * the others are: 'E' an ELF file, 'F' an .eh_frame, 'D' a .debug_frame, for
 * which a file is made around them. Whatever comes out must be a table that the
 * kernel half can walk: each directory word inside, each record inside its block,
 * keys ascending from 0, rules where they are said to be.
 */

#include <stdint.h>
#include <stdlib.h>

#include "cfi-maker.h"
#include "host/sampling/unwind/tables/table.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void must(bool condition) {
        if (!condition)
                abort();
}

static void check_page(const Table *table, uint64_t page) {
        size_t n_blocks = table->size / UNWIND_BLOCK_SIZE;
        const uint8_t *block, *record;
        uint16_t key, last = 0;
        uint64_t word;
        uint32_t n;

        memcpy(&word, table->data + 8 * page, 8);
        n = unwind_word_rows(word);
        if (n == 0) {
                must(word == 0);
                return;
        }
        must(n <= UNWIND_MAX_ROWS && unwind_word_block(word) < n_blocks);
        must(unwind_word_offset(word) % 2 == 0 && unwind_word_offset(word) + 3 * n <= UNWIND_BLOCK_SIZE);
        block = table->data + (size_t)unwind_word_block(word) * UNWIND_BLOCK_SIZE;
        record = block + unwind_word_offset(word);
        for (uint32_t i = 0; i < n; i++) {
                memcpy(&key, record + 2 * i, 2);
                must(i == 0 ? key == 0 : key > last && key < UNWIND_PAGE_SIZE);
                must(record[2 * n + i] < UNWIND_MAX_RULES);
                must(record + 3 * n <= block + UNWIND_BLOCK_SIZE - 8 * (record[2 * n + i] + 1));
                last = key;
        }
}

static void check(const Table *table) {
        uint64_t n_pages = (table->text_high - table->text_low) / UNWIND_PAGE_SIZE;

        must(table->size % UNWIND_BLOCK_SIZE == 0 && 8 * n_pages <= table->size);
        for (uint64_t page = 0; page < n_pages; page++)
                check_page(table, page);
        table_find(table, table->text_low);
        table_find(table, table->text_high - 1);
}

static void run(const uint8_t *data, size_t size) {
        /* Small caps, so that they are met; an input is at most some KiB. */
        const TableLimits limits = { .max_functions = 64, .max_bytes = 256 << 10 };
        TableBuilder *builder;
        Table table = { 0 };
        int r = table_builder_new_memory(&builder, data, size, &limits);

        must(r >= 0);
        if (r)
                return;
        do
                r = table_builder_step(builder, 500, &table);
        while (r == TABLE_E_AGAIN);
        must(r == 0 || r == TABLE_E_TOO_LARGE);
        if (!r)
                check(&table);
        table_deinit(&table);
        table_builder_free(builder);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
        static Bytes frame, elf;

        if (size < 1 || size > 1 << 16)
                return 0;
        if (data[0] == 'E') {
                run(data + 1, size - 1);
                return 0;
        }
        frame.size = 0;
        put(&frame, data + 1, size - 1);
        make_elf(&elf, &frame, data[0] == 'D' ? ".debug_frame" : ".eh_frame");
        run(elf.data, elf.size);
        return 0;
}

/* SPDX-License-Identifier: Apache-2.0 */

/*
 * The bytes of an ELF file with Go's table: its rows, and the lines at some addresses. A table that is made
 * must be one that the daemon takes, and a text must lie in Go's table. Recipe of the corpus:
 * make-go-rows-corpus.py.
 */

#include <stdlib.h>
#include <string.h>

#include "core/base/elf/go-lines.h"
#include "host/sampling/unwind/tables/table-check.h"
#include "host/sampling/unwind/tables/table.h"

enum { MAX_BYTES = 1 << 20, N_ADDRESSES = 64, MAX_FRAMES = 8 };

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void make_rows(const uint8_t *data, size_t size) {
        const TableLimits limits = { .max_functions = 4096, .max_bytes = MAX_BYTES };
        TableBuilder *builder;
        TableCheck check = { 0 };
        Table table;
        int r = table_builder_new_memory(&builder, data, size, &limits);

        if (r < 0)
                abort();
        if (r)
                return;
        while ((r = table_builder_step(builder, 1000, &table)) == TABLE_E_AGAIN)
                ;
        table_builder_free(builder);
        if (r == TABLE_E_TOO_LARGE)
                return;
        if (r || table_check(&check, &table, UINT64_MAX))
                abort();
        table_deinit(&table);
}

static uint64_t check_text(const GoTable *table, const char *text, uint16_t n) {
        if (n && (n > GO_MAX_NAME || text < table->data || text + n > table->data + table->size ||
                  memchr(text, 0, n)))
                abort();
        return n;
}

static void find_lines(const uint8_t *data, size_t size) {
        uint64_t sum = 0;
        ElfImage image;
        GoLines lines;

        if (elf_image_init_memory(&image, data, size))
                return;
        if (go_lines_init(&lines, &image, MAX_BYTES, false) == 0) {
                for (uint64_t i = 0; i < N_ADDRESSES; i++) {
                        GoLine frames[MAX_FRAMES];
                        size_t n = go_lines_find(&lines, lines.functions.text + 3 * i, frames, MAX_FRAMES);

                        if (n > MAX_FRAMES)
                                abort();
                        for (size_t k = 0; k < n; k++)
                                sum += check_text(&lines.functions.table, frames[k].name, frames[k].n_name) +
                                        check_text(&lines.functions.table, frames[k].file, frames[k].n_file);
                }
                go_lines_deinit(&lines);
        }
        elf_image_deinit(&image);
        if (sum > UINT32_MAX)
                abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
        make_rows(data, size);
        find_lines(data, size);
        return 0;
}

/* SPDX-License-Identifier: Apache-2.0 */

/*
 * The bytes of an ELF file with Go's table, found and read; and the same bytes as a table at each eighth of
 * them. Each name must lie in the table, with its end or at the cap.
 */

#include <stdlib.h>
#include <string.h>

#include "core/base/elf/go-functions.h"
#include "core/symbol/function/symbol-list.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static uint64_t read_table(const GoTable *table) {
        uint64_t sum = go_table_start(table) + (uint64_t)go_table_end(table);

        for (uint32_t i = 0; i < table->n; i++) {
                GoFunction function;

                if (!go_table_function(table, i, &function))
                        continue;
                if (!function.n_name || function.n_name > SYMBOL_MAX_NAME ||
                    memchr(function.name, 0, function.n_name) || function.name < table->data ||
                    function.name + function.n_name >= table->data + table->size ||
                    (function.n_name < SYMBOL_MAX_NAME && function.name[function.n_name]) ||
                    function.start + function.size < function.start)
                        abort();
                sum += function.start;
        }
        return sum;
}

static void read_image(const ElfImage *image, uint32_t n_known) {
        GoFunctions functions;
        int r = go_functions_init(&functions, image, n_known, 1 << 20, false);

        if (r < 0)
                abort();
        if (r)
                return;
        if (functions.table.n <= n_known)
                abort();
        read_table(&functions.table);
        go_functions_deinit(&functions);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
        ElfImage image;
        GoTable table;

        for (unsigned i = 0; i < 8; i++)
                if (go_table_init(&table, (const char *)data + size * i / 8, size - size * i / 8))
                        read_table(&table);
        if (elf_image_init_memory(&image, data, size) == 0) {
                read_image(&image, 0);
                read_image(&image, 2);
                elf_image_deinit(&image);
        }
        return 0;
}

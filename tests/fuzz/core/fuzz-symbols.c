/* SPDX-License-Identifier: Apache-2.0 */

/*
 * The bytes of an ELF file: build ids, symbol tables, look-ups. The corpus is made by
 * make-symbols-corpus.sh from a few lines of C.
 */

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "core/base/elf/image.h"
#include "core/base/file/file.h"
#include "core/symbol/function/symbols.h"
#include "symbol-table.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void look_up(const SymbolTable *table, const uint8_t *data, size_t size) {
        for (size_t i = 0; i + 8 <= size; i += 8) {
                uint64_t address, offset;
                const char *name;

                memcpy(&address, data + i, sizeof(address));
                name = symbol_table_find(table, address, &offset);
                if (name && (!name[0] || strlen(name) > SYMBOL_MAX_NAME || offset > address))
                        abort();
        }
}

static void read_image(const ElfImage *image, const uint8_t *data, size_t size) {
        static const SymbolLimits small = { .max_symbols = 3, .max_string_bytes = 16 };
        SymbolTable *table = NULL;
        ImageIds ids;

        if (elf_image_ids(image, &ids) < 0 || strlen(ids.gnu) % 2)
                abort();
        if (read_symbol_table(&table, image, NULL, NULL) == 0)
                look_up(table, data, size);
        symbol_table_free(table);
        table = NULL;
        if (read_symbol_table(&table, image, NULL, &small) == 0 && symbol_table_n_symbols(table) > 3)
                abort();
        symbol_table_free(table);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
        static int fd = -1;
        ElfImage image;

        if (fd < 0)
                fd = memfd_create("fuzz", MFD_CLOEXEC);
        if (fd < 0 || ftruncate(fd, 0) < 0 || lseek(fd, 0, SEEK_SET) < 0 || file_write(fd, data, size) < 0)
                abort();
        if (elf_image_init(&image, fd, 0, size) == 0) {
                read_image(&image, data, size);
                elf_image_deinit(&image);
        }
        return 0;
}

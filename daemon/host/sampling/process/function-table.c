/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Reads a table of the one form that linkers write (version 1, pairs of int32 relative to the section), and
 * searches it by halves.
 */
#include "host/sampling/process/function-table.h"

#include <elf.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_FUNCTIONS = 1 << 22 };       /* functions of one file */

bool function_table_read(FunctionTable *table, const DynamicImage *image) {
        static const uint8_t expected[] = { 1, 0x1b, 0x03, 0x3b };
        const Elf64_Phdr *header = NULL;
        uint8_t begin[12];

        *table = (FunctionTable){ 0 };
        for (unsigned i = 0; i < image->n_headers && !header; i++)
                if (image->headers[i].p_type == PT_GNU_EH_FRAME)
                        header = &image->headers[i];
        if (!header || !dynamic_image_read(image, header->p_vaddr, begin, sizeof(begin)) ||
            memcmp(begin, expected, sizeof(expected)))
                return false;
        memcpy(&table->n, begin + 8, sizeof(table->n));
        table->address = header->p_vaddr;
        if (!table->n || table->n > MAX_FUNCTIONS || table->n > header->p_memsz / sizeof(*table->pairs))
                return false;
        table->pairs = malloc(table->n * sizeof(*table->pairs));
        return table->pairs &&
                dynamic_image_read(image, header->p_vaddr + sizeof(begin), table->pairs,
                                   table->n * sizeof(*table->pairs));
}

void function_table_deinit(FunctionTable *table) {
        free(table->pairs);
        *table = (FunctionTable){ 0 };
}

uint64_t function_table_begin(const FunctionTable *table, uint32_t i) {
        return table->address + (uint64_t)(int64_t)table->pairs[i][0];
}

uint32_t function_table_find(const FunctionTable *table, uint64_t address) {
        uint32_t low = 0, high = table->n;

        while (low < high) {
                uint32_t middle = low + (high - low) / 2;

                if (function_table_begin(table, middle) <= address)
                        low = middle + 1;
                else
                        high = middle;
        }
        return low ? low - 1 : table->n;
}

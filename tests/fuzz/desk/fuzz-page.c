/* SPDX-License-Identifier: Apache-2.0 */

/* The data of a page that somebody made: what is decoded has no index that is out of its table. */

#include <stdlib.h>
#include <string.h>

#include "desk/page/page-decode.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define CHECK(_condition) do { if (!(_condition)) abort(); } while (0)

static void check_tables(const DecodedPage *page) {
        for (uint32_t i = 0; i < page->n_frames; i++) {
                CHECK(page->frames[i].name < page->n_strings && page->frames[i].object < page->n_strings);
                CHECK(page->frames[i].file < page->n_strings && page->frames[i].type < page->n_strings);
        }
        for (uint32_t i = 1; i < page->n_nodes; i++)
                CHECK(page->nodes[i].parent < i && page->nodes[i].frame < page->n_frames);
        for (uint32_t i = 0; i < page->n_contexts; i++) {
                CHECK(page->contexts[i].kind < page->n_kinds);
                for (uint32_t j = 0; j < page->n_dimensions; j++)
                        CHECK(page->contexts[i].values[j] < page->dimensions[j].n_values);
        }
        for (uint32_t j = 0; j < page->n_dimensions; j++)
                for (uint32_t i = 0; page->dimensions[j].labels && i < page->dimensions[j].n_values; i++)
                        CHECK(page->dimensions[j].labels[i] < page->n_strings);
        for (size_t i = 0; i < page->n_rows; i++)
                CHECK(page->rows[i].node < page->n_nodes && page->rows[i].context < page->n_contexts);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
        const char *text;
        size_t text_size;
        DecodedPage page;

        if (page_find_data((const char *)data, size, &text, &text_size))
                CHECK(text >= (const char *)data && text + text_size <= (const char *)data + size);
        if (!page_decode(&page, data, size))
                check_tables(&page);
        page_decode_deinit(&page);
        return 0;
}

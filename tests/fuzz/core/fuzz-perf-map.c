/* SPDX-License-Identifier: Apache-2.0 */

/*
 * A perf-map in pieces, and all that it yields into an index: ranges are sound, names are those of some line.
 */
#include <stdlib.h>
#include <string.h>

#include "core/symbol/jit/code-index.h"
#include "core/symbol/jit/perf-map.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void look_up(const CodeIndex *index, uint64_t address) {
        uint64_t start = 0;
        size_t size = 0;
        bool is_past;
        const char *name = code_index_find(index, address, 0, &size, &start, &is_past);

        if (name && (start > address || !size || size > CODE_MAX_NAME || memchr(name, '\n', size)))
                abort();
}

static int take_range(void *userdata, const CodeRange *range) {
        CodeIndex *index = userdata;

        if (!range->size || range->start + range->size < range->start || !range->name_size ||
            range->name_size > CODE_MAX_NAME)
                abort();
        if (code_index_add(index, range) < 0)
                abort();
        look_up(index, range->start);
        look_up(index, range->start + range->size - 1);
        look_up(index, range->start + range->size);
        return 0;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
        CodeIndexLimits limits = { .max_ranges = 600, .max_name_bytes = 64 << 10 };
        PerfMap *map = calloc(1, sizeof(*map));
        CodeIndex *index;
        size_t piece = size ? 1 + data[0] : 1;

        if (!map || code_index_new(&index, &limits))
                abort();
        for (size_t at = 0; at < size; at += piece) {
                size_t n = size - at < piece ? size - at : piece;

                if (perf_map_feed(map, (const char *)data + at, n, take_range, index))
                        abort();
        }
        if (map->n_malformed > map->n_lines || map->n_lines > size)
                abort();
        look_up(index, 0);
        look_up(index, UINT64_MAX);
        code_index_free(index);
        free(map);
        return 0;
}

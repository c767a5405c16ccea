/* SPDX-License-Identifier: Apache-2.0 */

/*
 * A jitdump in one piece and in small ones, of which the bytes that say nothing are left out: both yield the
 * same.
 */
#include <stdlib.h>
#include <string.h>

#include "core/base/data/intern.h"
#include "core/symbol/jit/code-index.h"
#include "core/symbol/jit/jitdump.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

typedef struct Seen {
        CodeIndex *index;
        uint64_t n, hash;
} Seen;

static int take_range(void *userdata, const CodeRange *range) {
        Seen *seen = userdata;
        uint64_t start;
        size_t size;
        bool is_past;

        if (!range->size || range->start + range->size < range->start || !range->name_size ||
            range->name_size > CODE_MAX_NAME || memchr(range->name, 0, range->name_size))
                abort();
        if (code_index_add(seen->index, range) < 0)
                abort();
        code_index_find(seen->index, range->start, range->time_ns, &size, &start, &is_past);
        seen->n++;
        seen->hash = seen->hash * 31 + range->start * 7 + range->size * 5 + range->time_ns * 3 +
                     hash_stable(range->name, range->name_size);
        return 0;
}

static Seen read_in_pieces(const uint8_t *data, size_t size, size_t piece) {
        CodeIndexLimits limits = { .max_ranges = 600, .max_name_bytes = 64 << 10 };
        Jitdump *jitdump = calloc(1, sizeof(*jitdump));
        Seen seen = { 0 };

        if (!jitdump || code_index_new(&seen.index, &limits))
                abort();
        for (uint64_t at = 0; at < size; at += jitdump_skip(&jitdump->reader)) {
                size_t n = size - at < piece ? size - at : piece;
                int r = jitdump_feed(jitdump, data + at, n, take_range, &seen);

                if (r < 0)
                        abort();
                if (r)
                        break;
                at += n;
        }
        jitdump_deinit(jitdump);
        free(jitdump);
        code_index_free(seen.index);
        return seen;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
        Seen whole = read_in_pieces(data, size, size + 1), pieces = read_in_pieces(data, size, 1 + size % 61);

        if (whole.n != pieces.n || whole.hash != pieces.hash)
                abort();
        return 0;
}

/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Finds the frames of an address by a hash of the address. Their texts are numbers of an intern table, so
 * that equal texts are kept once.
 */

#include "core/symbol/line/line-cache.h"

#include <errno.h>

#include "core/base/util/error.h"

/* A file has some thousand names of sources and functions; one that has more is up to something. */
enum { MAX_TEXTS = 4 << 20 };

typedef struct StoredFrame {
        uint32_t name, file;            /* texts */
        uint32_t line, start_line;
} StoredFrame;

struct LineRow {
        uint32_t n_frames;
        StoredFrame frames[];
};

/* Answers of one run of the process. */
typedef struct Filling {
        LineCache *cache;
        const uint64_t *addresses;
} Filling;

void line_cache_init(LineCache *cache) {
        *cache = (LineCache){ 0 };
        intern_init(&cache->texts, MAX_TEXTS);
}

void line_cache_deinit(LineCache *cache) {
        hashmap_deinit(&cache->rows);
        arena_deinit(&cache->arena);
        intern_deinit(&cache->texts);
}

const LineRow *line_cache_find(const LineCache *cache, uint64_t address) {
        return hashmap_get(&cache->rows, address);
}

/* A text over the cap is left out. */
static int add_text(LineCache *cache, const char *text, size_t size, uint32_t *indexp) {
        int r = intern_add(&cache->texts, text, size, indexp);

        if (r == INTERN_E_FULL)
                return intern_find(&cache->texts, "", 0, indexp) ? INTERN_E_FULL : 0;
        return r < 0 ? error_fold(r) : 0;
}

static int add_row(LineCache *cache, uint64_t address, const LineFrame *frames, size_t n) {
        LineRow *row = arena_alloc(&cache->arena, sizeof(*row) + n * sizeof(row->frames[0]));
        int r = 0;

        if (!row)
                return error_origin(-ENOMEM);
        row->n_frames = (uint32_t)n;
        for (size_t i = 0; i < n && !r; i++) {
                row->frames[i].line = frames[i].line;
                row->frames[i].start_line = frames[i].start_line;
                r = add_text(cache, frames[i].name, frames[i].n_name, &row->frames[i].name);
                if (!r)
                        r = add_text(cache, frames[i].file, frames[i].n_file, &row->frames[i].file);
        }
        if (!r)
                r = hashmap_put(&cache->rows, address, row);
        return r < 0 ? error_fold(r) : r;
}

static int keep(void *userdata, uint32_t index, const LineFrame *frames, size_t n) {
        Filling *filling = userdata;
        int r = add_row(filling->cache, filling->addresses[index], frames, n);

        return r < 0 ? error_fold(r) : 0;
}

int line_cache_fill(LineCache *cache, int fd, const uint64_t *addresses, uint32_t n,
                    const LinesOptions *options) {
        Filling filling = { cache, addresses };
        uint32_t empty;
        int r, q = intern_add(&cache->texts, "", 0, &empty);

        if (q < 0)
                return error_fold(q);
        r = lines_read(fd, addresses, n, options, keep, &filling);
        if (r < 0)
                return error_fold(r);
        for (uint32_t i = 0; i < n; i++)
                if (!line_cache_find(cache, addresses[i])) {
                        q = add_row(cache, addresses[i], NULL, 0);
                        if (q < 0)
                                return error_fold(q);
                }
        return r;
}

static LineFrame frame_of(const LineCache *cache, const StoredFrame *stored) {
        const InternItem *name = intern_get(&cache->texts, stored->name),
                         *file = intern_get(&cache->texts, stored->file);

        return (LineFrame){ .name = name->data,
                            .n_name = name->size,
                            .file = file->data,
                            .n_file = file->size,
                            .line = stored->line,
                            .start_line = stored->start_line };
}

int line_cache_give(const LineCache *cache, uint64_t address, uint32_t index, LinesSink sink,
                    void *userdata) {
        const LineRow *row = line_cache_find(cache, address);
        LineFrame frames[LINES_MAX_FRAMES];

        if (!row || !row->n_frames)
                return 0;
        for (uint32_t i = 0; i < row->n_frames; i++)
                frames[i] = frame_of(cache, &row->frames[i]);
        return sink(userdata, index, frames, row->n_frames);
}

size_t line_cache_memory(const LineCache *cache) {
        return cache->rows.n_slots * sizeof(HashmapEntry) + cache->arena.total + cache->texts.arena.total +
               cache->texts.items_size * sizeof(InternItem) + cache->texts.n_slots * sizeof(uint32_t);
}

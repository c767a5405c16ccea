/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Ranges are disjoint and sorted, in chunks of up to 256; a directory of chunks is searched first:
 *
 *     directory   [ chunk, chunk, … ]          by the end of a chunk's last range
 *     chunk       [ 1000–1040 a, 1040–1100 b, … ]
 *
 *     add 1020–1080 c   →   1000–1020 a, 1020–1080 c, 1080–1100 b   earlier: 1000–1040 a, 1040–1100 b
 *
 * A compiler fills its memory mostly upwards, but comes back to what it has freed: an array would move all of
 * its ranges for that, a chunk moves 256.
 *
 * A full index drops the ranges that came first, an eighth of them in one pass: a program runs what it
 * compiles now, and a pass for each new range would read all of them every time.
 */
#include "core/symbol/jit/code-index.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/data/intern.h"
#include "core/base/util/array.h"
#include "core/base/util/error.h"

enum {
        DEFAULT_MAX_RANGES = 256 << 10,
        DEFAULT_MAX_NAME_BYTES = 16 << 20,
        CHUNK_RANGES = 256,
        MAX_PAST = 4096,
        DROP_PART = 8,                  /* a full index drops so large a part of its ranges at once */
};

typedef struct Range {
        uint64_t start, end, from_ns;
        uint32_t name;
        uint32_t turn;                  /* number of the addition, which may wrap around */
} Range;

typedef struct PastRange {
        Range range;
        uint64_t until_ns;
} PastRange;

typedef struct Chunk {
        uint32_t n;
        Range ranges[CHUNK_RANGES];
} Chunk;

struct CodeIndex {
        CodeIndexLimits limits;
        Chunk **chunks;
        uint32_t n_chunks, chunks_size;
        uint32_t n_ranges;
        uint32_t n_gone;                /* ranges that went since names were looked through */
        uint32_t turn;                  /* turn of the next addition */
        uint64_t n_dropped;             /* ranges that made room for later ones, ever */
        Intern names;
        PastRange *history;                /* a ring, made for the first one */
        uint64_t n_past;                /* ever */
};

typedef struct Place {
        uint32_t chunk, at;
} Place;

int code_index_new(CodeIndex **indexp, const CodeIndexLimits *limits) {
        CodeIndex *index = calloc(1, sizeof(*index));

        if (!index)
                return error_origin(-ENOMEM);
        if (limits)
                index->limits = *limits;
        index->limits.max_ranges = index->limits.max_ranges ?: DEFAULT_MAX_RANGES;
        index->limits.max_name_bytes = index->limits.max_name_bytes ?: DEFAULT_MAX_NAME_BYTES;
        intern_init(&index->names, UINT32_MAX - 1);
        *indexp = index;
        return 0;
}

CodeIndex *code_index_free(CodeIndex *index) {
        if (!index)
                return NULL;
        for (uint32_t i = 0; i < index->n_chunks; i++)
                free(index->chunks[i]);
        free(index->chunks);
        free(index->history);
        intern_deinit(&index->names);
        free(index);
        return NULL;
}

/* ---- places ---- */

static Range *range_at(const CodeIndex *index, Place place) {
        return place.chunk < index->n_chunks ? &index->chunks[place.chunk]->ranges[place.at] : NULL;
}

static Place next_place(const CodeIndex *index, Place place) {
        if (++place.at < index->chunks[place.chunk]->n)
                return place;
        return (Place){ place.chunk + 1, 0 };
}

/* The first range that ends behind @address. */
static Place find_place(const CodeIndex *index, uint64_t address) {
        uint32_t low = 0, high = index->n_chunks;
        const Chunk *chunk;
        Place place;

        while (low < high) {
                uint32_t middle = low + (high - low) / 2;

                chunk = index->chunks[middle];
                if (chunk->ranges[chunk->n - 1].end > address)
                        high = middle;
                else
                        low = middle + 1;
        }
        place = (Place){ low, 0 };
        if (low == index->n_chunks)
                return place;
        chunk = index->chunks[low];
        for (low = 0, high = chunk->n; low < high;) {
                uint32_t middle = low + (high - low) / 2;

                if (chunk->ranges[middle].end > address)
                        high = middle;
                else
                        low = middle + 1;
        }
        place.at = low;
        return place;
}

static int add_chunk(CodeIndex *index, uint32_t at) {
        int r = array_reserve(&index->chunks, &index->chunks_size, index->n_chunks + 1u, 16);
        Chunk *chunk = r ? NULL : malloc(sizeof(*chunk));

        if (!chunk)
                return r ? r : error_origin(-ENOMEM);
        chunk->n = 0;
        memmove(index->chunks + at + 1, index->chunks + at, (index->n_chunks - at) * sizeof(*index->chunks));
        index->chunks[at] = chunk;
        index->n_chunks++;
        return 0;
}

/*
 * A full chunk gives its upper half to a new one behind it; the last one stays full, since most code comes at
 * the end.
 */
static int split(CodeIndex *index, Place *place) {
        Chunk *lower = index->chunks[place->chunk], *upper;
        uint32_t keep = place->at == lower->n ? lower->n : lower->n / 2;
        int r = add_chunk(index, place->chunk + 1);

        if (r)
                return error_fold(r);
        upper = index->chunks[place->chunk + 1];
        upper->n = lower->n - keep;
        memcpy(upper->ranges, lower->ranges + keep, upper->n * sizeof(*upper->ranges));
        lower->n = keep;
        if (place->at >= keep)
                *place = (Place){ place->chunk + 1, place->at - keep };
        return 0;
}

/*
 * Before @place, or at the end of the chunk before, which is the same. Return: 0, -ENOMEM (nothing changed).
 */
static int insert(CodeIndex *index, Place place, const Range *range) {
        Chunk *chunk;
        int r = 0;

        if (place.at == 0 && place.chunk)
                place = (Place){ place.chunk - 1, index->chunks[place.chunk - 1]->n };
        if (place.chunk == index->n_chunks)
                r = add_chunk(index, place.chunk);
        else if (index->chunks[place.chunk]->n == CHUNK_RANGES)
                r = split(index, &place);
        if (r)
                return error_fold(r);
        chunk = index->chunks[place.chunk];
        memmove(chunk->ranges + place.at + 1, chunk->ranges + place.at,
                (chunk->n - place.at) * sizeof(*chunk->ranges));
        chunk->ranges[place.at] = *range;
        chunk->n++;
        index->n_ranges++;
        return 0;
}

/* Return: the place of what followed it. */
static Place erase(CodeIndex *index, Place place) {
        Chunk *chunk = index->chunks[place.chunk];

        index->n_ranges--;
        index->n_gone++;
        memmove(chunk->ranges + place.at, chunk->ranges + place.at + 1,
                (chunk->n - place.at - 1) * sizeof(*chunk->ranges));
        if (place.at < --chunk->n)
                return place;
        if (chunk->n)
                return (Place){ place.chunk + 1, 0 };
        free(chunk);
        index->n_chunks--;
        memmove(index->chunks + place.chunk, index->chunks + place.chunk + 1,
                (index->n_chunks - place.chunk) * sizeof(*index->chunks));
        return (Place){ place.chunk, 0 };
}

/* ---- names ---- */

static int rename_range(CodeIndex *index, Intern *names, Range *range) {
        const InternItem *item = intern_get(&index->names, range->name);
        int r = intern_add(names, item->data, item->size, &range->name);

        return r < 0 ? error_fold(r) : 0;
}

/*
 * Keeps the names that ranges have. What is past loses them: it is forgotten. Without memory all is as it was
 * or empty.
 */
static int look_through_names(CodeIndex *index) {
        Intern names;
        int r = 0;

        intern_init(&names, UINT32_MAX - 1);
        for (uint32_t i = 0; i < index->n_chunks && !r; i++)
                for (uint32_t j = 0; j < index->chunks[i]->n && !r; j++)
                        r = rename_range(index, &names, &index->chunks[i]->ranges[j]);
        if (r) {
                intern_deinit(&names);
                return error_fold(r);   /* fatal: this index is not read again */
        }
        intern_deinit(&index->names);
        index->names = names;
        index->n_gone = 0;
        index->n_past = 0;
        return 0;
}

/* ---- dropping ---- */

/* Additions since this one; right across a wrap of the number. */
static uint32_t age_of(const CodeIndex *index, const Range *range) {
        return index->turn - range->turn;
}

static int compare_ages(const void *left, const void *right) {
        uint32_t a = *(const uint32_t *)left, b = *(const uint32_t *)right;

        return a < b ? 1 : a > b ? -1 : 0;
}

/* *agep: the age that only the oldest @n ranges reach. Return: 0, -ENOMEM. */
static int find_age(const CodeIndex *index, uint32_t n, uint32_t *agep) {
        _cleanup_(freep) uint32_t *ages = malloc(index->n_ranges * sizeof(*ages));
        uint32_t n_ages = 0;

        if (!ages)
                return error_origin(-ENOMEM);
        for (uint32_t i = 0; i < index->n_chunks; i++)
                for (uint32_t j = 0; j < index->chunks[i]->n; j++)
                        ages[n_ages++] = age_of(index, &index->chunks[i]->ranges[j]);
        qsort(ages, n_ages, sizeof(*ages), compare_ages);
        *agep = ages[n - 1];
        return 0;
}

static void drop_from_chunk(CodeIndex *index, Chunk *chunk, uint32_t age) {
        uint32_t n = 0;

        for (uint32_t i = 0; i < chunk->n; i++)
                if (age_of(index, &chunk->ranges[i]) < age)
                        chunk->ranges[n++] = chunk->ranges[i];
        index->n_ranges -= chunk->n - n;
        index->n_gone += chunk->n - n;
        index->n_dropped += chunk->n - n;
        chunk->n = n;
}

/* Moves what is left of a chunk into the one before it, if it fits, and frees it. Return: whether it did. */
static bool join(Chunk *before, Chunk *chunk) {
        if (chunk->n && (!before || before->n + chunk->n > CHUNK_RANGES))
                return false;
        if (chunk->n)
                memcpy(before->ranges + before->n, chunk->ranges, chunk->n * sizeof(*chunk->ranges));
        if (before)
                before->n += chunk->n;
        free(chunk);
        return true;
}

/* Drops the oldest ranges: an eighth, two at least, since an addition may need two. Return: 0, -ENOMEM. */
static int drop_oldest(CodeIndex *index) {
        uint32_t n = MIN(MAX(index->n_ranges / DROP_PART, 2u), index->n_ranges), n_chunks = 0, age = 0;
        int r = n ? find_age(index, n, &age) : 0;

        if (r || !n)
                return r;
        for (uint32_t i = 0; i < index->n_chunks; i++) {
                Chunk *chunk = index->chunks[i];

                drop_from_chunk(index, chunk, age);
                if (!join(n_chunks ? index->chunks[n_chunks - 1] : NULL, chunk))
                        index->chunks[n_chunks++] = chunk;
        }
        index->n_chunks = n_chunks;
        return 0;
}

static bool has_room_for(const CodeIndex *index, const CodeRange *range) {
        return index->names.arena.total + range->name_size <= index->limits.max_name_bytes;
}

/*
 * Looking through names takes long: first only where it may yield something, then once the oldest ranges have
 * gone. Return: 0, CODE_INDEX_E_FULL = the name alone is too long, -ENOMEM.
 */
static int make_room_for_name(CodeIndex *index, const CodeRange *range) {
        int r;

        if (range->name_size > index->limits.max_name_bytes)
                return CODE_INDEX_E_FULL;
        r = index->n_gone > index->n_ranges / 4 ? look_through_names(index) : 0;
        while (!r && !has_room_for(index, range) && index->n_ranges) {
                r = drop_oldest(index);
                if (!r)
                        r = look_through_names(index);
        }
        if (r)
                return error_fold(r);
        return has_room_for(index, range) ? 0 : CODE_INDEX_E_FULL;
}

static int add_name(CodeIndex *index, const CodeRange *range, uint32_t *namep) {
        int r;

        if (!intern_find(&index->names, range->name, range->name_size, namep))
                return 0;
        if (!has_room_for(index, range)) {
                r = make_room_for_name(index, range);
                if (r)
                        return r;
        }
        r = intern_add(&index->names, range->name, range->name_size, namep);
        return r < 0 ? error_fold(r) : 0;
}

/* ---- adding ---- */

/* Keeps a range that was overwritten; without memory it is dropped. */
static void keep_past(CodeIndex *index, const Range *range, uint64_t until_ns) {
        if (!until_ns || !range->from_ns)
                return;
        if (!index->history)
                index->history = calloc(MAX_PAST, sizeof(*index->history));
        if (index->history)
                index->history[index->n_past++ % MAX_PAST] = (PastRange){ *range, until_ns };
}

/*
 * Takes [@new->start, @new->end) from all that lie there. *placep: where @new belongs then. Return: 0,
 * -ENOMEM.
 */
static int clear(CodeIndex *index, const Range *new, Place *placep) {
        Place place = find_place(index, new->start);
        Range *old;

        while ((old = range_at(index, place)) && old->start < new->end) {
                keep_past(index, old, new->from_ns);
                if (old->start >= new->start && old->end <= new->end) {
                        place = erase(index, place);
                } else if (old->start >= new->start) {
                        old->start = new->end;
                } else {
                        Range rest = *old;

                        old->end = new->start;
                        place = next_place(index, place);
                        if (rest.end > new->end) {
                                int r;

                                rest.start = new->end;
                                r = insert(index, place, &rest);
                                if (r)
                                        return error_fold(r);
                                break;
                        }
                }
        }
        *placep = find_place(index, new->start);
        return 0;
}

int code_index_add(CodeIndex *index, const CodeRange *range) {
        Range new = { .start = range->start, .end = range->start + range->size, .from_ns = range->time_ns };
        Range *old;
        Place place;
        int r;

        r = add_name(index, range, &new.name);
        if (r)
                return r;
        new.turn = index->turn++;
        old = range_at(index, find_place(index, new.start));
        if (old && old->start == new.start && old->end == new.end && old->name == new.name) {
                old->turn = new.turn;
                return 0;               /* a file that is read again */
        }
        /* a range in the middle of another makes two more */
        if (index->n_ranges + 2 > index->limits.max_ranges) {
                r = drop_oldest(index);
                if (r)
                        return error_fold(r);
        }
        r = clear(index, &new, &place);
        return r ? error_fold(r) : insert(index, place, &new);
}

uint64_t code_index_n_dropped(const CodeIndex *index) {
        return index->n_dropped;
}

/* ---- finding ---- */

static const Range *find_past(const CodeIndex *index, uint64_t address, uint64_t time_ns) {
        uint64_t n = MIN(index->n_past, (uint64_t)MAX_PAST);

        for (uint64_t i = 1; i <= n; i++) {
                const PastRange *history = &index->history[(index->n_past - i) % MAX_PAST];

                if (address >= history->range.start && address < history->range.end &&
                    time_ns >= history->range.from_ns && time_ns < history->until_ns)
                        return &history->range;
        }
        return NULL;
}

const char *code_index_find(const CodeIndex *index, uint64_t address, uint64_t time_ns, size_t *sizep,
                            uint64_t *startp, bool *is_pastp) {
        const Range *range = range_at(index, find_place(index, address)), *history = NULL;
        const InternItem *item;

        if (range && range->start > address)
                range = NULL;
        if (!range || range->from_ns > time_ns)
                history = find_past(index, address, time_ns);
        range = history ? history : range;
        if (!range)
                return NULL;
        item = intern_get(&index->names, range->name);
        *sizep = item->size;
        *startp = range->start;
        *is_pastp = history;
        return item->data;
}

size_t code_index_memory(const CodeIndex *index) {
        return sizeof(*index) + index->n_chunks * sizeof(Chunk) +
                index->chunks_size * sizeof(*index->chunks) +
                (index->history ? MAX_PAST * sizeof(*index->history) : 0) + index->names.arena.total +
                index->names.items_size * sizeof(InternItem) + index->names.n_slots * sizeof(uint32_t);
}

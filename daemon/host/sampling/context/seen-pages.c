/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Two bits a page, in blocks of 512 pages, which is 2 MiB of memory:
 *
 *     settled    it is not read again
 *     empty      it began with zeros when it was read: settled if it does so once more, a second later
 *
 *     page absent ─▶ read: other bytes ─▶ settled
 *          ▲         read: zeros ─▶ empty ─▶ read: settled, whatever it has but a context
 *          └── absent again ──┘
 *
 * 1 GiB of memory takes 68 KiB. All processes share room for 64 GiB.
 */
#include "host/sampling/context/seen-pages.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/util/array.h"
#include "core/base/util/macro.h"

enum {
        BLOCK_PAGES = 512,
        WORDS = BLOCK_PAGES / 64,
        /* blocks of all processes, 136 bytes each; over it pages are read again each time: no counter */
        MAX_BLOCKS = 32768,
};

struct SeenBlock {
        uint64_t number;                /* number of the first page, divided by BLOCK_PAGES */
        uint64_t settled[WORDS], empty[WORDS];
};

/* The thread of a job frees a set that was given up in the middle of it. */
static atomic_size_t n_blocks;

void seen_pages_deinit(SeenPages *seen) {
        n_blocks -= seen->n;
        free(seen->blocks);
        *seen = (SeenPages){ 0 };
}

/* Index of the first block from @number on. Searches go upwards, so it is mostly the last one or the next. */
static size_t find(SeenPages *seen, uint64_t number) {
        size_t low = 0, high = seen->n;

        for (size_t i = seen->at; i < seen->n && i < seen->at + 2; i++)
                if (seen->blocks[i].number >= number && (!i || seen->blocks[i - 1].number < number))
                        return seen->at = i;
        while (low < high) {
                size_t middle = low + (high - low) / 2;

                if (seen->blocks[middle].number < number)
                        low = middle + 1;
                else
                        high = middle;
        }
        return seen->at = low;
}

static SeenBlock *get(SeenPages *seen, uint64_t number) {
        size_t i = find(seen, number);

        return i < seen->n && seen->blocks[i].number == number ? &seen->blocks[i] : NULL;
}

static int add_block(SeenPages *seen, uint64_t number, SeenBlock **blockp) {
        size_t i = find(seen, number);
        SeenBlock *blocks;
        int r;

        *blockp = NULL;
        if (n_blocks >= MAX_BLOCKS)
                return 0;
        r = array_reserve(&seen->blocks, &seen->room, seen->n + 1, 8);
        if (r)
                return r;
        blocks = seen->blocks;
        memmove(&blocks[i + 1], &blocks[i], (seen->n - i) * sizeof(*blocks));
        blocks[i] = (SeenBlock){ .number = number };
        seen->n++;
        n_blocks++;
        *blockp = &blocks[i];
        return 0;
}

uint64_t seen_pages_next(SeenPages *seen, uint64_t page, uint64_t end) {
        while (page < end) {
                const SeenBlock *block = get(seen, page / BLOCK_PAGES);
                uint64_t rest;

                if (!block)
                        return page;
                rest = ~block->settled[page % BLOCK_PAGES / 64] >> page % 64;
                if (rest)
                        return MIN(page + (uint64_t)__builtin_ctzll(rest), end);
                page += 64 - page % 64;
        }
        return end;
}

int seen_pages_add(SeenPages *seen, uint64_t page, bool is_empty) {
        SeenBlock *block = get(seen, page / BLOCK_PAGES);
        uint64_t bit = UINT64_C(1) << page % 64;
        size_t word = page % BLOCK_PAGES / 64;
        int r = block ? 0 : add_block(seen, page / BLOCK_PAGES, &block);

        if (r || !block)
                return r;
        if (is_empty && !(block->empty[word] & bit))
                block->empty[word] |= bit;
        else
                block->settled[word] |= bit;
        return 0;
}

static bool is_seen(const SeenBlock *block, uint64_t page) {
        size_t word = page % BLOCK_PAGES / 64;

        return (block->settled[word] | block->empty[word]) >> page % 64 & 1;
}

static void clear(SeenBlock *block, uint64_t page, uint64_t end) {
        for (; page < end; page += 64 - page % 64) {
                uint64_t mask = ~UINT64_C(0) << page % 64;
                size_t word = page % BLOCK_PAGES / 64;

                if (end / 64 == page / 64)
                        mask &= (UINT64_C(1) << end % 64) - 1;
                block->settled[word] &= ~mask;
                block->empty[word] &= ~mask;
        }
}

bool seen_pages_forget(SeenPages *seen, uint64_t page, uint64_t end) {
        size_t first = find(seen, page / BLOCK_PAGES), i = first, n_kept = first;
        bool was_seen = i < seen->n && seen->blocks[i].number == page / BLOCK_PAGES &&
                is_seen(&seen->blocks[i], page);

        for (; i < seen->n && seen->blocks[i].number * BLOCK_PAGES < end; i++) {
                uint64_t from = seen->blocks[i].number * BLOCK_PAGES, to = from + BLOCK_PAGES;

                if (page <= from && to <= end)
                        continue;       /* all of it */
                clear(&seen->blocks[i], MAX(page, from), MIN(end, to));
                seen->blocks[n_kept++] = seen->blocks[i];
        }
        if (n_kept == i)
                return was_seen;
        memmove(&seen->blocks[n_kept], &seen->blocks[i], (seen->n - i) * sizeof(*seen->blocks));
        n_blocks -= i - n_kept;
        seen->n -= i - n_kept;
        return was_seen;
}

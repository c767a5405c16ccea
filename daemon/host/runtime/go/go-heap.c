/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Go samples one allocation in 512 KiB, and counts it in a bucket: one for each size and stack. Buckets are
 * never freed nor moved, and a new one goes to the head of a list:
 *
 *     mbuckets ─▶ { …, allnext, type 1, …, size, n, stack of n words, record } ─▶ older ─▶ … ─▶ 0
 *
 *     record    active, future 0, 1, 2: each { allocs, frees, their bytes } up to Go 1.26,
 *                                       each { allocs, frees } from 1.27 on
 *
 * What is published is `active`. Counts go to `future` first, and a collection moves one of the three to
 * `active`, bucket by bucket, so that all published counts are of the end of one collection. A look must not
 * see the middle of that. mProfCycle has the number of the cycle C and a flag that says "moved"; but the flag
 * is set before the move begins, and runtime.GC() moves once more without any change of the number. So:
 *
 *     C, lock ─▶ all buckets ─▶ C, lock ─▶ all buckets again ─▶ C, lock
 *
 *     C is the same, its flag is set, the lock is free before, between and after, no bucket has anything left
 *     in future C modulo 3, and `active` is the same in both reads: it is of one moment
 *
 * Who moves has the lock all the time. So a move that both reads see a part of, for its thread was taken from
 * the CPU, has the lock between them. And of two moves, one in each read, the same counts mean that the first
 * read saw all of one, and the second nothing of the other: counts only grow.
 *
 * Else the look is one in the midst, and the caller comes again. Until something is published, Go's own
 * profile adds up all four parts. The same is done here, and said: those are counts that go on meanwhile.
 *
 * Go takes memory of buckets from the kernel, zeroed, and never gives it back. So the end of a new record may
 * lie in a page that nobody has touched: it is not there, and its counts are 0.
 *
 * A list that leads back into itself is found by a marker that is left behind: at 1, 2, 4, 8 … buckets.
 */
#include "host/runtime/go/go-heap.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/util/array.h"
#include "core/base/util/error.h"
#include "core/base/util/macro.h"

enum {
        BLOCK = 64 << 10,               /* bytes that are read at once: buckets lie side by side */
        /* each P of Go has a chunk of 256 KiB, and the list jumps between them: 64 side by side fit */
        N_BLOCKS = 256,
        PAGE = 4096,
        N_PAGES = BLOCK / PAGE,
        /* a bucket */
        ALL_NEXT = 8,
        TYPE = 16,
        SIZE = 32,
        N_STACK = 40,
        STACK = 48,
        TYPE_MEMORY = 1,
        N_PARTS = 4,                    /* parts of a record: active, then three futures */
        N_FUTURES = 3,
        LAST_WITH_BYTES = 26,           /* minor version */
};

#define MAX_ADDRESS (UINT64_C(1) << 47)
#define MAX_OBJECTS (UINT64_C(1) << 48) /* counts and sizes of objects: their product must fit, too */

typedef struct Block {
        uint64_t address;
        uint32_t there;                 /* bits of its pages that could be read; 0 = not asked for yet */
        bool is_known;
        uint8_t bytes[BLOCK];
} Block;

struct GoHeapCache {
        Block blocks[N_BLOCKS];
};

/* A part of a record. */
typedef struct Counts {
        uint64_t allocs, frees;
} Counts;

/* ---- memory ---- */

static void forget(GoHeap *heap) {
        for (size_t i = 0; i < N_BLOCKS; i++)
                heap->cache->blocks[i].is_known = false;
}

static Block *find_block(GoHeap *heap, uint64_t address) {
        const GoMemory *memory = heap->memory;
        Block *block = &heap->cache->blocks[address / BLOCK % N_BLOCKS];

        if (block->is_known && block->address == address)
                return block;
        block->address = address;
        block->is_known = true;
        block->there = UINT32_MAX;
        if (!memory->read(memory->userdata, address, block->bytes, BLOCK))
                return block;
        block->there = 0;
        for (uint32_t i = 0; i < N_PAGES; i++)
                if (!memory->read(memory->userdata, address + i * PAGE, block->bytes + i * PAGE, PAGE))
                        block->there |= 1u << i;
        return block;
}

/* @may_be_new: a page that is not there was never touched. Return: 0, GO_HEAP_E_UNREADABLE. */
static int read_piece(GoHeap *heap, uint64_t address, void *to, size_t size, bool may_be_new) {
        if (address >= MAX_ADDRESS || size > MAX_ADDRESS - address)
                return GO_HEAP_E_UNREADABLE;
        for (size_t done = 0, n; done < size; done += n) {
                uint64_t at = (address + done) % BLOCK;
                const Block *block = find_block(heap, address + done - at);

                n = MIN(size - done, (size_t)(PAGE - at % PAGE));
                if (block->there >> at / PAGE & 1)
                        memcpy((uint8_t *)to + done, block->bytes + at, n);
                else if (may_be_new)
                        memset((uint8_t *)to + done, 0, n);
                else
                        return GO_HEAP_E_UNREADABLE;
        }
        return 0;
}

static int read_bytes(GoHeap *heap, uint64_t address, void *to, size_t size) {
        return read_piece(heap, address, to, size, false);
}

/* A variable, as it is now. */
static int read_now(const GoHeap *heap, uint64_t address, void *to, uint32_t size) {
        return heap->memory->read(heap->memory->userdata, address, to, size) ? GO_HEAP_E_UNREADABLE : 0;
}

/* ---- variables ---- */

typedef struct Clock {
        uint32_t cycle;
        bool is_moved;                  /* the flag */
        uint64_t lock;
        uint32_t word;                  /* both as they are in memory, to compare */
        uint8_t flag;
} Clock;

static int read_clock(const GoHeap *heap, Clock *clock) {
        const GoHeapPlaces *places = &heap->places;
        uint8_t bytes[5] = { 0 };
        int r = read_now(heap, places->cycle, bytes, places->is_split ? 5 : 4);

        *clock = (Clock){ .flag = bytes[4] };
        memcpy(&clock->word, bytes, sizeof(clock->word));
        clock->cycle = places->is_split ? clock->word : clock->word >> 1;
        clock->is_moved = places->is_split ? bytes[4] : clock->word & 1;
        return r ? r : read_now(heap, places->lock, &clock->lock, sizeof(clock->lock));
}

static bool is_still(const Clock *before, const Clock *after) {
        return before->word == after->word && before->flag == after->flag && !before->lock && !after->lock;
}

/* ---- the list ---- */

static int read_stack(GoHeap *heap, GoHeapBucket *bucket) {
        int r;

        if (bucket->n_stack > GO_HEAP_MAX_WORDS - heap->n_words)
                return GO_HEAP_E_MANY;
        r = array_reserve(&heap->words, &heap->words_room, heap->n_words + (size_t)bucket->n_stack, 1024);
        if (r)
                return error_fold(r);
        bucket->stack = heap->n_words;
        r = read_bytes(heap, bucket->address + STACK, heap->words + heap->n_words,
                       bucket->n_stack * sizeof(*heap->words));
        if (!r)
                heap->n_words += bucket->n_stack;
        return r;
}

/* Reads the bucket at @address. *nextp: the one that is older. */
static int add_bucket(GoHeap *heap, uint64_t address, uint64_t *nextp) {
        GoHeapBucket bucket = { .address = address };
        uint64_t words[STACK / 8];
        int r;

        if (heap->n_buckets >= GO_HEAP_MAX_BUCKETS)
                return GO_HEAP_E_MANY;
        if (address % 8)
                return GO_HEAP_E_DAMAGED;
        r = read_bytes(heap, address, words, sizeof(words));
        if (r)
                return r;
        if (words[TYPE / 8] != TYPE_MEMORY || words[N_STACK / 8] > GO_HEAP_MAX_DEPTH || !words[SIZE / 8] ||
            words[SIZE / 8] > MAX_OBJECTS)
                return GO_HEAP_E_DAMAGED;
        bucket.size = words[SIZE / 8];
        bucket.n_stack = (uint32_t)words[N_STACK / 8];
        r = array_reserve(&heap->buckets, &heap->buckets_room, heap->n_buckets + 1u, 256);
        if (!r)
                r = read_stack(heap, &bucket);
        if (r)
                return r < 0 ? error_fold(r) : r;
        heap->buckets[heap->n_buckets++] = bucket;
        *nextp = words[ALL_NEXT / 8];
        return 0;
}

/* Adds buckets from @head on until the newest one of the look before. */
static int add_buckets(GoHeap *heap, uint64_t head) {
        uint64_t marker = 0;
        uint32_t n = 0, step = 1;

        for (uint64_t address = head; address != heap->head;) {
                int r;

                if (!address || address == marker)
                        return GO_HEAP_E_DAMAGED;
                if (++n == step) {
                        marker = address;
                        step *= 2;
                }
                r = add_bucket(heap, address, &address);
                if (r)
                        return r;
        }
        return 0;
}

/* All that is new, or nothing. */
static int follow_list(GoHeap *heap) {
        uint32_t n_buckets = heap->n_buckets, n_words = heap->n_words;
        uint64_t head;
        int r = read_now(heap, heap->places.buckets, &head, sizeof(head));

        if (!r)
                r = add_buckets(heap, head);
        if (r) {
                heap->n_buckets = n_buckets;
                heap->n_words = n_words;
                return r < 0 ? error_fold(r) : r;
        }
        heap->head = head;
        return 0;
}

/* ---- records ---- */

/* Bytes are counts times the size in each part that is published; what differs is another record. */
static bool has_its_bytes(const GoHeapBucket *bucket, const uint64_t *words) {
        return words[2] == words[0] * bucket->size && words[3] == words[1] * bucket->size;
}

static int read_record(GoHeap *heap, const GoHeapBucket *bucket, Counts parts[N_PARTS]) {
        size_t n = heap->has_bytes ? 4 : 2;
        uint64_t words[4 * N_PARTS];
        int r = read_piece(heap, bucket->address + STACK + UINT64_C(8) * bucket->n_stack, words,
                           n * N_PARTS * sizeof(*words), true);

        if (r)
                return r;
        for (size_t i = 0; i < N_PARTS; i++)
                parts[i] = (Counts){ words[i * n], words[i * n + 1] };
        /* futures may be counted in just now, so what is published alone is held against its bytes */
        return heap->has_bytes && !has_its_bytes(bucket, words) ? GO_HEAP_E_DAMAGED : 0;
}

static bool is_nothing(const Counts *counts) {
        return !counts->allocs && !counts->frees;
}

/* Facts of all buckets together. */
typedef struct Pass {
        bool has_active;                /* something is published */
        bool has_left;                  /* something of the cycle was not moved */
        bool is_other;                  /* second pass: what is published has changed */
        bool is_odd;                    /* a record is none, or was being written */
} Pass;

/* Counts of the first pass are those that are published. @index: of the cycle's part. */
static int pass_once(GoHeap *heap, unsigned index, bool is_second, Pass *pass) {
        *pass = (Pass){ 0 };
        if (is_second)                  /* the first one may have what the list was followed by */
                forget(heap);
        for (uint32_t i = 0; i < heap->n_buckets; i++) {
                GoHeapBucket *bucket = &heap->buckets[i];
                Counts parts[N_PARTS];
                int r = read_record(heap, bucket, parts);

                if (r && r != GO_HEAP_E_DAMAGED)
                        return r;
                pass->is_odd |= r == GO_HEAP_E_DAMAGED;
                if (r)
                        continue;
                pass->has_active |= !is_nothing(&parts[0]);
                pass->has_left |= !is_nothing(&parts[1 + index]);
                if (is_second)
                        pass->is_other |= bucket->allocs != parts[0].allocs ||
                                bucket->frees != parts[0].frees;
                bucket->allocs = parts[0].allocs;
                bucket->frees = parts[0].frees;
        }
        return 0;
}

/* Nothing is published: counts are the sums of all parts. */
static int add_up(GoHeap *heap) {
        for (uint32_t i = 0; i < heap->n_buckets; i++) {
                GoHeapBucket *bucket = &heap->buckets[i];
                Counts parts[N_PARTS];
                int r = read_record(heap, bucket, parts);

                if (r)
                        return r == GO_HEAP_E_DAMAGED ? GO_HEAP_E_MOVING : r;
                if (!is_nothing(&parts[0]))
                        return GO_HEAP_E_MOVING;
                bucket->allocs = parts[1].allocs + parts[2].allocs + parts[3].allocs;
                bucket->frees = parts[1].frees + parts[2].frees + parts[3].frees;
        }
        return 0;
}

/* Whether no count is larger than can be, and more was allocated than freed. */
static bool are_counts(const GoHeap *heap) {
        for (uint32_t i = 0; i < heap->n_buckets; i++) {
                const GoHeapBucket *bucket = &heap->buckets[i];
                uint64_t bytes;

                if (bucket->frees > bucket->allocs || bucket->allocs > MAX_OBJECTS ||
                    __builtin_mul_overflow(bucket->allocs, bucket->size, &bytes) || bytes > GO_HEAP_MAX_BYTES)
                        return false;
        }
        return true;
}

/* Return: 0, GO_HEAP_E_*. */
static int read_counts(GoHeap *heap, const Clock *before, GoHeapLook *look) {
        unsigned index = before->cycle % N_FUTURES;
        Pass first, second;
        Clock between, after;
        int r = pass_once(heap, index, false, &first);

        if (!r)
                r = read_clock(heap, &between);
        if (!r)
                r = pass_once(heap, index, true, &second);
        look->is_early = !r && !first.has_active && !second.has_active && !first.is_odd && !second.is_odd;
        if (look->is_early)
                r = add_up(heap);
        if (!r)
                r = read_clock(heap, &after);
        if (r)
                return r;
        if (!is_still(before, &between) || !is_still(before, &after) || second.is_other ||
            first.is_odd != second.is_odd)
                return GO_HEAP_E_MOVING;
        /* nothing writes what is published now */
        if (second.is_odd)
                return GO_HEAP_E_DAMAGED;
        /* cycle 0 is never moved, since it has nothing */
        if (!look->is_early && (first.has_left || second.has_left || (before->cycle && !before->is_moved)))
                return GO_HEAP_E_MOVING;
        if (are_counts(heap))
                return 0;
        return look->is_early ? GO_HEAP_E_MOVING : GO_HEAP_E_DAMAGED;
}

/* ---- the whole ---- */

int go_heap_init(GoHeap *heap, const GoHeapPlaces *places, uint32_t minor, const GoMemory *memory) {
        *heap = (GoHeap){ .places = *places, .has_bytes = minor <= LAST_WITH_BYTES, .memory = memory };
        heap->cache = malloc(sizeof(*heap->cache));
        if (!heap->cache)
                return error_origin(-ENOMEM);
        forget(heap);
        return 0;
}

void go_heap_deinit(GoHeap *heap) {
        free(heap->cache);
        free(heap->buckets);
        free(heap->words);
        *heap = (GoHeap){ 0 };
}

int go_heap_look(GoHeap *heap, GoHeapLook *look) {
        Clock before;
        int r;

        *look = (GoHeapLook){ 0 };
        r = read_now(heap, heap->places.rate, &look->rate, sizeof(look->rate));
        if (!r && look->rate <= 0)
                return GO_HEAP_E_OFF;
        if (!r)
                r = read_clock(heap, &before);
        if (r)
                return r;
        if (before.lock)
                return GO_HEAP_E_MOVING;
        look->cycle = before.cycle;
        forget(heap);
        r = follow_list(heap);
        if (!r)
                r = read_counts(heap, &before, look);
        return r < 0 ? error_fold(r) : r;
}

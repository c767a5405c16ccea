/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Heap profiles of programs made by hand, as the runtime of Go 1.18, 1.26 and 1.27 lays them out: which look
 * counts, what is refused. Real ones: tests/integration/host/runtime/test-go-heap.py.
 */

#include <criterion/criterion.h>
#include <string.h>

#include "host/runtime/go/go-heap.h"

enum {
        MEMORY = 0x10000000,
        SIZE = 0x40000,
        CYCLE = 0x100,
        LOCK = 0x108,
        HEAD = 0x110,
        RATE = 0x118,
        FIRST = 0x11000,                /* buckets, each with some room */
        ROOM = 0x200,
        N = 5,
        DEPTH = 3,
};

static uint8_t memory[SIZE];
static unsigned n_reads, change_read;   /* at this read, … */
static size_t change_at;                /* … the byte there becomes another one, … */
static unsigned back_read;              /* … and at this one what it was; 0 = never */
static bool is_endless;                 /* behind the memory there is one bucket after the other */
static GoHeap heap;
static GoHeapLook seen;

static void put(size_t at, uint64_t value) {
        memcpy(memory + at, &value, sizeof(value));
}

/* A bucket each 128 bytes. */
static void make_endless(uint64_t address, uint8_t *to, uint32_t size) {
        for (uint32_t i = 0; i < size; i++) {
                uint64_t at = address + i, bucket = at & ~UINT64_C(127), word = 0;

                switch (at % 128 / 8) {
                case 1:
                        word = bucket + 128;
                        break;
                case 2:
                        word = 1;
                        break;
                case 4:
                        word = 64;
                        break;
                default:
                        break;
                }
                to[i] = (uint8_t)(word >> at % 8 * 8);
        }
}

static int read_memory(void *userdata, uint64_t address, void *to, uint32_t size) {
        uint64_t at = address - MEMORY;

        n_reads++;
        if (n_reads == change_read || n_reads == back_read)
                memory[change_at] ^= 1;
        if (is_endless && at >= SIZE) {
                make_endless(address, to, size);
                return 0;
        }
        if (at >= SIZE || size > SIZE - at)
                return 1;
        memcpy(to, memory + at, size);
        return 0;
}

static const GoMemory reader = { .read = read_memory };

static const GoHeapPlaces places = { .cycle = MEMORY + CYCLE, .lock = MEMORY + LOCK, .buckets = MEMORY + HEAD,
                                     .rate = MEMORY + RATE };

static size_t bucket_at(unsigned i) {
        return FIRST + i * (size_t)ROOM;
}

static uint64_t size_of(unsigned i) {
        return 16 * (i + UINT64_C(1));
}

/* @part: 0 = active, 1 … 3 = future. */
static void set_counts(unsigned i, unsigned part, uint64_t allocs, uint64_t frees, bool with_bytes) {
        size_t at = bucket_at(i) + 48 + 8 * DEPTH + part * (size_t)(with_bytes ? 32 : 16);

        put(at, allocs);
        put(at + 8, frees);
        if (!with_bytes)
                return;
        put(at + 16, allocs * size_of(i));
        put(at + 24, frees * size_of(i));
}

static void put_bucket(unsigned i, uint64_t older) {
        size_t at = bucket_at(i);

        put(at + 8, older);
        put(at + 16, 1);
        put(at + 32, size_of(i));
        put(at + 40, DEPTH);
        for (unsigned k = 0; k < DEPTH; k++)
                put(at + 48 + 8 * k, 0x401000 + 0x100 * i + k);
}

/* Cycle 7, which was moved: its part is the second one. */
static void make(bool with_bytes) {
        memset(memory, 0, sizeof(memory));
        n_reads = change_read = back_read = 0;
        is_endless = false;
        put(CYCLE, 7 << 1 | 1);
        put(HEAD, MEMORY + bucket_at(N - 1));
        put(RATE, 512 << 10);
        for (unsigned i = 0; i < N; i++) {
                put_bucket(i, i ? MEMORY + bucket_at(i - 1) : 0);
                set_counts(i, 0, 10 + i, i, with_bytes);
                set_counts(i, 1, 100, 0, with_bytes);
                set_counts(i, 3, 1000, 1, with_bytes);
        }
}

static void begin(uint32_t minor) {
        cr_assert_eq(go_heap_init(&heap, &places, minor, &reader), 0);
}

static void begin_anew(void) {
        go_heap_deinit(&heap);
        make(false);
        begin(27);
}

static void setup(void) {
        make(true);
        begin(26);
}

static void teardown(void) {
        go_heap_deinit(&heap);
}

static int look(void) {
        n_reads = 0;
        return go_heap_look(&heap, &seen);
}

static void check_counts(void) {
        cr_assert_eq(heap.n_buckets, N);
        for (unsigned i = 0; i < N; i++) {
                const GoHeapBucket *bucket = &heap.buckets[i];
                unsigned which = N - 1 - i;     /* the newest first */

                cr_assert_eq(bucket->size, size_of(which));
                cr_assert_eq(bucket->allocs, 10 + which);
                cr_assert_eq(bucket->frees, which);
                cr_assert_eq(bucket->n_stack, DEPTH);
                cr_assert_eq(heap.words[bucket->stack + 2], 0x401000 + 0x100 * which + 2);
        }
}

TestSuite(go_heap, .init = setup, .fini = teardown);

Test(go_heap, what_is_published_counts) {
        cr_assert_eq(look(), 0);
        check_counts();
        cr_assert_eq(seen.cycle, 7);
        cr_assert_eq(seen.rate, 512 << 10);
        cr_assert_not(seen.is_early);
}

Test(go_heap, records_of_127_have_no_bytes) {
        begin_anew();
        cr_assert_eq(look(), 0);
        check_counts();
}

Test(go_heap, a_record_of_127_is_none_of_126) {
        make(false);
        cr_assert_eq(look(), GO_HEAP_E_DAMAGED);
}

Test(go_heap, cycle_and_flag_of_118_are_two_fields) {
        GoHeapPlaces split = places;

        split.is_split = true;
        go_heap_deinit(&heap);
        cr_assert_eq(go_heap_init(&heap, &split, 18, &reader), 0);
        put(CYCLE, 7 | UINT64_C(1) << 32);
        cr_assert_eq(look(), 0);
        cr_assert_eq(seen.cycle, 7);
        put(CYCLE, 7);
        cr_assert_eq(look(), GO_HEAP_E_MOVING);
}

Test(go_heap, a_flag_that_is_not_set_waits) {
        put(CYCLE, 7 << 1);
        cr_assert_eq(look(), GO_HEAP_E_MOVING);
        put(CYCLE, 7 << 1 | 1);
        cr_assert_eq(look(), 0);
}

Test(go_heap, a_lock_that_is_taken_waits) {
        put(LOCK, 1);
        cr_assert_eq(look(), GO_HEAP_E_MOVING);
}

Test(go_heap, one_bucket_that_was_not_moved_waits) {
        set_counts(2, 2, 1, 0, true);
        cr_assert_eq(look(), GO_HEAP_E_MOVING);
        set_counts(2, 2, 0, 0, true);
        cr_assert_eq(look(), 0);
}

/* Whatever changes at whatever read: a look that counts is of before or of after. */
static void check_changes(size_t at, bool of_counts, unsigned refused) {
        unsigned n_all, n_refused = 0;

        begin_anew();
        cr_assert_eq(look(), 0);
        n_all = n_reads;
        for (unsigned i = 1; i <= n_all; i++) {
                int r;

                begin_anew();
                change_at = at;
                change_read = i;
                r = look();
                cr_assert(r == 0 || r == GO_HEAP_E_MOVING, "%d at read %u", r, i);
                n_refused += r != 0;
                if (!r && of_counts)
                        cr_assert(heap.buckets[N - 1].allocs == 10 || heap.buckets[N - 1].allocs == 11);
        }
        cr_assert_eq(n_refused, refused);
        cr_assert_eq(n_all, 10);
}

/* Reads are: rate, cycle, lock, head, buckets, cycle, lock, buckets again, cycle, lock. */
Test(go_heap, changes_during_a_look) {
        check_changes(CYCLE + 1, false, 9);
        check_changes(LOCK, false, 10);
        check_changes(bucket_at(0) + 48 + 8 * DEPTH, true, 3);  /* what is published */
        check_changes(bucket_at(0) + 48 + 8 * (DEPTH + 4), false, 8);   /* what was moved */
}

/* Taken before the buckets are read, and given back behind their second read. */
Test(go_heap, a_lock_that_is_held_in_the_middle_alone_waits) {
        change_at = LOCK;
        change_read = 5;
        back_read = 9;
        cr_assert_eq(look(), GO_HEAP_E_MOVING);
        cr_assert_eq(n_reads, 10);
        change_read = back_read = 0;
        cr_assert_eq(look(), 0);
}

Test(go_heap, before_anything_is_published_all_parts_are_added) {
        put(CYCLE, 0);
        for (unsigned i = 0; i < N; i++)
                set_counts(i, 0, 0, 0, true);
        set_counts(1, 2, 5, 5, true);
        cr_assert_eq(look(), 0);
        cr_assert(seen.is_early);
        for (unsigned i = 0; i < N; i++) {
                cr_assert_eq(heap.buckets[i].allocs, 1100 + (i == N - 2 ? 5 : 0));
                cr_assert_eq(heap.buckets[i].frees, 1 + (i == N - 2 ? 5 : 0));
        }
}

Test(go_heap, published_before_the_first_cycle) {
        put(CYCLE, 0);
        for (unsigned i = 0; i < N; i++)
                set_counts(i, 1, 0, 0, true);
        cr_assert_eq(look(), 0);
        cr_assert_not(seen.is_early);
        check_counts();
}

Test(go_heap, later_looks_add_what_is_new) {
        unsigned n_first;

        put(HEAD, MEMORY + bucket_at(N - 2));
        cr_assert_eq(look(), 0);
        cr_assert_eq(heap.n_buckets, N - 1);
        n_first = n_reads;
        put(HEAD, MEMORY + bucket_at(N - 1));
        set_counts(0, 0, 77, 7, true);
        cr_assert_eq(look(), 0);
        cr_assert_eq(heap.n_buckets, N);
        cr_assert_leq(n_reads, n_first);
        cr_assert_eq(heap.n_words, N * DEPTH);
        cr_assert_eq(heap.buckets[N - 2].allocs, 77);
        cr_assert_eq(heap.buckets[N - 1].size, size_of(N - 1));
        cr_assert_eq(heap.buckets[N - 1].allocs, 10 + N - 1);
}

Test(go_heap, a_list_that_loses_what_was_known) {
        cr_assert_eq(look(), 0);
        put(HEAD, MEMORY + bucket_at(1));
        put(bucket_at(1) + 8, 0);
        cr_assert_eq(look(), GO_HEAP_E_DAMAGED);
        cr_assert_eq(heap.n_buckets, N);
}

Test(go_heap, a_rate_of_0_is_off) {
        put(RATE, 0);
        cr_assert_eq(look(), GO_HEAP_E_OFF);
        put(RATE, (uint64_t)-1);
        cr_assert_eq(look(), GO_HEAP_E_OFF);
}

Test(go_heap, an_empty_list) {
        put(HEAD, 0);
        cr_assert_eq(look(), 0);
        cr_assert_eq(heap.n_buckets, 0);
        cr_assert(seen.is_early);
}

Test(go_heap, forged_lists) {
        put(bucket_at(0) + 8, MEMORY + bucket_at(3));   /* back into itself */
        cr_assert_eq(look(), GO_HEAP_E_DAMAGED);
        put(bucket_at(0) + 8, MEMORY + bucket_at(0));
        cr_assert_eq(look(), GO_HEAP_E_DAMAGED);
        put(bucket_at(0) + 8, MEMORY + SIZE + 64);      /* nothing there */
        cr_assert_eq(look(), GO_HEAP_E_UNREADABLE);
        put(bucket_at(0) + 8, MEMORY + SIZE - 16);      /* half of it */
        cr_assert_eq(look(), GO_HEAP_E_UNREADABLE);
        put(bucket_at(0) + 8, UINT64_MAX - 7);
        cr_assert_eq(look(), GO_HEAP_E_UNREADABLE);
        put(bucket_at(0) + 8, MEMORY + bucket_at(2) + 4);
        cr_assert_eq(look(), GO_HEAP_E_DAMAGED);
        put(bucket_at(0) + 8, 0);
        cr_assert_eq(look(), 0);
        check_counts();
}

Test(go_heap, forged_buckets) {
        put(bucket_at(2) + 16, 2);                      /* one of the block profile */
        cr_assert_eq(look(), GO_HEAP_E_DAMAGED);
        put(bucket_at(2) + 16, 1);
        put(bucket_at(2) + 40, GO_HEAP_MAX_DEPTH + 1);
        cr_assert_eq(look(), GO_HEAP_E_DAMAGED);
        put(bucket_at(2) + 40, UINT64_MAX);
        cr_assert_eq(look(), GO_HEAP_E_DAMAGED);
        put(bucket_at(2) + 40, DEPTH);
        put(bucket_at(2) + 32, 0);
        cr_assert_eq(look(), GO_HEAP_E_DAMAGED);
        put(bucket_at(2) + 32, size_of(2));
        cr_assert_eq(heap.n_buckets, 0);
        set_counts(2, 0, 3, 4, true);                   /* more freed than allocated */
        cr_assert_eq(look(), GO_HEAP_E_DAMAGED);
        set_counts(2, 0, UINT64_C(1) << 62, 4, true);
        cr_assert_eq(look(), GO_HEAP_E_DAMAGED);
        set_counts(2, 0, 12, 2, true);
        cr_assert_eq(look(), 0);
        check_counts();
}

/* Its record ends in a page that nobody has touched; the bytes of the memory end with what is published. */
Test(go_heap, a_record_that_is_partly_untouched) {
        size_t at = SIZE - 48 - 8 * DEPTH - 32;

        put(bucket_at(0) + 8, MEMORY + at);
        put(at + 16, 1);
        put(at + 32, 16);
        put(at + 40, DEPTH);
        put(SIZE - 32, 6);
        put(SIZE - 24, 2);
        put(SIZE - 16, 96);
        put(SIZE - 8, 32);
        cr_assert_eq(look(), 0);
        cr_assert_eq(heap.n_buckets, N + 1);
        cr_assert_eq(heap.buckets[N].allocs, 6);
        cr_assert_eq(heap.buckets[N].frees, 2);
}

/* What counts is what a profile may have, to the byte. */
Test(go_heap, bytes_that_no_bucket_can_have) {
        begin_anew();
        put(bucket_at(2) + 32, UINT64_C(1) << 14);
        set_counts(2, 0, (UINT64_C(1) << 48) - 1, 0, false);
        cr_assert_eq(look(), 0);
        set_counts(2, 0, UINT64_C(1) << 48, 0, false);  /* GO_HEAP_MAX_BYTES + 1 */
        cr_assert_eq(look(), GO_HEAP_E_DAMAGED);
}

Test(go_heap, a_list_without_end_is_cut) {
        is_endless = true;
        put(bucket_at(0) + 8, MEMORY + SIZE);
        cr_assert_eq(look(), GO_HEAP_E_MANY);
        cr_assert_leq(n_reads, 128 * GO_HEAP_MAX_BUCKETS / (64 << 10) + 16);
        cr_assert_eq(heap.n_buckets, 0);
}

Test(go_heap, variables_that_are_not_there) {
        GoHeapPlaces none = { .cycle = MEMORY + SIZE, .lock = 8, .buckets = MEMORY + HEAD,
                              .rate = MEMORY + RATE };

        go_heap_deinit(&heap);
        cr_assert_eq(go_heap_init(&heap, &none, 26, &reader), 0);
        cr_assert_eq(look(), GO_HEAP_E_UNREADABLE);
}

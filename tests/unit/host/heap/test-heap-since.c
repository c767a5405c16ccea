/* SPDX-License-Identifier: Apache-2.0 */

/* What stacks of Go's heaps have allocated since the look before, and how many are known. */

#include <criterion/criterion.h>
#include <stdlib.h>

#include "host/heap/heap-since.h"

static const ShareOwner owner = { .group = 1, .user = 1000, .process = 1 };

static Shares shares;
static Share *share;
static HeapSince since;

static void setup(void) {
        cr_assert_eq(shares_hold(&shares, &owner, 1, &share), 0);
}

static void teardown(void) {
        heap_since_drop(&since, &shares, share);
        share_release(&shares, share, 1);
        cr_assert_eq(shares_held(&shares), 0);
        shares_deinit(&shares);
}

TestSuite(heap_since, .init = setup, .fini = teardown);

static int keep(GoHeapSample *samples, uint32_t n) {
        const GoHeapProfile profile = { .n = { .n_samples = n }, .samples = samples };

        return heap_since_keep(&since, &shares, share, &profile);
}

static uint64_t allocs_before(uint64_t bucket, uint64_t now) {
        const GoHeapSample sample = { .bucket = bucket, .size = 16, .allocs = now };

        return heap_since_allocs(&since, &sample);
}

Test(heap_since, counts_are_those_of_the_look_before) {
        GoHeapSample first[] = { { .bucket = 0xe000, .allocs = 3 }, { .bucket = 0xc000, .allocs = 7 } };
        GoHeapSample second[] = { { .bucket = 0xf000, .allocs = 1 }, { .bucket = 0xe000, .allocs = 5 },
                                  { .bucket = 0xc000, .allocs = 7 } };

        cr_assert_eq(allocs_before(0xc000, 7), 0);
        cr_assert_eq(keep(first, 2), 0);
        cr_assert_eq(allocs_before(0xc000, 9), 7);
        cr_assert_eq(allocs_before(0xe000, 5), 3);
        cr_assert_eq(allocs_before(0xd000, 5), 0);
        cr_assert_eq(keep(second, 3), 0);
        cr_assert_eq(allocs_before(0xf000, 9), 1);
        cr_assert_eq(allocs_before(0xe000, 9), 5);
        cr_assert_eq(shares_held(&shares), 1 + 3);
        cr_assert_eq(keep(NULL, 0), 0);
        cr_assert_eq(allocs_before(0xe000, 9), 0);
        cr_assert_eq(shares_held(&shares), 1);
}

/* It writes into its own buckets, or is another program by now. */
Test(heap_since, a_count_that_fell_is_no_allocation) {
        GoHeapSample samples[] = { { .bucket = 0xc000, .allocs = 7 } };

        cr_assert_eq(keep(samples, 1), 0);
        cr_assert_eq(allocs_before(0xc000, 2), 2);
}

Test(heap_since, a_program_with_many_leaves_others_room) {
        const ShareOwner other_owner = { .group = 2, .user = 1000, .process = 2 };
        GoHeapSample *samples = calloc(GO_HEAP_MAX_BUCKETS, sizeof(*samples));
        HeapSince other = { 0 };
        Share *other_share;

        cr_assert_not_null(samples);
        for (uint32_t i = 0; i < GO_HEAP_MAX_BUCKETS; i++)
                samples[i] = (GoHeapSample){ .bucket = 0xc000 + 64 * (uint64_t)i, .allocs = 1 };
        cr_assert_eq(keep(samples, HEAP_SINCE_MAX / 4 - 1), 0);
        cr_assert_eq(allocs_before(0xc000, 1), 1);
        cr_assert_eq(keep(samples, HEAP_SINCE_MAX / 4), HEAP_SINCE_E_OVER_CAP);
        cr_assert_eq(allocs_before(0xc000, 1), 0);
        cr_assert_eq(shares_held(&shares), 1);
        cr_assert_eq(keep(samples, HEAP_SINCE_MAX / 4 - 1), 0);
        cr_assert_eq(shares_hold(&shares, &other_owner, 1, &other_share), 0);
        cr_assert_eq(heap_since_keep(&other, &shares, other_share,
                                     &(GoHeapProfile){ .n = { .n_samples = 1000 }, .samples = samples }),
                     0);
        cr_assert_eq(other.n, 1000);
        heap_since_drop(&other, &shares, other_share);
        share_release(&shares, other_share, 1);
        free(samples);
}

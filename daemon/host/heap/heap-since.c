/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Go never frees or moves a bucket, so its address tells a stack from all others as long as the program runs:
 *
 *     look      0xc000, 7 objects    0xd000, 3 objects
 *     next      0xc000, 9            0xd000, 3            0xe000, 4        ─▶ 2, 0 and 4 since then
 */
#include "host/heap/heap-since.h"

#include <errno.h>
#include <stdlib.h>

#include "core/base/util/error.h"
#include "core/base/util/macro.h"

static int compare_counts(const void *a, const void *b) {
        uint64_t x = ((const HeapCount *)a)->bucket, y = ((const HeapCount *)b)->bucket;

        return (x > y) - (x < y);
}

uint64_t heap_since_allocs(const HeapSince *since, const GoHeapSample *sample) {
        const HeapCount key = { .bucket = sample->bucket };
        const HeapCount *found = NULL;

        if (since->n)
                found = bsearch(&key, since->counts, since->n, sizeof(key), compare_counts);
        /* counts only grow; of a program that writes into its own ones nothing is subtracted */
        return found ? MIN(found->allocs, sample->allocs) : 0;
}

void heap_since_drop(HeapSince *since, Shares *shares, Share *share) {
        if (since->n)
                share_release(shares, share, since->n);
        free(since->counts);
        *since = (HeapSince){ 0 };
}

int heap_since_keep(HeapSince *since, Shares *shares, Share *share, const GoHeapProfile *profile) {
        uint32_t n = profile->n.n_samples;
        HeapCount *counts;

        heap_since_drop(since, shares, share);
        if (!n)
                return 0;
        if (!shares_leave_room(shares, share_owner(share), n, HEAP_SINCE_MAX))
                return HEAP_SINCE_E_OVER_CAP;
        counts = calloc(n, sizeof(*counts));
        if (!counts)
                return error_origin(-ENOMEM);
        for (uint32_t i = 0; i < n; i++)
                counts[i] = (HeapCount){ profile->samples[i].bucket, profile->samples[i].allocs };
        qsort(counts, n, sizeof(*counts), compare_counts);
        share_hold_more(share, n);
        *since = (HeapSince){ .counts = counts, .n = n };
        return 0;
}

/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Since the Last Look
 *
 * What each stack of a program of Go had allocated when its heap was looked at last. A heap profile counts
 * from the program's begin, and an export from one look to the next.
 */

#include <stdbool.h>
#include <stdint.h>

#include "core/base/data/shares.h"
#include "host/runtime/go/go-heap-profile.h"

enum { HEAP_SINCE_MAX = 1 << 20 };      /* stacks that are known of all programs together */

typedef struct HeapCount {
        uint64_t bucket, allocs;        /* as a GoHeapSample has them */
} HeapCount;

/* All zeros: nothing was allocated before. */
typedef struct HeapSince {
        HeapCount *counts;              /* in order of buckets */
        uint32_t n;
} HeapSince;

enum {
        _HEAP_SINCE_E_SUCCESS,
        HEAP_SINCE_E_OVER_CAP,          /* no room beside that of others */
};

/* Objects that the sample's stack had allocated then, never more than now; 0 = it is a new one. */
uint64_t heap_since_allocs(const HeapSince *since, const GoHeapSample *sample);

/*
 * Keeps the counts of @profile in place of the former ones. @share: who holds them, among @shares. Return: 0,
 * HEAP_SINCE_E_OVER_CAP: nothing is kept, -ENOMEM: the same.
 */
int heap_since_keep(HeapSince *since, Shares *shares, Share *share, const GoHeapProfile *profile);

void heap_since_drop(HeapSince *since, Shares *shares, Share *share);

/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * What the two halves of context-stress share: a log of every change of every thread's context, in memory of
 * both.
 *
 * A worker has a number; its log goes on when its thread dies and another one takes over. Change n of worker
 * w has the span id w << 56 | n and a trace id that follows from it, so a context of two halves gives itself
 * away. Entries with `has_span` 0 are changes to none.
 */

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

enum {
        STRESS_WORKERS = 64,
        STRESS_ENTRIES = 1 << 16,       /* a log's latest; older ones are overwritten */
        STRESS_TIDS = 1 << 16,
};

typedef struct StressEntry {
        /* atomic; written last; another one = overwritten, or being written */
        uint64_t n;
        uint64_t before, after;         /* MONOTONIC, around the change; after 0 = it is under way */
        uint32_t tid;                   /* as the victim sees it */
        uint32_t has_span;
} StressEntry;

typedef struct StressShared {
        /* atomic; go: 1 = the victim exists, 2 = it publishes, 3 = it may begin */
        uint32_t go, stop;
        uint32_t pid;                   /* the victim, as the judge sees it */
        uint64_t ring;                  /* address of a ring of the victim's own making, 0 = the SDK's */
        uint32_t tid;                   /* of the victim's main thread, as it sees it */
        uint64_t n_threads;             /* threads that were born */
        uint64_t n_reused;              /* of these, with an id that another one had before */
        uint8_t worker_of[STRESS_TIDS]; /* by tid, modulo; number + 1 */
        struct {
                uint64_t n;             /* atomic: the latest entry */
                StressEntry entries[STRESS_ENTRIES];
        } logs[STRESS_WORKERS];
} StressShared;

typedef enum StressForm { STRESS_RING, STRESS_THREAD, STRESS_BOTH, STRESS_PLAIN, STRESS_OBI } StressForm;

typedef struct StressOptions {
        StressForm form;
        uint32_t n_workers, capacity;
        bool brief;                     /* threads live for some milliseconds, and are born anew */
        int map;                        /* of OBI's form: a descriptor of the map that it would write */
} StressOptions;

static inline uint64_t stress_mix(uint64_t x) {
        x = (x ^ x >> 31) * UINT64_C(0x9E3779B97F4A7C15);
        return x ^ x >> 29;
}

/* The victim; does not return. */
void stress_victim(StressShared *shared, const StressOptions *options);

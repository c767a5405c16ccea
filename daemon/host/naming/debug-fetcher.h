/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Debug Fetcher
 *
 * Gets debug files from servers (debuginfod.h) while the daemon samples: a thread of its own asks for one
 * after the other, and nothing waits for it. Who looks for a debug file gets what the cache has; what it
 * lacks is asked for, and comes to the cache for a later look.
 *
 *     names' thread   find(id)    in the cache: opened.  Not: a wish, unless it was asked for lately
 *     fetcher         servers ─▶ cache                   ─▶ news, for the loop
 *     loop            next()      id came: names of its file are looked up again
 *
 * A build id is asked for again an hour after an answer, if it is still looked for. A server without an
 * answer is asked again after 5 s, 10 s … 10 min.
 */

#include <stdint.h>

#include "core/base/util/macro.h"
#include "core/symbol/debug/debuginfod.h"
#include "host/naming/name-job.h"

typedef struct DebugFetcher DebugFetcher;

typedef struct DebugFetcherConfig {
        DebuginfodConfig client;        /* is_quiet, is_over and retry_ns are the fetcher's */
        uint64_t again_ns;              /* after an answer; 0 = 1 h */
        uint64_t retry_ns;              /* after no answer; 0 = 5 s */
} DebugFetcherConfig;

/* The loop's, as all but debug_fetcher_remote(). Return: 0, DEBUGINFOD_E_UNUSABLE, -ENOMEM. */
int debug_fetcher_new(DebugFetcher **fetcherp, const DebugFetcherConfig *config);

/* Ends what is under way. A thread that hangs is left to itself after 200 ms. */
DebugFetcher *debug_fetcher_free(DebugFetcher *fetcher);
DEFINE_CLEANUP(DebugFetcher, debug_fetcher_free)

/* As what naming asks. It holds no reference itself. */
NameRemote debug_fetcher_remote(DebugFetcher *fetcher);

/* Counts and logs what happened since the last call. */
void debug_fetcher_collect(DebugFetcher *fetcher);

typedef struct DebugFetcherState {
        uint32_t n_waiting;             /* files, with those that are tried again */
        char problem[DEBUGINFOD_MAX_PROBLEM];   /* the last; "" = none since the last answer */
} DebugFetcherState;

void debug_fetcher_state(DebugFetcher *fetcher, DebugFetcherState *state);

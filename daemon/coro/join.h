/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Join
 *
 * Tells which coroutine a sampled thread was running. Looks for regions of stations in processes that are
 * sampled (soon after their first sample, then ever less often), follows them, and answers by process, thread
 * and time. Never writes to a region, never guesses: what was lost, or died meanwhile, is counted as such.
 */

#include <stdint.h>

#include "util/macro.h"

typedef struct CoroJoin CoroJoin;

typedef struct CoroMatch {
        uint64_t probe_id, birth_ns;    /* 0 = the station does not say */
        uint32_t station;
} CoroMatch;

enum {
        _CORO_JOIN_E_SUCCESS,
        CORO_JOIN_E_NONE,               /* the process has no region, or the thread runs no coroutine */
        CORO_JOIN_E_UNKNOWN,            /* it cannot be told (counted) */
};

/* Return: 0, -ENOMEM. */
int coro_join_new(CoroJoin **joinp);
CoroJoin *coro_join_free(CoroJoin *join);
DEFINE_CLEANUP(CoroJoin, coro_join_free)

/*
 * Who ran on thread @ns_tid (as the process itself numbers it) of process @pid at @time_ns, which is past? @generation: of
 * the process; another one is another program. Return: 0 and *match, CORO_JOIN_E_*, -ENOMEM.
 */
int coro_join_find(CoroJoin *join, uint32_t pid, uint64_t generation, uint32_t ns_tid, uint64_t time_ns, CoroMatch *match);

/* The process is gone; what it left is kept for samples that are on their way, for some seconds. */
void coro_join_forget(CoroJoin *join, uint32_t pid);

/* Reads new events of all regions. *wait_nsp: until the next call; UINT64_MAX = there is no region. Return: 0, -ENOMEM. */
int coro_join_scan(CoroJoin *join, uint64_t *wait_nsp);

/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Join
 *
 * Tells which coroutine a sampled thread was running. Looks for regions of stations in processes that are
 * sampled (soon after their first sample, then ever less often), follows them, and answers by process, thread
 * and time. Never writes to a region, never guesses: what was lost, or died meanwhile, is counted as such.
 */

#include <stdbool.h>
#include <stdint.h>

#include "base/util/macro.h"

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
 * Who ran on thread @ns_tid (as the process itself numbers it) of process @pid at @time_ns, which is past?
 * @generation: of the process; another one is another program. Return: 0 and *match, CORO_JOIN_E_*, -ENOMEM.
 */
int coro_join_find(CoroJoin *join, uint32_t pid, uint64_t generation, uint32_t ns_tid, uint64_t time_ns,
                   CoroMatch *match);

/*
 * Stations were found in this process: they are followed from now on, whether it is ever sampled or not.
 * Return: 0, -ENOMEM.
 */
int coro_join_watch(CoroJoin *join, uint32_t pid, uint64_t generation);

/*
 * The process is gone since @end_ns; what it left is kept for samples that are on their way, for some
 * seconds. Tells how long its coroutines were suspended until then. Return: 0, -ENOMEM, or what the callback
 * returned.
 */
int coro_join_forget(CoroJoin *join, uint32_t pid, uint64_t end_ns);

/*
 * Reads new events of all regions. *wait_nsp: until the next call; UINT64_MAX = there is no region. Return:
 * 0, -ENOMEM.
 */
int coro_join_scan(CoroJoin *join, uint64_t *wait_nsp);

/* How long a coroutine was suspended at one place. Each nanosecond is told once. */
typedef struct CoroSuspended {
        uint32_t pid;
        bool known;                     /* @coroutine is; else there were too many to keep apart */
        uint64_t generation;
        CoroMatch coroutine;
        uint64_t address;               /* as the writer says: where it was suspended; 0 = nobody knows */
        uint64_t value_ns;
        uint64_t time_ns;               /* MONOTONIC, of the last moment that is in it */
} CoroSuspended;

typedef int (*CoroSuspendedFunc)(void *userdata, const CoroSuspended *suspended);

/* Who wants to know; before the first sample. Called from coro_join_close() and coro_join_forget() only. */
void coro_join_set_suspended(CoroJoin *join, CoroSuspendedFunc func, void *userdata);

/*
 * The end of a window: tells how long coroutines were suspended since the last one, those that are still
 * until now; or nothing, with @discard, and then nobody will hear of that time. Return: as
 * coro_join_forget().
 */
int coro_join_close(CoroJoin *join, bool discard);

/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Join
 *
 * Tells which coroutine a sampled thread was running, by process, thread and time. Looks for regions of
 * stations in sampled processes, and follows them. Never writes to a region and never guesses: an answer that
 * was lost, or whose coroutine died meanwhile, is unknown, and counted.
 */

#include <stdbool.h>
#include <stdint.h>

#include "core/base/util/macro.h"

typedef struct CoroJoin CoroJoin;

typedef struct CoroMatch {
        uint64_t probe_id, birth_ns;    /* 0 = the station does not say */
        uint32_t station;
} CoroMatch;

enum {
        _CORO_JOIN_E_SUCCESS,
        CORO_JOIN_E_NONE,               /* the process has no region, or the thread runs no coroutine */
        CORO_JOIN_E_UNKNOWN,            /* the answer is unknown (counted) */
};

/* Return: 0, -ENOMEM. */
int coro_join_new(CoroJoin **joinp);
CoroJoin *coro_join_free(CoroJoin *join);
DEFINE_CLEANUP(CoroJoin, coro_join_free)

typedef struct CoroRun {
        uint32_t pid, ns_tid;           /* the latter in the process' own namespace */
        uint64_t generation;            /* generation of the process; another generation is another program */
        uint64_t time_ns;               /* past */
        bool is_uncounted;              /* it is no sample of those that CORO_SAMPLES… count */
        bool has_ended;                 /* the process by now: who was not followed before is not looked at */
} CoroRun;

/* Finds the coroutine that ran on a thread at some time. Return: 0 and *match, CORO_JOIN_E_*, -ENOMEM. */
int coro_join_find(CoroJoin *join, const CoroRun *run, CoroMatch *match);

/* Processes that are followed, or looked at, or have ended lately. */
size_t coro_join_count(const CoroJoin *join);

/* Whether this process is one of these. */
bool coro_join_knows(const CoroJoin *join, uint32_t pid);

/*
 * Follows the stations of this process from now on, whether it is ever sampled or not.
 * Return: 0, -ENOMEM.
 */
int coro_join_watch(CoroJoin *join, uint32_t pid, uint64_t generation);

/*
 * The process has ended at @end_ns. Tells how long its coroutines were suspended until then. Its events are
 * kept for 3 s, for samples that are still on their way. Return: 0, -ENOMEM, or what the callback returned.
 */
int coro_join_forget(CoroJoin *join, uint32_t pid, uint64_t end_ns);

/*
 * Reads new events of all regions. *wait_nsp: time until the next call; UINT64_MAX = there is no region.
 * Return: 0, -ENOMEM.
 */
int coro_join_scan(CoroJoin *join, uint64_t *wait_nsp);

/* Time that a coroutine was suspended at one address. Each nanosecond is told once. */
typedef struct CoroSuspended {
        uint32_t pid;
        bool known;                     /* @coroutine is set; else there were too many to keep apart */
        uint64_t generation;
        CoroMatch coroutine;
        uint64_t address;               /* address that the writer gave; 0 = unknown */
        uint64_t value_ns;
        uint64_t time_ns;               /* MONOTONIC time of its last moment */
} CoroSuspended;

typedef int (*CoroSuspendedFunc)(void *userdata, const CoroSuspended *suspended);

/* Sets the receiver, before the first sample. coro_join_close() and coro_join_forget() call it. */
void coro_join_set_suspended(CoroJoin *join, CoroSuspendedFunc func, void *userdata);

/*
 * Ends a window: tells how long coroutines were suspended since the last one; those that still are, until
 * now. With @discard that time is dropped. Return: as coro_join_forget().
 */
int coro_join_close(CoroJoin *join, bool discard);

/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Helper
 *
 * Asks workers, one after the other: each reads one file, answers and ends, so none knows anything of another
 * file. A worker that dies, or that takes too long, is replaced; when that happens again and again, later and
 * later. Never waits: who asks looks at the descriptor. Some workers are started ahead.
 */

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "core/base/sandbox/worker-session.h"
#include "core/base/util/macro.h"

typedef struct Helper Helper;

enum { HELPER_MAX_REQUEST = 64 };

enum {
        _HELPER_E_SUCCESS,
        HELPER_E_WAIT,                  /* nothing has come yet */
        /* without an answer, or in its midst. The request is forgotten, as in the next ones */
        HELPER_E_DIED,
        HELPER_E_LATE,                  /* the worker was killed; or none could be had */
        HELPER_E_GONE,                  /* there will be no more workers */
};

/* @zygotes: borrowed. Return: 0, -errno. */
int helper_new(Helper **helperp, Zygotes *zygotes);
Helper *helper_free(Helper *helper);
DEFINE_CLEANUP(Helper, helper_free)

/* Readable when helper_read() has something to do. */
int helper_fd(const Helper *helper);

/*
 * Asks, when there is a worker: its time runs from then. One request at a time. @fd: borrowed until it is
 * answered. @size ≤ HELPER_MAX_REQUEST.
 */
void helper_ask(Helper *helper, const void *request, size_t size, int fd, uint64_t timeout_ns);

/*
 * Takes the head of the answer into @answer, over as many calls as it takes: the same @answer in each. A
 * worker whose head is not sound counts as malformed, and as one that died. Return: 0, HELPER_E_*.
 */
int helper_hear(Helper *helper, const WorkerQuestion *question, void *answer);

/* The next bytes of the answer. Return: 0 with *np > 0 of them, HELPER_E_*. */
int helper_read(Helper *helper, void *data, size_t size, size_t *np);

/* The answer is all there, or is not wanted any more: as it ought to be, or @is_bad. */
void helper_done(Helper *helper, bool is_bad);

/* The answer is not sound: counted, and helper_done() as bad. */
void helper_refuse(Helper *helper);

/* Without a request: follows what happens to the workers that were started ahead. */
void helper_tend(Helper *helper);

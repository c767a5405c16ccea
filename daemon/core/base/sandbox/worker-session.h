/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * WorkerSession
 *
 * A conversation with one worker, in a thread that may wait for it until a deadline: for those that are asked
 * several things about one file. The event loop asks by helper.h.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/base/sandbox/zygotes.h"

enum {
        _WORKER_SESSION_E_SUCCESS,
        WORKER_SESSION_E_NONE,                  /* no worker can be had now */
        WORKER_SESSION_E_DIED,                  /* without an answer, or in its midst; the session is over */
        WORKER_SESSION_E_LATE,                  /* the same, of one that was killed */
};

/* For the loop, which counts for all (core/base/util/stat.h). */
typedef struct WorkerSessionCounts {
        uint32_t n_started, n_died, n_late, n_malformed;
} WorkerSessionCounts;

typedef struct WorkerSession {
        Zygotes *zygotes;               /* borrowed */
        uint64_t end_ns;                /* MONOTONIC: nothing is waited for beyond that */
        WorkerSessionCounts *counts;           /* the same thread's */
        int socket;                     /* -1 = there is no worker */
        uint32_t serial;
} WorkerSession;

/* Unless there is a worker already. Return: 0, WORKER_SESSION_E_NONE. */
int worker_session_begin(WorkerSession *session);

/* @fd: -1 = none; borrowed. Return: 0, WORKER_SESSION_E_DIED, WORKER_SESSION_E_LATE. */
int worker_session_send(WorkerSession *session, const void *data, size_t size, int fd);

/* What is there, 1 to @size bytes. Return: the same. */
int worker_session_receive_some(WorkerSession *session, void *data, size_t size, size_t *np);

/* Exactly @size bytes; what is complete only after the deadline is late, too. Return: the same. */
int worker_session_receive(WorkerSession *session, void *data, size_t size);

/* It has said what is not so: as good as dead. Return: WORKER_SESSION_E_DIED. */
int worker_session_refuse(WorkerSession *session);

/* No more is wanted of this worker. */
void worker_session_end(WorkerSession *session);

/* In the loop. */
void worker_session_count(const WorkerSessionCounts *counts);

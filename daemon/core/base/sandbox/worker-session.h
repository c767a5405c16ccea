/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * WorkerSession
 *
 * A conversation with one worker, in a thread that may wait for it until a deadline: for those that are asked
 * several things about one file. The event loop asks by helper.h.
 *
 * Each kind of question is a row, WorkerQuestion, which both sides share: host/service/run/worker-main.c has
 * the table of those that begin a conversation and serves them, this module asks them.
 *
 *     begin ─▶ request, descriptor ─▶ head of the answer ─▶ is_sound(): no ─▶ counted, worker ended
 *                                                          yes ─▶ the rest, as the kind has it
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

typedef struct WorkerQuestion {
        uint32_t magic;                 /* first word of the request and of its answer */
        uint32_t request_size;          /* bytes, as the next */
        uint32_t answer_size;           /* bytes of its head alone, after which more may come */
        bool needs_file;                /* a request without a descriptor is not served */
        unsigned n_tries;               /* tries of the caller, if one worker after the other dies */
        uint64_t timeout_ns;            /* time of a session that worker_session_make() makes */
        /*
         * Pure. Whether @answer may be the head of an answer to @request, which is NULL where the caller has
         * not kept it. Until then no word of it is a length, an index or an address.
         */
        bool (*is_sound)(const void *answer, const void *request);
} WorkerQuestion;

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

/* A session that ends question->timeout_ns from now. */
WorkerSession worker_session_make(Zygotes *zygotes, const WorkerQuestion *question,
                                  WorkerSessionCounts *counts);

/* Sends @request, to a new worker if there is none. Return: 0, WORKER_SESSION_E_*. */
int worker_session_request(WorkerSession *session, const WorkerQuestion *question, const void *request,
                           int fd);

/* Takes the head of the answer to @request; one that is not sound is refused. Return: the same. */
int worker_session_hear(WorkerSession *session, const WorkerQuestion *question, const void *request,
                        void *answer);

/* Both, for a request that nothing follows. Return: the same. */
int worker_session_ask(WorkerSession *session, const WorkerQuestion *question, const void *request, int fd,
                       void *answer);

/* Refuses the worker unless the caller found its answer sound. Return: 0, WORKER_SESSION_E_DIED. */
int worker_session_judge(WorkerSession *session, bool is_sound);

/* Unless there is a worker already. Return: 0, WORKER_SESSION_E_NONE. */
int worker_session_begin(WorkerSession *session);

/* @fd: -1 = none; borrowed. Return: 0, WORKER_SESSION_E_DIED, WORKER_SESSION_E_LATE. */
int worker_session_send(WorkerSession *session, const void *data, size_t size, int fd);

/* Receives the bytes that have come, 1 to @size. Return: the same. */
int worker_session_receive_some(WorkerSession *session, void *data, size_t size, size_t *np);

/* Exactly @size bytes; what is complete only after the deadline is late, too. Return: the same. */
int worker_session_receive(WorkerSession *session, void *data, size_t size);

/* Treats the worker as dead, since it has sent nonsense. Return: WORKER_SESSION_E_DIED. */
int worker_session_refuse(WorkerSession *session);

/* No more is wanted of this worker. */
void worker_session_end(WorkerSession *session);

/* In the loop. */
void worker_session_count(const WorkerSessionCounts *counts);

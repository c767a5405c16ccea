/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Worker
 *
 * A thread for work that nothing waits for, with a bounded queue before it. It starts with the first job
 * and runs at a low priority. A job that takes too long, since a file that it reads does not answer, is
 * given up with its thread, and the jobs behind it go to a new one. When the old thread comes back it
 * clears up and ends. After a few of these no more jobs are taken.
 *
 * Everything but `work`, `ready`, `begin`, `end` and a `discard` of a job that was given up runs in the loop's
 * thread.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/base/util/macro.h"

enum {
        _WORKER_E_SUCCESS,
        WORKER_E_FULL,                  /* the queue is; the job is still the caller's */
        WORKER_E_UNABLE,                /* no thread can be had, or too many hang; as before */
};

typedef struct WorkerJob WorkerJob;

/* The first member of whatever is to be done. */
struct WorkerJob {
        WorkerJob *next;
        void (*work)(WorkerJob *job, void *state);
        /* worker_collect() would take it now; in the job's thread, with the queue's lock; may be NULL */
        void (*ready)(WorkerJob *job);
        void (*done)(WorkerJob *job, void *userdata);           /* takes the job over */
        /* the job's thread still uses it, and will discard it */
        void (*stuck)(WorkerJob *job, void *userdata);
        void (*discard)(WorkerJob *job);                        /* frees it; its result is not wanted */
        uint64_t rank;                  /* those with a lower one go first, then those that came first */
};

typedef struct WorkerConfig {
        const char *name;               /* name of its threads; NULL = as the program */
        /* makes what the jobs of one thread share, in that thread; may be NULL */
        void *(*begin)(void);
        void (*end)(void *state);
        void *userdata;                 /* for callbacks; lives longer */
        uint32_t max_jobs;              /* jobs that may wait; 0 = 256 */
        uint64_t time_limit_ns;           /* for one job; 0 = 10 s */
        int nice;                       /* of its threads; 0 = 10: services go first */
} WorkerConfig;

typedef struct Worker Worker;

/* Return: 0, -ENOMEM. */
int worker_new(Worker **workerp, const WorkerConfig *config);

/* Discards what waits. A thread that is at work is waited for 200 ms; then it is left to itself. */
Worker *worker_free(Worker *worker);
DEFINE_CLEANUP(Worker, worker_free)

/* Takes the job over on success. Return: 0, WORKER_E_*, -ENOMEM. */
int worker_push(Worker *worker, WorkerJob *job);

/* Calls `done` for what is done, and gives up what takes too long at @now_ns (MONOTONIC). */
void worker_collect(Worker *worker, uint64_t now_ns);

/* Waits until nothing waits or @end_ns. Return: whether nothing does. */
bool worker_wait(Worker *worker, uint64_t end_ns);

/* Jobs that are not done; threads that hang. */
uint32_t worker_n_waiting(const Worker *worker);
unsigned worker_n_stuck(const Worker *worker);

/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Spool Worker
 *
 * A spool in a thread of its own, since a disk takes its time and the loop that drains samples may not wait
 * for it. Jobs are done one after the other, in the order in which they were given. Results come back on the
 * event loop, where the counters are. A disk may hang for ever: then the thread is left behind with all that
 * it uses.
 */

#include <systemd/sd-event.h>

#include "host/delivery/export/batch.h"
#include "host/delivery/spool/spool.h"

typedef struct SpoolWorker SpoolWorker;

typedef struct SpoolWorkerConfig {
        const char *path;
        SpoolLimits limits;
        bool gzip, json;                /* form of the batches that come out */
        ExportConvert convert;          /* for a file that was stored in the other form */

        /*
         * The reference to @batch is the callee's now. @error: 0 = it is in the spool; ECANCELED = it had its
         * end before it was stored; else an errno, and the disk does not have it.
         */
        void (*on_put)(Batch *batch, int error, void *userdata);
        /* Samples of a batch are among the dead letters, or @error is an errno. */
        void (*on_buried)(uint64_t n_events, int error, void *userdata);
        /*
         * The oldest batch, with its copy and entry set; NULL = there is none. It is lent, as by
         * spool_next().
         */
        void (*on_next)(Batch *batch, void *userdata);
        /* A file that was held is free now, and counts as stored. */
        void (*on_released)(const SpoolEntry *entry, void *userdata);
        /* Files left the spool on its own account: too old, too much, corrupt. */
        void (*on_counts)(const SpoolCounts *counts, void *userdata);
        void *userdata;
} SpoolWorkerConfig;

/* Return: as spool_new(), -errno. */
int spool_worker_new(SpoolWorker **workerp, sd_event *event, const SpoolWorkerConfig *config,
                     SpoolProblem *problem);

/* Waits for the job that is being done, however long it takes; forgets those that are not begun. */
SpoolWorker *spool_worker_free(SpoolWorker *worker);
DEFINE_CLEANUP(SpoolWorker, spool_worker_free)

/*
 * Waits for nothing: jobs that are not begun are forgotten, and the thread ends by itself when the disk lets
 * it. Until then it keeps the lock of the spool. No callback is called any more. No batch that was put may
 * have a second reference.
 */
SpoolWorker *spool_worker_leave(SpoolWorker *worker);

/* Takes a reference to @batch over. @how: SPOOL_PUT_*. Return: 0, -ENOMEM (it stays the caller's). */
int spool_worker_put(SpoolWorker *worker, Batch *batch, unsigned how);
/* As spool_flush(). */
int spool_worker_flush(SpoolWorker *worker, const SpoolEntry *entry);
/* As spool_release(). */
int spool_worker_release(SpoolWorker *worker, const SpoolEntry *entry);
/* @after: as spool_next(). */
int spool_worker_next(SpoolWorker *worker, const SpoolEntry *after);
/* Takes a reference to @batch over: a copy goes to the dead letters. Return: 0, -ENOMEM (as put). */
int spool_worker_bury(SpoolWorker *worker, Batch *batch);
int spool_worker_remove(SpoolWorker *worker, const SpoolEntry *entry);

/*
 * Waits until all jobs are done, or until @deadline_ns (MONOTONIC), and delivers results. Return: all are
 * done.
 */
bool spool_worker_finish(SpoolWorker *worker, uint64_t deadline_ns);

/* Whether one job takes so long that others should not wait for it. */
bool spool_worker_is_stuck(SpoolWorker *worker);

/* As of the last result, without what is held. */
size_t spool_worker_n_files(const SpoolWorker *worker);
uint64_t spool_worker_file_events(const SpoolWorker *worker);
/* As of the last result, with what is held; and the limit, 0 = none. */
uint64_t spool_worker_file_bytes(const SpoolWorker *worker);
uint64_t spool_worker_max_bytes(const SpoolWorker *worker);
/* Size of all batches that are on their way to the disk. */
size_t spool_worker_waiting_bytes(const SpoolWorker *worker);

/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Spool Worker
 *
 * A spool in a thread of its own: disks take their time, and the loop that drains samples may not wait for
 * one. Jobs are done one after the other, in the order in which they were given; results come back on the
 * event loop, where the counters are, too. A disk may hang for ever: then the thread is left behind with all
 * that is its own.
 */

#include <systemd/sd-event.h>

#include "delivery/spool/batch.h"
#include "delivery/spool/spool.h"

typedef struct SpoolWorker SpoolWorker;

typedef struct SpoolWorkerConfig {
        const char *path;
        SpoolLimits limits;
        bool gzip;                      /* of batches that come out */
        bool json;
        /*
         * Into the form that is sent: the configuration may have changed. NULL = such a batch is lost as
         * corrupt.
         */
        int (*convert)(const uint8_t *data, size_t size, bool to_json, uint8_t **datap, size_t *sizep);

        /*
         * The reference to @batch is the callee's now. @error: 0 = it is in the spool; ECANCELED = it was
         * done before it was stored; else an errno, and it is nowhere else.
         */
        void (*on_put)(Batch *batch, int error, void *userdata);
        /*
         * The oldest one, with batch->spooled set; NULL = there is none. It stays there until it is removed.
         */
        void (*on_next)(Batch *batch, void *userdata);
        /* What was held is free now, and counts as in the spool. */
        void (*on_released)(const SpoolEntry *entry, void *userdata);
        /* What went from the spool on its own: too old, too much, corrupt. */
        void (*on_counts)(const SpoolCounts *counts, void *userdata);
        void *userdata;
} SpoolWorkerConfig;

/* Return: as spool_new(), -errno. */
int spool_worker_new(SpoolWorker **workerp, sd_event *event, const SpoolWorkerConfig *config,
                     SpoolProblem *problem);

/* Waits for what is being done, however long that takes; forgets what is not begun. */
SpoolWorker *spool_worker_free(SpoolWorker *worker);
DEFINE_CLEANUP(SpoolWorker, spool_worker_free)

/*
 * Waits for nothing: what is not begun is forgotten, and the thread goes by itself once the disk lets it, if
 * it ever does. Nothing is called any more. Until then it keeps the lock of the spool. No batch that was put
 * may have a second reference.
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
int spool_worker_remove(SpoolWorker *worker, const SpoolEntry *entry);

/*
 * Waits until all jobs are done, or until @deadline_ns (MONOTONIC), and delivers results. Return: all are
 * done.
 */
bool spool_worker_finish(SpoolWorker *worker, uint64_t deadline_ns);

/* One job takes so long that others should not wait for it. */
bool spool_worker_is_stuck(SpoolWorker *worker);

/* As of the last result; what is held does not count. */
size_t spool_worker_n_files(const SpoolWorker *worker);
uint64_t spool_worker_file_events(const SpoolWorker *worker);
/* Of batches that are on their way to the disk, whoever else has them. */
size_t spool_worker_waiting_bytes(const SpoolWorker *worker);

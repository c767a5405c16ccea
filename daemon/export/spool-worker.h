/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Spool Worker
 *
 * A spool in a thread of its own: disks take their time, and the loop that drains samples may not wait for one. Jobs
 * are done one after the other, in the order in which they were given; results come back on the event loop,
 * where the counters are, too.
 */

#include <systemd/sd-event.h>

#include "export/batch.h"
#include "export/spool.h"

typedef struct SpoolWorker SpoolWorker;

typedef struct SpoolWorkerConfig {
        const char *path;
        SpoolLimits limits;
        bool gzip;                      /* of batches that come out */
        bool json;
        /* Into the form that is sent: the configuration may have changed. NULL = such a batch is lost as corrupt. */
        int (*convert)(const uint8_t *data, size_t size, bool to_json, uint8_t **datap, size_t *sizep);

        /*
         * The reference to @batch is the callee's now. @error: 0 = it is in the spool; ECANCELED = it was done before it
         * was stored; else an errno, and it is nowhere else.
         */
        void (*on_put)(Batch *batch, int error, void *userdata);
        /* The oldest one, with batch->spooled set; NULL = there is none. It stays there until it is removed. */
        void (*on_next)(Batch *batch, void *userdata);
        void (*on_released)(const SpoolEntry *entry, void *userdata);
        /* What went from the spool on its own: too old, too much, corrupt. */
        void (*on_counts)(const SpoolCounts *counts, void *userdata);
        void *userdata;
} SpoolWorkerConfig;

/* Return: as spool_new(), -errno. */
int spool_worker_new(SpoolWorker **workerp, sd_event *event, const SpoolWorkerConfig *config);

/* Waits for what is being done, forgets what is not begun. */
SpoolWorker *spool_worker_free(SpoolWorker *worker);
DEFINE_CLEANUP(SpoolWorker, spool_worker_free)

/* Takes a reference to @batch over. @how: SPOOL_PUT_*. Return: 0, -ENOMEM (it stays the caller's). */
int spool_worker_put(SpoolWorker *worker, Batch *batch, unsigned how);
/* As spool_release(). */
int spool_worker_release(SpoolWorker *worker, const SpoolEntry *entry);
/* @after: as spool_next(). */
int spool_worker_next(SpoolWorker *worker, const SpoolEntry *after);
int spool_worker_remove(SpoolWorker *worker, const SpoolEntry *entry);

/* Waits until all jobs are done and delivers their results. */
void spool_worker_finish(SpoolWorker *worker);

/* As of the last result; what is held does not count. */
size_t spool_worker_n_files(const SpoolWorker *worker);
uint64_t spool_worker_file_events(const SpoolWorker *worker);
/* Of batches that are on their way to the disk, whoever else has them. */
size_t spool_worker_waiting_bytes(const SpoolWorker *worker);

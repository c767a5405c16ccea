/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Spool Store
 *
 * The exporter's batch store on a disk: a spool, whose calls run in a thread (spool-worker.h).
 */

#include <systemd/sd-event.h>

#include "host/delivery/export/batch-store.h"
#include "host/delivery/export/spool-worker.h"

typedef enum SpoolStoreMode {
        SPOOL_STORE_AHEAD,              /* hold() writes; flushed after flush_after_ns, or when it is kept */
        SPOOL_STORE_FLUSH,              /* hold() writes and flushes */
        SPOOL_STORE_FAILED,             /* hold() writes nothing, keep() does */
} SpoolStoreMode;

typedef struct SpoolStoreConfig {
        const char *path;
        SpoolStoreMode mode;
        SpoolLimits limits;
        bool gzip, json;                /* form of the batches that come out */
        ExportConvert convert;          /* into that form, of what was stored in the other */
        size_t max_backlog_bytes;       /* bytes of batches on their way to the disk */
        uint64_t flush_after_ns;
        uint64_t time_limit_ns;         /* for the disk, in finish() */
} SpoolStoreConfig;

/* @problem: as for spool_new(). Return: 0, SPOOL_E_UNUSABLE, SPOOL_E_LOCKED, -errno. */
int spool_store_new(BatchStore *storep, sd_event *event, const SpoolStoreConfig *config,
                    SpoolProblem *problem);

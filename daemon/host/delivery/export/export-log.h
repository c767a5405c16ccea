/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Export Log
 *
 * Lines that the exporter and its store write to the log: at most one a minute for one kind of trouble, with
 * the number of those held back, and one when all is well again.
 */

#include <stdint.h>

#include "core/base/util/log.h"
#include "core/http/response.h"
#include "host/delivery/export/trouble.h"
#include "host/delivery/export/batch.h"

typedef struct ExportLog {
        char *url;                      /* URL of the endpoint, as configured */
        LogLimit limits[TROUBLE_N];
} ExportLog;

/* A failed attempt; @format says what becomes of the samples. */
_printf_(4, 5) void export_log_failed(ExportLog *log, int level, const HttpReply *reply,
                                      const char *format, ...);

/* A success with rejections, of which @n_lost samples are a consequence. */
void export_log_rejected(ExportLog *log, const Response *response, const Batch *batch, uint64_t n_lost);

/* A success; logs only if it came with a message or with a body that is no response. */
void export_log_accepted(ExportLog *log, const HttpReply *reply, const Response *response);

/* A success of something that is no receiver: @batch is dropped. */
void export_log_not_otlp(ExportLog *log, const HttpReply *reply, const Batch *batch);

void export_log_overflow(ExportLog *log, size_t max_bytes, uint64_t n_lost);

/* A batch could not be written to the spool. */
void export_log_spool(ExportLog *log, int error, uint64_t n_events);
/* A refused batch could not be kept as a dead letter either. */
void export_log_not_buried(ExportLog *log, int error, uint64_t n_events);
/* The stop did not wait for the disk; @n_batches with @n_events were on their way to it. */
void export_log_spool_left(ExportLog *log, uint64_t n_batches, uint64_t n_events);
/* The directory of the spool was removed or replaced. */
void export_log_spool_moved(ExportLog *log);
/* The spool dropped files, or set them aside. */
void export_log_spool_lost(ExportLog *log, const SpoolCounts *counts);

void export_log_well_again(ExportLog *log, uint64_t trouble_ns, unsigned n_failures, size_t n_waiting);

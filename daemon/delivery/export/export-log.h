/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Export Journal
 *
 * What the exporter tells the log: at most one line a minute for one kind of
 * trouble, with the number of those held back, and one line when all is well again.
 */

#include <stdint.h>

#include "base/util/log.h"
#include "delivery/export/response.h"
#include "delivery/export/trouble.h"
#include "delivery/export/batch.h"

typedef struct ExportLog {
        char *url;                      /* of the endpoint, as configured */
        LogLimit limits[TROUBLE_N];
} ExportLog;

/* A failed attempt; @format says what becomes of the samples. */
_printf_(4, 5) void export_log_failed(ExportLog *journal, int level, const HttpReply *reply,
                                      const char *format, ...);

/* A success with rejections, of which @n_lost samples are a consequence. */
void export_log_rejected(ExportLog *journal, const Response *response, const Batch *batch, uint64_t n_lost);

/* A success; logs only if it came with a message or with a body that is no response. */
void export_log_accepted(ExportLog *journal, const HttpReply *reply, const Response *response);

void export_log_overflow(ExportLog *journal, size_t max_bytes, uint64_t n_lost);
/* A batch could not be written to the spool; and what went from it on its own. */
void export_log_spool(ExportLog *journal, int error, uint64_t n_events);
/* The stop did not wait for the disk; @n_batches with @n_events were on their way to it. */
void export_log_spool_left(ExportLog *journal, uint64_t n_batches, uint64_t n_events);
void export_log_spool_moved(ExportLog *journal);
void export_log_spool_lost(ExportLog *journal, const SpoolCounts *counts);

void export_log_well_again(ExportLog *journal, uint64_t trouble_ns, unsigned n_failures, size_t n_waiting);

/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Export Journal
 *
 * What the exporter tells the log: at most one line a minute for one kind of
 * trouble, with the number of those held back, and one line when all is well again.
 */

#include <stdint.h>

#include "export/batch.h"
#include "export/response.h"
#include "export/trouble.h"
#include "util/log.h"

typedef struct ExportJournal {
        char *url;                      /* of the endpoint, as configured */
        LogLimit limits[TROUBLE_N];
} ExportJournal;

/* A failed attempt; @format says what becomes of the samples. */
_printf_(4, 5) void journal_failed(ExportJournal *journal, int level, const HttpReply *reply, const char *format, ...);

/* A success with rejections, of which @n_lost samples are a consequence. */
void journal_rejected(ExportJournal *journal, const Response *response, const Batch *batch, uint64_t n_lost);

/* A success; logs only if it came with a message or with a body that is no response. */
void journal_accepted(ExportJournal *journal, const HttpReply *reply, const Response *response);

void journal_overflow(ExportJournal *journal, size_t max_bytes, uint64_t n_lost);
/* A batch could not be written to the spool; and what went from it on its own. */
void journal_spool(ExportJournal *journal, int error, uint64_t n_events);
/* The stop did not wait for the disk; @n_batches with @n_events were on their way to it. */
void journal_spool_left(ExportJournal *journal, uint64_t n_batches, uint64_t n_events);
void journal_spool_moved(ExportJournal *journal);
void journal_spool_lost(ExportJournal *journal, const SpoolCounts *counts);

void journal_well_again(ExportJournal *journal, uint64_t trouble_ns, unsigned n_failures, size_t n_waiting);

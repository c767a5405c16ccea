/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Output
 *
 * What the engine and the attached reader have in common: scans, the trace that they feed, the
 * progress line and the end. Lines are made between scans, on the one CPU that both may use, and written by a
 * thread; a database takes longer for an event than a scan may wait, so there a relay hands events to the
 * thread.
 */

#include "coro/engine/address-names.h"
#include "coro/engine/engine.h"
#include "coro/engine/writer-queue.h"
#include "coro/station/pace.h"

typedef struct Output {
        const CoroOptions *options;
        TraceWriter *writer;            /* of lines, else NULL */
        WriterQueue *writer_queue;                   /* of a database, else NULL */
        CoroEvent *queue;               /* of a scan, to become lines after it */
        size_t n_queued;
        AddressNames *places;                 /* NULL = nobody will want names */
        Pace pace;
        uint64_t begin_ns, progress_ns, progress_events, n_events, n_lost;
} Output;

/* Return: 0, CORO_E_FAILED (a message was logged), -errno. */
int output_open(Output *output, const CoroOptions *options);

/* Begins to learn what addresses are, if it is wanted. From here on neither regions nor scans may move. */
void output_watch(Output *output, const RegionScan *scans, size_t n_scans);

/* Return: false = a thread that cannot be ended still looks at the regions: they must stay mapped. */
bool output_deinit(Output *output);

/* Scans each scan once and adapts the pace. Return: whether there was an event. */
bool output_scan(Output *output, RegionScan *scans, size_t n_scans);

/* Once a second, if somebody looks. */
void output_progress(Output *output, const RegionScan *scans, size_t n_scans, uint64_t now_ns);

/* The last scan; writes all that is left. Return: 0, CORO_E_FAILED, -ENOMEM. */
int output_finish(Output *output, RegionScan *scans, size_t n_scans, CoroSummary *summary);

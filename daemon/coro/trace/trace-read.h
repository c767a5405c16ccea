/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Trace Reader
 *
 * Reads events back from any form of a trace (trace.h), ours or coroTracer's. A line that is no event (cut by
 * a crash, or of another program) is counted and left out.
 */

#include "base/util/text.h"
#include "coro/trace/trace-line.h"
#include "coro/trace/trace.h"

typedef struct TraceReadCounts {
        uint64_t n_events, n_malformed;
        /* the last malformed line is one of CSV without an end, whose last number may have lost digits */
        bool cut;
        bool any_payload, any_extra;    /* station, event, birth, lost or pid */
} TraceReadCounts;

typedef int (*TraceEventFunc)(void *userdata, const CoroEvent *event);

/*
 * Whether the word is anywhere in the file. Few traces have payloads, and a CSV file has the column only
 * then.
 */
bool trace_mentions_payload(const char *path);

/* Appends to @problem how many lines were malformed, if any. */
void trace_read_tell(const TraceReadCounts *counts, Text *problem);

/*
 * @func may be NULL: only counts. Return: 0, TRACE_E_FAILED (errno, 0 = a message was logged), what @func
 * returned, -ENOMEM.
 */
int trace_read(const char *path, TraceForm form, TraceEventFunc func, void *userdata,
               TraceReadCounts *counts);

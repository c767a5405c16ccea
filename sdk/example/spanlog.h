/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Span Log
 *
 * Writes down which thread worked for which span and when, to judge a profile
 * by. Times are CLOCK_MONOTONIC, ns, taken on both sides of each change: between
 * `before` and `after` the published span may be the old or the new one.
 *
 *     span_id,operation,tid,start_before,start_after,end_before,end_after
 *     00f067aa0ba902b7,checkout,4711,81236401,81236433,82637012,82637041
 *
 * Workers append to memory of their own; a thread of the log writes it to the
 * file, so that no request waits for a disk.
 */

#include <stdint.h>
#include <sys/types.h>

#include "operations.h"

typedef struct SpanLog SpanLog;
typedef struct SpanLogBuffer SpanLogBuffer;

typedef struct SpanLogEntry {
        uint64_t span_id;
        uint64_t start_before_ns, start_after_ns;
        uint64_t end_before_ns, end_after_ns;
        pid_t tid;
        OperationKind operation;
} SpanLogEntry;

/* Return: 0, -errno of the file. */
int spanlog_new(SpanLog **logp, const char *path);

/* Writes what is left. Return: 0, -errno of the first write that failed. */
int spanlog_close(SpanLog *log);

/* A place for one thread to append to; belongs to the log. NULL = no memory. */
SpanLogBuffer *spanlog_open_buffer(SpanLog *log);

/* For the one thread that owns the buffer. Without memory the entry is lost and spanlog_close() says so. */
void spanlog_append(SpanLogBuffer *buffer, const SpanLogEntry *entry);

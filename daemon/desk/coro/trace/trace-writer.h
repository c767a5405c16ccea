/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Trace Writer
 *
 * Writes a trace (trace.h) of any form: events as they come, then the rows of stations and mappings. The file
 * is complete up to its last line at any time.
 */

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "core/base/file/outfile.h"
#include "core/base/util/macro.h"
#include "desk/coro/trace/trace-rows.h"
#include "desk/coro/trace/trace.h"

typedef struct TraceOptions {
        /* write station, event, birth, lost and pid of each event, and the rows of stations and mappings */
        bool extra;
        bool payload_column;            /* a payload column for CSV, where a column too many could surprise */
        /* a thread of its own writes lines, so that the caller never waits for a disk */
        bool behind;
        bool append;                    /* JSON lines go behind the lines that are there */
        mode_t mode;                    /* mode of new files */
        bool whole;                     /* a file of lines has no name before trace_writer_close() */
        OutfileReaders readers;         /* readers of the inputs that the trace is made from */
        /* size of the events in it; later ones are dropped and counted; 0 = no limit */
        uint64_t max_bytes;
} TraceOptions;

typedef struct TraceWriter TraceWriter;

/* `-` = JSON lines on standard output. Return: 0, TRACE_E_*, -ENOMEM. */
int trace_writer_new(TraceWriter **writerp, const char *path, TraceForm form, const TraceOptions *options);

/* A failed write is kept for trace_writer_close(), which says it; events after it are dropped. */
void trace_writer_event(TraceWriter *writer, const CoroEvent *event);
void trace_writer_station(TraceWriter *writer, const TraceStation *station);
void trace_writer_mapping(TraceWriter *writer, const TraceMapping *mapping);

/*
 * Makes written events visible to readers once the oldest has waited for as long as is good for the form; ten
 * times as long while events come (@busy), since to hand lines on takes as long as a burst.
 */
void trace_writer_flush(TraceWriter *writer, uint64_t now_ns, bool busy);

/* Whether there are events that trace_writer_flush() has not made visible yet. */
bool trace_writer_is_pending(const TraceWriter *writer);

/* Whether some lines can be added without a wait for the thread that writes. */
bool trace_writer_has_room(const TraceWriter *writer);

/* Number of times that a trace written `behind` has waited for its file. */
uint64_t trace_writer_n_stalls(const TraceWriter *writer);

/*
 * Ends the file. *n_droppedp: events over the limit or after a failure. *problemp: what failed, for people;
 * set with TRACE_E_FAILED. Return: 0, TRACE_E_FAILED.
 */
int trace_writer_close(TraceWriter *writer, uint64_t *n_droppedp, const char **problemp);
TraceWriter *trace_writer_free(TraceWriter *writer);
DEFINE_CLEANUP(TraceWriter, trace_writer_free)

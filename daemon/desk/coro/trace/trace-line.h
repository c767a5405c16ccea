/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Line of a Trace
 *
 * One event as a line of JSON or CSV (trace.h), printed and parsed. Pure.
 */

#include <stddef.h>
#include <stdint.h>

#include "core/coro/station-read.h"

enum {
        TRACE_LINE_MAX = 512,
        TRACE_MAX_COLUMNS = 64,
};

/* A number as text, for the next line that has the same number, or one more. */
typedef struct TraceDigits {
        uint64_t value;
        uint8_t n;                      /* bytes of text; 0 = not made yet */
        char text[27];
} TraceDigits;

/*
 * The parts that all lines of a station share, as text. Starts as zeros and belongs to one form (with or
 * without `extra`). An event of another station replaces the parts.
 */
typedef struct TraceParts {
        uint64_t probe_id, birth_ns;    /* the coroutine that the parts are of */
        uint32_t station, pid;
        uint8_t n_head, n_middle, n_tail, n_end;        /* bytes of each; n_head 0 = not made yet */
        char head[48], middle[32], tail[40], end[24];
        TraceDigits tid, seq, number;
        TraceDigits time;               /* without its last eight digits */
} TraceParts;

/*
 * Prints an event as a line with its newline. @to: TRACE_LINE_MAX bytes, of which those behind the line are
 * scribbled on. Return: size of the line.
 */
size_t trace_print_jsonl(char *to, const CoroEvent *event, bool extra, TraceParts *parts);
/* coroTracer's CSV, which has no more than these columns. */
size_t trace_print_csv(char *to, const CoroEvent *event, bool payload, TraceParts *parts);
const char *trace_csv_header(bool payload);

/* The field of each column of a CSV file; -1 = a column that we do not know. */
typedef struct TraceColumns {
        int fields[TRACE_MAX_COLUMNS];
        unsigned n;
} TraceColumns;

enum {
        _TRACE_PARSE_E_SUCCESS,
        TRACE_PARSE_E_MALFORMED,
};

/* Parses a line without its newline. *event is set on success only. Return: 0, TRACE_PARSE_E_MALFORMED. */
int trace_parse_jsonl(const char *line, size_t size, CoroEvent *event);
int trace_parse_csv_header(const char *line, size_t size, TraceColumns *columns);
int trace_parse_csv(const TraceColumns *columns, const char *line, size_t size, CoroEvent *event);

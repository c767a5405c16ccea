/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Trace Reader
 *
 * What the readers of all forms of a trace (trace.h) share. A line that is no event (cut by a crash, or of
 * another program) is counted and left out. desk/coro/read/trace-source.h reads files.
 */

#include "core/base/data/intern.h"
#include "core/base/util/text.h"
#include "desk/coro/trace/trace-line.h"
#include "desk/coro/trace/trace-rows.h"
#include "desk/coro/trace/trace.h"

/* Identity of a coroutine: (process, station, birth) where they are known, else the probe id. */
static inline uint64_t trace_key(uint32_t pid, uint32_t station, uint64_t birth_ns, uint64_t probe_id) {
        uint64_t key[] = { (uint64_t)pid << 32 | station, birth_ns, birth_ns ? 0 : probe_id };

        return hash_bytes(key, sizeof(key));
}

/* Receivers of what is read; NULL = not wanted and not looked at. Return: 0, else the reading ends. */
typedef struct TraceTakers {
        int (*event)(void *userdata, const CoroEvent *event);
        int (*station)(void *userdata, const TraceStationEnd *end);
        int (*mapping)(void *userdata, const TraceMapping *mapping);
        void *userdata;
} TraceTakers;

typedef struct TraceReadCounts {
        uint64_t n_events, n_malformed;
        uint64_t n_rows[N_TRACE_TABLES], n_malformed_rows[N_TRACE_TABLES];
        /* the last malformed line is one of CSV without an end, whose last number may have lost digits */
        bool cut;
} TraceReadCounts;

/* Hands a row on, if it is sound. Return: 0, what the taker returned. */
int trace_take_row(const TraceTakers *to, const TraceRow *row, TraceReadCounts *counts);
/* The same of a line that trace_is_row(). Return: as above, -ENOMEM. */
int trace_take_row_line(const TraceTakers *to, const char *line, size_t size, TraceReadCounts *counts);

/* Whether something was malformed. Appends to @problem what, and how often. */
bool trace_read_tell(const TraceReadCounts *counts, Text *problem);

/*
 * Whether the word is anywhere in the file. Few traces have payloads, and a CSV file has the column only
 * then.
 */
bool trace_mentions_payload(const char *path);

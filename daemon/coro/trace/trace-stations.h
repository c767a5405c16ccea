/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * What a trace says of its stations at their end (trace.h): whether the coroutine is dead, and what was lost.
 * It stands in the database itself, or beside other forms in NAME.stations.csv; traces of the real engine
 * have none.
 */

#include "coro/trace/trace.h"

typedef struct TraceStationEnd {
        uint64_t pid, station, probe_id, birth_ns;
        bool dead, torn, corrupt, active;
        uint64_t n_read, n_lost, n_rejected, n_skipped;
        uint64_t last_ns, last_tid, last_address;
        /* when it was last looked at: it has waited until then at least. 0 = not known */
        uint64_t until_ns;
        StationCode code;
} TraceStationEnd;

enum {
        _TRACE_STATIONS_E_SUCCESS,
        TRACE_STATIONS_E_NONE,          /* there are none */
        TRACE_STATIONS_E_MALFORMED,
};

#define TRACE_STATIONS_COLUMNS \
        "pid,station,probe_id,birth,dead,torn,corrupt,read,lost,rejected,skipped,last_ts,last_tid,last_addr,is_active,until," \
        "process,frame,code"

/*
 * One line with these columns (those from `until` on may be missing), without its newline. Pure. Return: 0,
 * TRACE_STATIONS_E_MALFORMED.
 */
int trace_station_parse(const char *line, size_t size, TraceStationEnd *end);

typedef int (*TraceStationFunc)(void *userdata, const TraceStationEnd *end);

/*
 * Those of the trace at @path. Lines that are none are left out and counted. Return: 0,
 * TRACE_STATIONS_E_NONE, what @func returned, -ENOMEM.
 */
int trace_stations_read(const char *path, TraceForm form, TraceStationFunc func, void *userdata,
                        uint64_t *n_malformedp);

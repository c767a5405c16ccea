/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Coroutine Engine
 *
 * Runs a command that publishes stations, or looks at processes that do already, and writes each
 * event into a trace until the end. Runs its own loop: between two scans there are
 * microseconds at times.
 */

#include "coro/station/region-scan.h"
#include "coro/trace/trace-writer.h"

typedef struct CoroOptions {
        const char *region_path, *socket_path;  /* NULL = a new directory of its own */
        uint32_t n_stations;
        StationDialect dialect;         /* UNKNOWN = find out */
        const char *output;
        TraceForm form;
        TraceOptions trace;
        /* learn what addresses are, so that they have names afterwards; with `extra` alone */
        bool places;
        uint64_t duration_ns;           /* 0 = to the end */
        bool progress;                  /* a line on standard error, once a second */
        /* SIGINT reaches the command as SIGTERM, as users of the real engine know it */
        bool term_on_interrupt;
} CoroOptions;

typedef struct CoroSummary {
        RegionScanTotals totals;
        StationDialect dialect;
        uint64_t duration_ns, n_stalls, n_dropped;
        bool cut, damaged;
} CoroSummary;

enum {
        _CORO_E_SUCCESS,
        CORO_E_FAILED,                  /* a message was logged */
};

/* Runs @argv with stations. *statusp: as a shell gives it, 128 + N for a signal. Return: 0,
 * CORO_E_FAILED (*statusp: 127 = there is no such command, 126 = it does not start, 125 = the fault is ours),
 * -errno.
 */
int coro_run(const CoroOptions *options, char **argv, CoroSummary *summary, int *statusp);

/*
 * Reads the regions that these processes have mapped until all of them have ended, SIGINT or SIGTERM comes,
 * or the duration is over. Events carry the process' id. Return: 0, CORO_E_FAILED, -errno.
 */
int coro_attach(const CoroOptions *options, const uint32_t *pids, size_t n_pids, CoroSummary *summary);

/* What a person wants to know at the end, to the log. */
void coro_summary_log(const CoroSummary *summary);

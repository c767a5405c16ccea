/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Recording
 *
 * The part that the engine (engine.h) and the attached reader (attach.h) share: scans, the trace that they
 * feed, the progress line, the sums at the end. Its owner decides when the next scan comes.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "desk/coro/engine/address-names.h"
#include "desk/coro/engine/contention.h"
#include "desk/coro/engine/event-queue.h"
#include "desk/coro/engine/writer-queue.h"
#include "desk/coro/trace/trace-writer.h"
#include "host/coro/scan-interval.h"
#include "host/coro/region-scan.h"

typedef struct CoroOptions {
        const char *region_path;        /* NULL = in a new directory of the engine */
        const char *socket_path;        /* NULL = beside the region, with .sock after its name */
        uint32_t n_stations;
        const char *output;
        TraceForm form;
        TraceOptions trace;
        /* learn where addresses lie, so that they have names afterwards; only with `extra` */
        bool address_names;
        uint64_t buffer_bytes;          /* for events that wait to become lines, at most */
        uint64_t duration_ns;           /* 0 = to the end */
        bool progress;                  /* a line on standard error, once a second */
        /* SIGINT reaches the command as SIGTERM, as users of coroTracer know it */
        bool term_on_interrupt;
} CoroOptions;

typedef struct CoroSummary {
        RegionScanTotals totals;
        StationDialect dialect;
        uint64_t duration_ns, n_stalls, n_dropped;
        bool cut, damaged;              /* a region was cut; a header was written over */
} CoroSummary;

enum {
        _CORO_E_SUCCESS,
        CORO_E_FAILED,                  /* a message was logged */
};

/* Writes the summary to the log, for people. */
void coro_summary_log(const CoroSummary *summary);

typedef struct Recording {
        const CoroOptions *options;
        TraceWriter *writer;            /* writer of lines; NULL for a database */
        WriterQueue *writer_queue;      /* queue of a database; NULL for lines */
        EventQueue *queue;              /* events that become lines between scans; NULL for a database */
        uint32_t n_lines;               /* most lines that are made between two scans */
        uint64_t n_full;                /* times that the queue had no room, so that lines came first */
        AddressNames *names;            /* NULL = no names are wanted */
        Contention *contention;         /* NULL = it is not looked for */
        bool is_contended;              /* others want the CPU: lines take little of it */
        bool is_outrun;                 /* many of the last events were lost: no wait is short enough */
        uint64_t recent_events, recent_lost;
        uint64_t lines_ns;              /* the last time that lines were made */
        ScanInterval interval;
        bool is_woken;                  /* by a byte of the program; else bursts can only be followed */
        uint64_t begin_ns, progress_ns, progress_events, n_events, n_lost;
} Recording;

/* Opens the trace of the regions @scans. Return: 0, CORO_E_FAILED, -errno. */
int recording_open(Recording *recording, const CoroOptions *options, const RegionScan *scans,
                   size_t n_scans);

/*
 * To be called by the thread that will scan, when the command has started. Begins to learn where addresses
 * lie, if that is wanted. Regions and scans must not move from here on.
 */
void recording_watch(Recording *recording, const RegionScan *scans, size_t n_scans);

/* Return: false = a thread that cannot be ended still reads the regions: they must stay mapped. */
bool recording_deinit(Recording *recording);

/* Runs each scan once and adapts the interval. Return: whether there was an event. */
bool recording_scan(Recording *recording, RegionScan *scans, size_t n_scans);

/* Whether events wait that may become lines now: it is no time to sleep. */
bool recording_is_behind(const Recording *recording);

/* How long a reader that sleeps may do so: not beyond the time at which lines become readable. */
uint64_t recording_deadline_ns(const Recording *recording);

/* Prints the progress line, once a second, if it is wanted. */
void recording_progress(Recording *recording, const RegionScan *scans, size_t n_scans, uint64_t now_ns);

/* Runs the last scan and closes the trace. Return: 0, CORO_E_FAILED, -ENOMEM. */
int recording_finish(Recording *recording, RegionScan *scans, size_t n_scans, CoroSummary *summary);

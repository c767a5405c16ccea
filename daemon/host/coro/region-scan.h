/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Region Scan
 *
 * Reads the stations of one region again and again, and hands on each new event. A scan looks at one word of
 * each living station, and reads on only where that has changed. Memory: 12 bytes a station, and the size of
 * a StationState for each that was used.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/coro/station-read.h"
#include "host/coro/region.h"

typedef struct RegionScan {
        Region *region;                 /* borrowed */
        uint32_t pid;                   /* process id of its events; 0 = not known */
        StationDialect dialect;
        bool late;                      /* the region was in use before the first scan */
        uint32_t n_seen;                /* stations that were taken at the last look */
        uint32_t n_without;             /* coroutines that found no station */
        /*
         * For each station that is scanned: the cache line of the region in which the next event will come,
         * and its seq then.
         */
        uint32_t *lines;
        uint64_t *wanted;
        uint32_t n_alive;
        uint32_t look_at;               /* index of the next one that may be dead */
        uint32_t depth;                 /* events of the last station, a guess for the next */
        /* stay at a station while its events keep coming; set by the caller */
        bool follow;
        bool alone;                     /* only one station has news, as far as this scan has come */
        uint32_t trust;                 /* waits in vain for a next event that are left */
        uint32_t n_unawaited;           /* waits that were not made */
        StationState *states;           /* by station */
        bool finished;                  /* the region was cut, or region_scan_finish() was called */
} RegionScan;

/* Results of a scan. */
typedef struct RegionScanFound {
        uint64_t n_events;
        uint64_t n_lost;
        /* most events of one station, lost ones included; at 8 its ring was just full */
        uint32_t n_most;
} RegionScanFound;

typedef struct RegionScanTotals {
        uint64_t n_stations, n_without, n_read, n_lost, n_rejected, n_skipped, n_suspends, n_resumes,
                n_migrations;
        uint64_t n_lossy, n_torn, n_corrupt, n_nameless, n_reused, n_dead, n_never_ran, n_suspended;
} RegionScanTotals;

typedef int (*RegionScanEventFunc)(void *userdata, const CoroEvent *event);

/* @dialect: UNKNOWN = find out. Return: 0, -ENOMEM. */
int region_scan_init(RegionScan *scan, Region *region, StationDialect dialect, bool late);
void region_scan_deinit(RegionScan *scan);

/* Return: 0, or what @func returned (the event it refused counts as read). */
int region_scan_run(RegionScan *scan, uint64_t now_ns, RegionScanEventFunc func, void *userdata,
                    RegionScanFound *found);

/* The last scan: reads dead stations, too, and counts what was lost at the end. */
int region_scan_finish(RegionScan *scan, uint64_t now_ns, RegionScanEventFunc func, void *userdata,
                       RegionScanFound *found);

/* Sums over all stations. Return: 0, -ENOMEM. */
int region_scan_totals(const RegionScan *scan, RegionScanTotals *totals);

/* The end of a log line: ` (seqlock dialect)`, or "" for an unknown dialect. */
const char *station_dialect_text(StationDialect dialect);

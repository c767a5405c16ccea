/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * RegionScan
 *
 * Reads the stations of one region again and again and hands on each new event. A scan
 * looks at one word of each living station; only where that has moved is more read.
 * Memory: 12 bytes a station, and 152 for each that was used.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "coro/station/region.h"
#include "coro/station/station-read.h"

typedef struct RegionScan {
        Region *region;                 /* borrowed */
        uint32_t pid;                   /* that events carry; 0 = not known */
        StationDialect dialect;
        bool dialect_is_given;
        bool late;                      /* the region was in use before we came */
        uint32_t n_seen;                /* stations taken when last looked */
        uint32_t n_without;             /* coroutines that found no station */
        /*
         * Of the stations that are scanned: the cache line of the region where the next event must come, and
         * its seq then.
         */
        uint32_t *lines;
        uint64_t *wanted;
        uint32_t n_alive;
        uint32_t look_at;               /* of these: whose death is looked for next */
        uint32_t depth;                 /* events that the last station had, a guess for the next */
        /* stay at a station whose events are coming just now; the caller's wish */
        bool follow;
        StationState *states;           /* by station */
        bool finished;                  /* the region was cut, or region_scan_finish() was called */
} RegionScan;

/* What a scan has found. */
typedef struct RegionScanFound {
        uint64_t n_events;
        uint64_t n_lost;
        /* most events of one station, lost ones too: at 8 the next look was due */
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

/* The last scan: dead stations too; then settles what was lost. */
int region_scan_finish(RegionScan *scan, uint64_t now_ns, RegionScanEventFunc func, void *userdata,
                       RegionScanFound *found);

/* Sums over all stations. Return: 0, -ENOMEM. */
int region_scan_totals(const RegionScan *scan, RegionScanTotals *totals);

/* For the end of a line: ` (seqlock dialect)`, or nothing as long as none is known. */
const char *station_dialect_text(StationDialect dialect);

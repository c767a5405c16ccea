/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Scan Interval
 *
 * Decides how long to wait after a scan. A station keeps eight events: after a scan that finds more than half
 * of that at one station, or a loss, the next must come sooner; after one that finds few, it may come later.
 * A region without events for a while is idle: its reader sleeps until a wake-up or a deadline, which keeps
 * the cost of looking small.
 */

#include <stdbool.h>
#include <stdint.h>

#include "core/base/util/clock.h"
#include "host/coro/region-scan.h"

#define SCAN_INTERVAL_STEP_NS (5 * NS_PER_US)
#define SCAN_INTERVAL_MAX_WAIT_NS NS_PER_MS
#define SCAN_INTERVAL_IDLE_NS (20 * NS_PER_MS)           /* time without an event until a region is idle */
/* time without any waiting, after a loss or a burst that was followed */
#define SCAN_INTERVAL_HUNGRY_NS (50 * NS_PER_MS)
#define SCAN_INTERVAL_MIN_DEADLINE_NS (50 * NS_PER_MS)
#define SCAN_INTERVAL_MAX_DEADLINE_NS NS_PER_SEC
/*
 * Deadline of an idle region ÷ time of a scan: 0.2 % of a CPU. A region so large that this would be over a
 * second may take 1.25 %.
 */
enum { SCAN_INTERVAL_IDLE_SHARE = 500, SCAN_INTERVAL_LARGE_SHARE = 80 };

/* Two ways to read bursts; see scan-interval.c. */
typedef enum ScanWay { SCAN_WAIT_FOR_BYTES, SCAN_FOLLOW, N_SCAN_WAYS } ScanWay;

/* Events of a trial of one way, and of eight trials one is of the way that was worse. */
enum { SCAN_INTERVAL_TRIAL_EVENTS = 1024, SCAN_INTERVAL_TRIALS = 8 };

typedef struct ScanInterval {
        uint64_t wait_ns;               /* 0 = scan again at once */
        uint64_t scanned_ns;            /* end of the last scan */
        uint64_t deadline_ns;           /* time until the next scan of an idle region */
        uint64_t event_ns;              /* end of the last scan with an event */
        uint64_t hungry_until_ns;
        bool hungry, idle;
        ScanWay way;                    /* while hungry */
        uint64_t n_events, n_lost;      /* counts of this trial */
        uint32_t n_trials;
        uint32_t lost[N_SCAN_WAYS];     /* share that each lost of late, in 1/65536, plus 1; 0 = not tried */
} ScanInterval;

/* Adapts to the results of a scan that took @scan_ns and ended at @now_ns. */
void scan_interval_update(ScanInterval *interval, const RegionScanFound *found, uint64_t scan_ns,
                          uint64_t now_ns);

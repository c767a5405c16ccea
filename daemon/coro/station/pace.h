/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Pace
 *
 * How long to wait after a scan. A station keeps eight events: when a scan finds more than half of
 * that, or a loss, the next must come sooner; when it finds few, it may come later. After some time without
 * events the region is idle, and waits for a wake-up with a deadline that keeps the cost of looking small.
 */

#include <stdbool.h>
#include <stdint.h>

#include "base/util/clock.h"
#include "coro/station/region-scan.h"

#define PACE_STEP_NS (5 * NS_PER_US)
#define PACE_MAX_WAIT_NS NS_PER_MS
#define PACE_IDLE_NS (20 * NS_PER_MS)           /* without an event */
/* after a loss, or a burst that was followed: no waiting at all */
#define PACE_HUNGRY_NS (50 * NS_PER_MS)
#define PACE_MIN_DEADLINE_NS (50 * NS_PER_MS)
#define PACE_MAX_DEADLINE_NS NS_PER_SEC
/*
 * Deadline ÷ time of a scan: 0.2 % of a CPU; of a region so large that a second is too short for that, 1.25
 * %.
 */
enum { PACE_IDLE_SHARE = 500, PACE_LARGE_SHARE = 80 };

typedef struct Pace {
        uint64_t wait_ns;               /* 0 = scan again at once */
        uint64_t deadline_ns;           /* when idle */
        uint64_t event_ns;              /* last scan with an event */
        uint64_t hungry_until_ns;
        bool hungry, idle;
} Pace;

/*
 * For the thread that scans, once others have been started: turns of a tenth of a millisecond, so that it
 * goes before a thread that computes when its wait is over. Eight events of a station may come in less time
 * than another's usual turn takes.
 */
void pace_take_short_turns(void);

/* Takes what a scan of @scan_ns that ended @now_ns has found into account. */
void pace_update(Pace *pace, const RegionScanFound *found, uint64_t scan_ns, uint64_t now_ns);

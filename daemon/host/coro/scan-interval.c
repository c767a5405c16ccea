/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Waits of a reader while a burst comes and goes:
 *
 *      found                            wait before the next scan
 *      1 event of a station, often      5 µs, 10.6 µs, 16.9 µs … (an eighth more, and 5 µs) up to 1 ms
 *      5 of a station                   halved; below 20 µs: none
 *      a loss, or 9 of a station        none for 50 ms: hungry
 *      none for 20 ms                   idle: the deadline is 500 times a scan, from 50 ms to 1 s
 *
 * Only a wait that was made shows that there is time for it: a reader that is busy with lines between its
 * scans comes soon, finds few events each time, and must not conclude that it may sleep for a millisecond.
 *
 * A burst of one coroutine is read best by staying at its station, as long as the reader has a CPU. Where
 * others want that CPU, who has used much of it has none when the next burst comes: then it is better to
 * sleep after each event and to be woken for the next. Which is better no clock tells, but losses do. So a
 * hungry reader tries both, 1,024 events each, and keeps to the one that loses less; the other has one trial
 * in eight. A reader of a region that another program has made is not woken: it can only follow.
 */

#include "host/coro/scan-interval.h"

#include "core/base/util/macro.h"

enum { MANY = SPANPROF_STATION_EPOCHS / 2 };

static void slow_down(ScanInterval *interval, uint64_t scan_ns) {
        interval->wait_ns = MIN(interval->wait_ns + interval->wait_ns / 8 + SCAN_INTERVAL_STEP_NS,
                                MAX(SCAN_INTERVAL_MAX_WAIT_NS, scan_ns));
}

static ScanWay better(const ScanInterval *interval) {
        return interval->lost[SCAN_FOLLOW] < interval->lost[SCAN_WAIT_FOR_BYTES] ? SCAN_FOLLOW
                                                                                 : SCAN_WAIT_FOR_BYTES;
}

/* Counts for the way that is tried, and chooses the next at the end of its trial. */
static void try_ways(ScanInterval *interval, const RegionScanFound *found) {
        uint32_t *lost = &interval->lost[interval->way], share;

        interval->n_events += found->n_events + found->n_lost;
        interval->n_lost += found->n_lost;
        if (interval->n_events < SCAN_INTERVAL_TRIAL_EVENTS)
                return;
        share = (uint32_t)((interval->n_lost << 16) / interval->n_events) + 1;
        *lost = *lost ? (3 * *lost + share) / 4 : share;
        interval->n_events = interval->n_lost = 0;
        /* a way that was never tried has lost nothing */
        interval->way = better(interval);
        if (++interval->n_trials % SCAN_INTERVAL_TRIALS == 0)
                interval->way = interval->way == SCAN_FOLLOW ? SCAN_WAIT_FOR_BYTES : SCAN_FOLLOW;
}

void scan_interval_update(ScanInterval *interval, const RegionScanFound *found, uint64_t scan_ns,
                          uint64_t now_ns) {
        bool waited = now_ns >= interval->scanned_ns + interval->wait_ns + scan_ns;

        interval->scanned_ns = now_ns;
        if (found->n_events || found->n_lost || !interval->event_ns)
                interval->event_ns = now_ns;
        /* more than eight events can only be read by following */
        if (found->n_lost || found->n_most > SPANPROF_STATION_EPOCHS)
                interval->hungry_until_ns = now_ns + SCAN_INTERVAL_HUNGRY_NS;
        if (found->n_most > MANY)
                interval->wait_ns = interval->wait_ns > 4 * SCAN_INTERVAL_STEP_NS ? interval->wait_ns / 2 : 0;
        else if (found->n_most < MANY && waited)
                slow_down(interval, scan_ns);
        interval->hungry = now_ns < interval->hungry_until_ns;
        if (interval->hungry) {
                interval->wait_ns = 0;
                try_ways(interval, found);
        }
        interval->idle = now_ns - interval->event_ns >= SCAN_INTERVAL_IDLE_NS && !interval->hungry;
        interval->deadline_ns = MIN(MAX(scan_ns * SCAN_INTERVAL_IDLE_SHARE, SCAN_INTERVAL_MIN_DEADLINE_NS),
                                MAX(scan_ns * SCAN_INTERVAL_LARGE_SHARE, SCAN_INTERVAL_MAX_DEADLINE_NS));
}

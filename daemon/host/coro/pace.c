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
 * in eight. Nobody wakes a reader of a region that another program has made: it can only follow.
 */

#include "host/coro/pace.h"

#include "core/base/util/macro.h"

enum { MANY = SPANPROF_STATION_EPOCHS / 2 };

static void slow_down(Pace *pace, uint64_t scan_ns) {
        pace->wait_ns = MIN(pace->wait_ns + pace->wait_ns / 8 + PACE_STEP_NS, MAX(PACE_MAX_WAIT_NS, scan_ns));
}

static PaceWay better(const Pace *pace) {
        return pace->lost[PACE_FOLLOW] < pace->lost[PACE_WAIT_FOR_BYTES] ? PACE_FOLLOW : PACE_WAIT_FOR_BYTES;
}

/* Counts for the way that is tried, and chooses the next at the end of its trial. */
static void try_ways(Pace *pace, const RegionScanFound *found) {
        uint32_t *lost = &pace->lost[pace->way], share;

        pace->n_events += found->n_events + found->n_lost;
        pace->n_lost += found->n_lost;
        if (pace->n_events < PACE_TRIAL_EVENTS)
                return;
        share = (uint32_t)((pace->n_lost << 16) / pace->n_events) + 1;
        *lost = *lost ? (3 * *lost + share) / 4 : share;
        pace->n_events = pace->n_lost = 0;
        /* one that was never tried has lost nothing */
        pace->way = better(pace);
        if (++pace->n_trials % PACE_TRIALS == 0)
                pace->way = pace->way == PACE_FOLLOW ? PACE_WAIT_FOR_BYTES : PACE_FOLLOW;
}

void pace_update(Pace *pace, const RegionScanFound *found, uint64_t scan_ns, uint64_t now_ns) {
        bool waited = now_ns >= pace->scanned_ns + pace->wait_ns + scan_ns;

        pace->scanned_ns = now_ns;
        if (found->n_events || found->n_lost || !pace->event_ns)
                pace->event_ns = now_ns;
        /* more than eight events can only be read by following */
        if (found->n_lost || found->n_most > SPANPROF_STATION_EPOCHS)
                pace->hungry_until_ns = now_ns + PACE_HUNGRY_NS;
        if (found->n_most > MANY)
                pace->wait_ns = pace->wait_ns > 4 * PACE_STEP_NS ? pace->wait_ns / 2 : 0;
        else if (found->n_most < MANY && waited)
                slow_down(pace, scan_ns);
        pace->hungry = now_ns < pace->hungry_until_ns;
        if (pace->hungry) {
                pace->wait_ns = 0;
                try_ways(pace, found);
        }
        pace->idle = now_ns - pace->event_ns >= PACE_IDLE_NS && !pace->hungry;
        pace->deadline_ns = MIN(MAX(scan_ns * PACE_IDLE_SHARE, PACE_MIN_DEADLINE_NS),
                                MAX(scan_ns * PACE_LARGE_SHARE, PACE_MAX_DEADLINE_NS));
}

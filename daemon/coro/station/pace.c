/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Waits of a reader while a burst comes and goes:
 *
 *      found                            wait before the next scan
 *      1 event of a station, often      5 µs, 10.6 µs, 16.9 µs … (an eighth more, and 5 µs) up to 1 ms
 *      5 of a station                   halved; below 20 µs: none
 *      a loss, or 9 of a station        none for 50 ms: hungry
 *      none for 20 ms                   idle: the deadline is 500 times a scan, from 50 ms to 1 s
 */

#include "coro/station/pace.h"

#include <linux/sched.h>
#include <linux/sched/types.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/util/macro.h"

enum { MANY = SPANPROF_STATION_EPOCHS / 2 };

#define TURN_NS (100 * NS_PER_US)       /* the shortest turn that the kernel grants */

void pace_take_short_turns(void) {
        struct sched_attr attr = { 0 };

        /* the user may have chosen another policy */
        if (syscall(SYS_sched_getattr, 0, &attr, sizeof(attr), 0) || attr.sched_policy != SCHED_NORMAL)
                return;
        attr.sched_runtime = TURN_NS;
        /* Linux before 6.12 ignores it; where it is refused, turns stay as they are */
        (void)!syscall(SYS_sched_setattr, 0, &attr, 0);
}

static void slow_down(Pace *pace, uint64_t scan_ns) {
        pace->wait_ns = MIN(pace->wait_ns + pace->wait_ns / 8 + PACE_STEP_NS, MAX(PACE_MAX_WAIT_NS, scan_ns));
}

void pace_update(Pace *pace, const RegionScanFound *found, uint64_t scan_ns, uint64_t now_ns) {
        if (found->n_events || found->n_lost || !pace->event_ns)
                pace->event_ns = now_ns;
        /* more than eight events can only be read by following */
        if (found->n_lost || found->n_most > SPANPROF_STATION_EPOCHS)
                pace->hungry_until_ns = now_ns + PACE_HUNGRY_NS;
        if (found->n_most > MANY)
                pace->wait_ns = pace->wait_ns > 4 * PACE_STEP_NS ? pace->wait_ns / 2 : 0;
        else if (found->n_most < MANY)
                slow_down(pace, scan_ns);
        pace->hungry = now_ns < pace->hungry_until_ns;
        if (pace->hungry)
                pace->wait_ns = 0;
        pace->idle = now_ns - pace->event_ns >= PACE_IDLE_NS && !pace->hungry;
        pace->deadline_ns = MIN(MAX(scan_ns * PACE_IDLE_SHARE, PACE_MIN_DEADLINE_NS),
                                MAX(scan_ns * PACE_LARGE_SHARE, PACE_MAX_DEADLINE_NS));
}

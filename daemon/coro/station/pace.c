/* SPDX-License-Identifier: Apache-2.0 */
#include "coro/station/pace.h"

#include <linux/sched.h>
#include <linux/sched/types.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/util/macro.h"

enum { MANY = SPANPROF_STATION_EPOCHS / 2 };

#define TURN_NS (100 * NS_PER_US)       /* the shortest that may be asked for */

void pace_take_short_turns(void) {
        struct sched_attr attr = { 0 };

        /* who runs us may have chosen another policy */
        if (syscall(SYS_sched_getattr, 0, &attr, sizeof(attr), 0) || attr.sched_policy != SCHED_NORMAL)
                return;
        attr.sched_runtime = TURN_NS;
        /* before Linux 6.12 it is ignored, and where it is refused we are as before */
        (void)!syscall(SYS_sched_setattr, 0, &attr, 0);
}

static void slow_down(Pace *pace, uint64_t scan_ns) {
        pace->wait_ns = MIN(pace->wait_ns + pace->wait_ns / 8 + PACE_STEP_NS, MAX(PACE_MAX_WAIT_NS, scan_ns));
}

void pace_update(Pace *pace, const RegionScanFound *found, uint64_t scan_ns, uint64_t now_ns) {
        if (found->n_events || found->n_lost || !pace->event_ns)
                pace->event_ns = now_ns;
        /* followed: it would have been lost */
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

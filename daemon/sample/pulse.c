/* SPDX-License-Identifier: Apache-2.0 */
#include "sample/pulse.h"

#include "util/clock.h"
#include "util/macro.h"

/*
 * Long enough for a virtual CPU that its host lets wait; a timer that is opened anew without need loses half a period.
 * Periods are drawn up to a quarter longer than nominal, and each draw throws away the one that had begun.
 */
#define MIN_SILENCE_NS (2 * NS_PER_SEC)
#define MIN_SILENCE_PERIODS 20

void pulse_reset(Pulse *pulse) {
        *pulse = (Pulse){ 0 };
}

bool pulse_has_stopped(Pulse *pulse, uint64_t entries, uint64_t now_ns, uint64_t period_ns) {
        if (!pulse->since_ns || entries != pulse->entries) {
                *pulse = (Pulse){ .entries = entries, .since_ns = now_ns };
                return false;
        }
        return now_ns - pulse->since_ns >= MAX(MIN_SILENCE_NS, MIN_SILENCE_PERIODS * period_ns);
}

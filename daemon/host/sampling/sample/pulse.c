/* SPDX-License-Identifier: Apache-2.0 */
#include "host/sampling/sample/pulse.h"

#include "core/base/util/clock.h"
#include "core/base/util/macro.h"

/*
 * Shortest silence that counts. It is long enough for a virtual CPU that its host keeps waiting, since asking
 * an idle CPU wakes it up. Periods are drawn up to a quarter longer than nominal, and each draw throws away
 * the one that had begun.
 */
#define MIN_SILENCE_NS (2 * NS_PER_SEC)
#define MIN_SILENCE_PERIODS 20

void pulse_reset(Pulse *pulse) {
        *pulse = (Pulse){ 0 };
}

bool pulse_is_silent(Pulse *pulse, uint64_t entries, uint64_t now_ns, uint64_t period_ns) {
        if (!pulse->since_ns || entries != pulse->entries) {
                *pulse = (Pulse){ .entries = entries, .since_ns = now_ns };
                return false;
        }
        return now_ns - pulse->since_ns >= MAX(MIN_SILENCE_NS, MIN_SILENCE_PERIODS * period_ns);
}

bool pulse_has_stopped(Pulse *pulse, uint64_t enabled_ns) {
        uint64_t before_ns = pulse->enabled_ns;

        if (before_ns && enabled_ns != before_ns)
                pulse_reset(pulse);
        else
                pulse->enabled_ns = enabled_ns;
        return before_ns && enabled_ns == before_ns;
}

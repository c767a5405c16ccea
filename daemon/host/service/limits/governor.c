/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Halves the frequency while the daemon's CPU time is above its limit, or would be over ten seconds if it
 * went on so, and doubles it when it has been far below for a while. Ticks beyond the frequency, which a
 * flight recorder and boosts have, go before that, and come back last. Above the limit of memory sampling
 * pauses.
 */

#include "host/service/limits/governor.h"

#include <string.h>

#include "core/base/util/clock.h"
#include "core/base/util/macro.h"

void governor_init(Governor *governor, uint32_t frequency, uint64_t max_cpu, uint64_t max_memory_bytes,
                   uint64_t now_ns, uint64_t cpu_ns) {
        *governor = (Governor){
                .max_cpu = max_cpu,
                .max_memory_bytes = max_memory_bytes,
                .nominal = frequency,
                .frequency = frequency,
                .since_ns = now_ns,
                .cpu_ns = cpu_ns,
        };
}

/* Less of the last two intervals: the end of a window is no pace. */
static double pace_of(const Governor *governor) {
        double newest = governor->percent[0];

        return governor->n_intervals > 1 ? MIN(newest, governor->percent[1]) : newest;
}

/*
 * Whether ten seconds, which any of the last intervals began, end above the limit at the present pace. A
 * burst counts until it is ten seconds old, so its next seconds have to make up for it.
 */
static bool foresees_excess(const Governor *governor, double pace, double max) {
        double sum = 0;

        for (int i = 0; i < GOVERNOR_N_INTERVALS; i++) {
                sum += governor->percent[i];
                if (sum + pace * (GOVERNOR_N_INTERVALS - 1 - i) > max * GOVERNOR_N_INTERVALS)
                        return true;
        }
        return false;
}

/* A daemon that was held up judges late: the time since then is as many intervals as fit. */
static void enter(Governor *governor, double percent, uint64_t length_ns) {
        uint64_t n = (length_ns + GOVERNOR_INTERVAL_NS / 2) / GOVERNOR_INTERVAL_NS;

        n = MIN(MAX(n, UINT64_C(1)), (uint64_t)GOVERNOR_N_INTERVALS);
        memmove(governor->percent + n, governor->percent,
                (GOVERNOR_N_INTERVALS - n) * sizeof(*governor->percent));
        for (uint64_t i = 0; i < n; i++)
                governor->percent[i] = percent;
        governor->n_intervals += (uint32_t)n;
}

/*
 * Half as many ticks are about half the work, so the way back is open only far below half the limit, and only
 * after a while: otherwise it would go up and down for ever.
 */
static int judge(Governor *governor, double percent) {
        double max = (double)governor->max_cpu, pace = pace_of(governor);
        const bool more = governor->has_more && !governor->holds_more;
        uint32_t least = governor->nominal / GOVERNOR_FORESEEN;

        governor->n_calm = percent < max / 3 ? governor->n_calm + 1 : 0;
        if ((more || governor->frequency > 1) &&
            (pace > max ||
             ((more || governor->frequency > least) && foresees_excess(governor, pace, max)))) {
                if (more)
                        governor->holds_more = true;
                else
                        governor->frequency /= 2;
                return pace > max ? GOVERNOR_E_LOWERED : GOVERNOR_E_FORESEEN;
        }
        if (governor->n_calm < GOVERNOR_CALM_INTERVALS ||
            (governor->frequency == governor->nominal && !governor->holds_more))
                return 0;
        governor->n_calm = 0;
        if (governor->frequency == governor->nominal) {
                governor->holds_more = false;
                return GOVERNOR_E_RAISED;
        }
        governor->frequency = MIN(governor->frequency * 2, governor->nominal);
        if (governor->frequency * 2 > governor->nominal)        /* 99 → 49 → 24 → 48 → 99, not 96 */
                governor->frequency = governor->nominal;
        return GOVERNOR_E_RAISED;
}

bool governor_is_due(const Governor *governor, uint64_t now_ns) {
        return governor->max_cpu && now_ns - governor->since_ns >= GOVERNOR_INTERVAL_NS;
}

int governor_cpu(Governor *governor, uint64_t now_ns, uint64_t cpu_ns) {
        uint64_t length_ns = now_ns - governor->since_ns, used_ns = cpu_ns - governor->cpu_ns;
        double percent;

        if (!governor_is_due(governor, now_ns))
                return 0;
        governor->since_ns = now_ns;
        governor->cpu_ns = cpu_ns;
        percent = 100.0 * (double)used_ns / (double)length_ns;
        enter(governor, percent, length_ns);
        return judge(governor, percent);
}

bool governor_memory(Governor *governor, uint64_t resident_bytes) {
        uint64_t max = governor->max_memory_bytes;

        governor->too_large = max && resident_bytes > (governor->too_large ? max - max / 10 : max);
        return governor->too_large;
}

/* SPDX-License-Identifier: Apache-2.0 */
#include "host/sampling/sample/rate.h"

#include <sys/random.h>

#include "core/base/util/clock.h"
#include "core/base/util/log.h"
#include "core/base/util/macro.h"
#include "core/base/util/stat.h"
#include "host/sampling/sample/machine.h"

/* To read the file of a setting costs as much as a drain. */
#define LOOK_INTERVAL_NS (5 * NS_PER_SEC)

/*
 * Jitter. A timer with a fixed period sees work in step with it always at the same place: a loop that takes 5
 * ms, sampled at 200 Hz, would show one line of code. So each period is drawn from 0.75 … 1.25 × a mean:
 *
 *     nominal 5.025 ms (199 Hz)    second 1: 4.31 ms   second 2: 5.86 ms   second 3: 4.88 ms   …
 *
 * Each period lasts for about a second, so the rate is the mean of 1/x for x from 0.75 to 1.25, which is
 * ln(1.25 ÷ 0.75) ÷ 0.5 = 1.0217. Besides, each new period throws away half of one that had begun. The mean
 * makes up for both, so that the rate is nominal.
 *
 * Draws of one CPU step through the range by the golden ratio from a random start. They are spread as evenly
 * as can be after any number of them, so short runs have the nominal rate too.
 */
uint64_t rate_draw_period(uint64_t nominal_ns, uint32_t *drawp) {
        uint64_t mean_ns = nominal_ns + nominal_ns * 217 / 10000;

        if (!*drawp && getrandom(drawp, sizeof(*drawp), GRND_NONBLOCK) != sizeof(*drawp))
                *drawp = (uint32_t)clock_monotonic_ns() << 12;
        *drawp += 0x9E3779B9;           /* 2^32 ÷ the golden ratio */
        mean_ns -= MIN(mean_ns, NS_PER_SEC / 4) * mean_ns / (2 * NS_PER_SEC);
        return mean_ns - mean_ns / 4 + (mean_ns / 2 * *drawp >> 32);
}

void rate_watch_begin(RateWatch *watch, uint32_t frequency) {
        watch->frequency = frequency;
        if (!machine_setting("perf_event_max_sample_rate", &watch->max_rate) && watch->max_rate < frequency)
                log_warning(
                        "kernel.perf_event_max_sample_rate is %lld: below the %u Hz asked for, samples will be lost",
                        (long long)watch->max_rate, frequency);
}

/* The kernel lowers the limit by itself when interrupts take too long. An administrator may lower it, too. */
void rate_watch(RateWatch *watch) {
        uint64_t now_ns = clock_monotonic_ns();
        int64_t rate;

        if (now_ns < watch->look_ns)
                return;
        watch->look_ns = now_ns + LOOK_INTERVAL_NS;
        if (machine_setting("perf_event_max_sample_rate", &rate))
                return;
        if (rate < watch->max_rate) {
                stat_add(COUNTER_RATE_LOWERED, 1);
                log_warning("kernel.perf_event_max_sample_rate fell from %lld to %lld%s",
                            (long long)watch->max_rate, (long long)rate,
                            rate < watch->frequency ? ": samples will be lost" : "");
        }
        watch->max_rate = rate;
}

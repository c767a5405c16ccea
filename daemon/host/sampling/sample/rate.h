/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Rate
 *
 * The rate of ticks: periods that are drawn around the nominal one, and the limit that the kernel sets, which
 * may fall while we run.
 */

#include <stdint.h>

/*
 * Draws a period for an event. @nominal_ns: 1 s ÷ frequency. *drawp: state of one CPU's draws, 0 = not begun.
 * Return: period in ns. The mean rate is nominal if each period is in force for about a second.
 */
uint64_t rate_draw_period(uint64_t nominal_ns, uint32_t *drawp);

typedef struct RateWatch {
        uint32_t frequency;
        int64_t max_rate;               /* perf_event_max_sample_rate at the last look */
        uint64_t look_ns;               /* no look before */
} RateWatch;

/* Warns if the limit is too low now, or has fallen since the last look (counted): one in five seconds. */
void rate_watch_begin(RateWatch *watch, uint32_t frequency);
void rate_watch(RateWatch *watch);

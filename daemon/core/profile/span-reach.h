/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Reach of Spans
 *
 * How long a span lasted, as its samples and waits say: from the first to the last of them. A span lasts at
 * least so long. What it did before its first sample and behind its last is not known, so it may have lasted
 * longer: by two ticks or less if it had the CPU then, by all of a wait that nobody recorded.
 */

#include "core/profile/window.h"

typedef struct SpanReach {
        uint64_t first_ns, last_ns;     /* in the window's clock; first > last = no event of it has a time */
        bool is_meant;                  /* span_reaches() was told so of one of its samples */
} SpanReach;

typedef bool (*SpanReachMeans)(void *userdata, const WindowProfile *profile, const WindowSample *sample);

/*
 * One for each link of a closed window, by its number; the caller's. @means: NULL = of each sample. Return:
 * 0, -ENOMEM.
 */
int span_reaches(const Window *window, SpanReachMeans means, void *userdata, SpanReach **reachesp);

static inline uint64_t span_reach_ns(const SpanReach *reach) {
        return reach->last_ns > reach->first_ns ? reach->last_ns - reach->first_ns : 0;
}

/*
 * *linksp: for each link, whether its trace has a span that is meant and reaches over more than @least_ns;
 * the caller's. Return: 0, -ENOMEM.
 */
int span_reach_slow_traces(const Window *window, uint64_t least_ns, SpanReachMeans means, void *userdata,
                           bool **linksp);

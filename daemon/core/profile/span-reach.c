/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Goes over the events of a window once. Most stand for the moment that they have. A wait has the time of its
 * end, and reaches back by its value:
 *
 *     span            ├──────────────────────────────────────┤
 *     events             |  |  |      ├────────────|  |  |
 *     reach              ├───────────────────────────────┤
 */

#include "core/profile/span-reach.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/util/error.h"

enum { TRACE_BYTES = 16 };

/* A wait that was kept is one, too. */
static bool is_waits(const Window *window, const WindowProfile *profile) {
        const char *type = window_get_string(window, profile->names.type, NULL);

        type += strncmp(type, PROFILE_KEPT, strlen(PROFILE_KEPT)) ? 0 : strlen(PROFILE_KEPT);
        return !strcmp(type, "off_cpu") || !strcmp(type, "off_cpu_waker");
}

static void add(SpanReach *reach, const WindowSample *sample, bool is_wait) {
        for (uint32_t i = 0; i < sample->n_times; i++) {
                uint64_t end_ns = sample->times_ns[i];
                int64_t length_ns = is_wait ? sample->values ? sample->values[i] : 1 : 0;

                reach->first_ns = MIN(reach->first_ns, end_ns - MIN((uint64_t)MAX(length_ns, 0), end_ns));
                reach->last_ns = MAX(reach->last_ns, end_ns);
        }
}

int span_reaches(const Window *window, SpanReachMeans means, void *userdata, SpanReach **reachesp) {
        const uint32_t n = window_n_links(window);
        SpanReach *reaches = calloc(n + 1u, sizeof(*reaches));

        if (!reaches)
                return error_origin(-ENOMEM);
        for (uint32_t i = 0; i < n; i++)
                reaches[i].first_ns = UINT64_MAX;
        for (uint32_t i = 0; i < window_n_profiles(window); i++) {
                const WindowProfile *profile = window_get_profile(window, i);
                bool is_wait = is_waits(window, profile);

                for (uint32_t j = 0; j < profile->n_samples; j++) {
                        WindowSample sample;

                        window_get_sample(window, i, j, &sample);
                        if (!sample.link)
                                continue;
                        add(&reaches[sample.link], &sample, is_wait);
                        if (!reaches[sample.link].is_meant)
                                reaches[sample.link].is_meant = !means || means(userdata, profile, &sample);
                }
        }
        *reachesp = reaches;
        return 0;
}

static int by_trace(const void *a, const void *b) {
        return memcmp(a, b, TRACE_BYTES);
}

int span_reach_slow_traces(const Window *window, uint64_t least_ns, SpanReachMeans means, void *userdata,
                           bool **linksp) {
        const uint32_t n = window_n_links(window);
        _cleanup_(freep) uint8_t (*traces)[TRACE_BYTES] = calloc(n + 1u, sizeof(*traces));
        _cleanup_(freep) bool *links = calloc(n + 1u, sizeof(*links));
        _cleanup_(freep) SpanReach *reaches = NULL;
        uint32_t n_slow = 0;
        int r = traces && links ? span_reaches(window, means, userdata, &reaches) : error_origin(-ENOMEM);

        if (r)
                return r;
        for (uint32_t i = 1; i < n; i++)
                if (reaches[i].is_meant && span_reach_ns(&reaches[i]) > least_ns)
                        memcpy(traces[n_slow++], window_get_link(window, i)->trace_id, TRACE_BYTES);
        qsort(traces, n_slow, TRACE_BYTES, by_trace);
        for (uint32_t i = 1; i < n && n_slow; i++) {
                const WindowLink *link = window_get_link(window, i);

                links[i] = bsearch(link->trace_id, traces, n_slow, TRACE_BYTES, by_trace);
        }
        *linksp = take(links);
        return 0;
}

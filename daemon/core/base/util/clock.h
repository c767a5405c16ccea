/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Clocks
 *
 * Everything inside runs on CLOCK_MONOTONIC in ns; REALTIME is made from it at
 * the very end with one offset per window, so that a clock step never tears a window.
 */

#include <stdint.h>
#include <time.h>

#define NS_PER_SEC UINT64_C(1000000000)
#define NS_PER_MS UINT64_C(1000000)
#define NS_PER_US UINT64_C(1000)

static inline uint64_t clock_read_ns(clockid_t id) {
        struct timespec ts = { 0 };

        clock_gettime(id, &ts);
        return (uint64_t)ts.tv_sec * NS_PER_SEC + (uint64_t)ts.tv_nsec;
}

static inline uint64_t clock_monotonic_ns(void) {
        return clock_read_ns(CLOCK_MONOTONIC);
}

/*
 * REALTIME - MONOTONIC, ns: the tightest of a few looks, since a thread may lose its CPU for milliseconds
 * between two readings, and all times of a window would be off by them.
 */
static inline int64_t clock_realtime_offset_ns(void) {
        uint64_t least_ns = UINT64_MAX;
        int64_t offset_ns = 0;

        for (int i = 0; i < 5; i++) {
                uint64_t before_ns = clock_monotonic_ns(), real_ns = clock_read_ns(CLOCK_REALTIME);
                uint64_t took_ns = clock_monotonic_ns() - before_ns;

                if (took_ns < least_ns) {
                        least_ns = took_ns;
                        offset_ns = (int64_t)(real_ns - before_ns - took_ns / 2);
                }
        }
        return offset_ns;
}

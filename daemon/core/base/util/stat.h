/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Statistics
 *
 * The process-wide counters of bpf/border/counters.h. The daemon's half counts here;
 * the kernel's half is copied in by the sampler. One thread only.
 */

#include <stdint.h>

#include "border/counters.h"

extern uint64_t stat_values[COUNTER_N];

static inline void stat_add(enum counter counter, uint64_t n) {
        stat_values[counter] += n;
}

static inline uint64_t stat_get(enum counter counter) {
        return stat_values[counter];
}

/* Name without `spanprof_`, label text ("" = none) and help of @counter. Static strings. */
const char *stat_metric(enum counter counter);
const char *stat_label(enum counter counter);
const char *stat_help(enum counter counter);

/* Sum of all LOST_* counters, kernel and daemon. */
uint64_t stat_lost(void);

/*
 * Ticks that are neither delivered nor lost yet. What an earlier process left in the spool is delivered, or
 * lost, beyond the ticks of this one: then 0.
 */
uint64_t stat_pending(void);

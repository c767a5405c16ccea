/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Self
 *
 * What this process itself uses, from /proc/self: for its limits and its metrics.
 */

#include <stdint.h>

typedef struct Self {
        uint64_t cpu_ns;
        uint64_t resident_bytes, virtual_bytes;
        uint64_t n_descriptors, max_descriptors;
        double start_time;              /* seconds since 1970 */
} Self;

/* Reads all of it. A value that cannot be read is 0. */
void self_read(Self *self);

/* Single values, for limits, once a second. */
uint64_t self_cpu_ns(void);
uint64_t self_resident_bytes(void);

/*
 * Each file with unwind rows keeps the descriptor of its table: a machine full of targets has more than the
 * usual soft limit of 1,024. The hard limit is the administrator's word.
 */
void self_raise_descriptor_limit(void);

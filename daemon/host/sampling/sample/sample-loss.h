/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Losses of Samples
 *
 * Ticks, page faults, crashes and allocations go one way, and may end on it for the same reasons. Each kind
 * has counters of its own, so that its books add up.
 */

#include "border/abi.h"

typedef enum SampleLoss {
        SAMPLE_LOSS_NOT_TARGET,         /* the process is none, or none any more */
        SAMPLE_LOSS_DEFERRED,           /* the process was forgotten while it waited */
        SAMPLE_LOSS_WINDOW_FULL,
        SAMPLE_LOSS_N,
} SampleLoss;

/* Counts one. */
void sample_lose(const struct abi_sample *header, SampleLoss why);

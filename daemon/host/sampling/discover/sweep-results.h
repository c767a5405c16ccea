/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Sweep Results
 *
 * What the safety sweep came by, until it is known whether a notice told of it
 * as well: notices wait in a ring, so the sweep may be there before one that was
 * posted in time. Only what no notice told of is the sweep's own (SWEEP_FOUND).
 */

#include <stddef.h>
#include <stdint.h>

#include "border/abi.h"

/* over it what was found first is not waited for any longer */
enum { SWEEP_RESULTS_MAX = 256 };

typedef enum SweepResultKind {
        /* another one than was known under this id: exec and exit tell of it */
        SWEEP_PROGRAM,
        SWEEP_PUBLICATION,               /* a ring, or a process that publishes: a change of mappings does */
} SweepResultKind;

typedef struct SweepResult {
        uint64_t time_ns;               /* MONOTONIC */
        uint32_t tgid;
        SweepResultKind kind;
} SweepResult;

typedef struct SweepResults {
        SweepResult results[SWEEP_RESULTS_MAX];          /* in the order of time */
        size_t n;
} SweepResults;

void sweep_results_add(SweepResults *results, uint32_t tgid, SweepResultKind kind, uint64_t now_ns);

/* A notice has come: what it tells of was not found by us. */
void sweep_results_told(SweepResults *results, const struct abi_notice *notice);

/*
 * All notices that were posted before @until_ns have come. What was found long enough before that is counted.
 */
void sweep_results_settle(SweepResults *results, uint64_t until_ns);

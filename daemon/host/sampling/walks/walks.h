/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Walks on the Host
 *
 * Stacks that the kernel half has not walked are walked here, by the same rows: those of samples that came
 * too early (deferred.h), of threads that have no CPU (thread-walk.h, thread-waits.h), and of waits that last
 * (long-waits.h). What they find goes into the open window.
 */

#include <stdbool.h>
#include <stdint.h>

#include "host/sampling/aggregate/aggregate.h"
#include "host/sampling/discover/targets.h"
#include "host/sampling/runtime/runtimes.h"
#include "host/sampling/sample/sampler.h"
#include "host/sampling/unwind/tables/tables.h"

typedef struct WaitLocks WaitLocks;

/* Stages that a walk reads, and where its stack goes. All borrowed. */
typedef struct WalkStages {
        Targets *targets;
        Tables *tables;
        Runtimes *runtimes;
        Sampler *sampler;
        Aggregator *aggregator;
        WaitLocks *locks;               /* of waits that go on; NULL = not wanted */
        uint32_t depth;                 /* frames of a stack at most */
        bool has_one_window;            /* until the end: samples may wait for their tables */
} WalkStages;

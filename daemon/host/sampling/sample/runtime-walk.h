/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Runtime Walk
 *
 * Loads the kernel half's second sampler, which walks over frames of runtimes, when it is wanted.
 */

#include <stdint.h>

#include "core/base/util/macro.h"
#include "host/sampling/sample/kernel-half.h"

typedef struct RuntimeWalk RuntimeWalk;

/* @half: lives longer. Return: 0, -ENOMEM. */
int runtime_walk_new(RuntimeWalk **walkp, KernelHalf *half);

/* Waits for a load that has begun. */
RuntimeWalk *runtime_walk_free(RuntimeWalk *walk);
DEFINE_CLEANUP(RuntimeWalk, runtime_walk_free)

/*
 * The first call begins to load; later ones say how that goes. @read: called only while it has not begun;
 * NULL = there is room. Without room it is refused until a later call finds some.
 */
enum runtime_walk runtime_walk_want(RuntimeWalk *walk, SamplerReadMemory read, const void *userdata);

/* Waits for a load that has begun, until @end_ns (MONOTONIC). */
void runtime_walk_wait(RuntimeWalk *walk, uint64_t end_ns);

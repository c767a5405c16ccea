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
 * The first call begins to load; later ones say how that goes. @room: bytes that our control group has left,
 * UINT64_MAX = no limit.
 */
enum runtime_walk runtime_walk_want(RuntimeWalk *walk, uint64_t room);

/* Waits for a load that has begun, until @end_ns (MONOTONIC). */
void runtime_walk_wait(RuntimeWalk *walk, uint64_t end_ns);

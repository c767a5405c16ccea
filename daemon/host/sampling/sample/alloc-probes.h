/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Probes of Allocations
 *
 * Files that targets run code of, and that have probes otel_memory:alloc and free: finds them, and attaches
 * the kernel half's programs to them as long as any process has the file mapped.
 */

#include <stdbool.h>

#include "core/base/util/macro.h"
#include "host/sampling/process/process.h"
#include "host/sampling/sample/kernel-events.h"

typedef struct AllocProbes AllocProbes;

/* @allocs: borrowed. Return: 0, -ENOMEM. */
int alloc_probes_new(AllocProbes **probesp, KernelEvents *allocs);
AllocProbes *alloc_probes_free(AllocProbes *probes);
DEFINE_CLEANUP(AllocProbes, alloc_probes_free)

/* The mappings of a target are known, or have changed: looks into files that are new. Return: 0, -ENOMEM. */
int alloc_probes_process(AllocProbes *probes, const Process *process);

/* Whether samples are taken now: attaches to all, or to none. */
void alloc_probes_follow(AllocProbes *probes, bool is_running);

/* Leaves files that no process has mapped any more. */
void alloc_probes_sweep(AllocProbes *probes);

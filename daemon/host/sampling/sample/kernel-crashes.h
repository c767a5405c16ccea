/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Crashes
 *
 * The BPF object of --crashes (bpf/crash.bpf.c) in the daemon's hands: loads it beside the sampler's object,
 * whose tables and ring it takes over, and attaches it. Its records come in the sampler's ring.
 */

#include <stddef.h>

#include "core/base/util/macro.h"
#include "host/sampling/sample/kernel-half.h"
#include "host/sampling/sample/sampler-config.h"

typedef struct KernelCrashes KernelCrashes;

/*
 * Loads and verifies; nothing runs yet. @half: borrowed; it is loaded. Return: 0, SAMPLER_E_UNUSABLE (one
 * line was logged), -errno.
 */
int kernel_crashes_new(KernelCrashes **crashesp, const KernelHalf *half, const SamplerConfig *config);
KernelCrashes *kernel_crashes_free(KernelCrashes *crashes);
DEFINE_CLEANUP(KernelCrashes, kernel_crashes_free)

/* Crashes from here on are told. Attached already: nothing. Return: 0, SAMPLER_E_UNUSABLE. */
int kernel_crashes_attach(KernelCrashes *crashes);
void kernel_crashes_detach(KernelCrashes *crashes);

/* Without the maps that belong to the sampler's object. */
size_t kernel_crashes_map_bytes(const KernelCrashes *crashes);

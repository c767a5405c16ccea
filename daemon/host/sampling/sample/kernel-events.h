/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Events of Threads
 *
 * The BPF object of --crashes (bpf/crash.bpf.c) and --allocations (bpf/walk/allocation.bpf.h) in the daemon's
 * hands: loads it, once for each of both, beside the sampler's object, whose tables and ring it takes over,
 * and attaches its program. Its records come in the sampler's ring.
 */

#include <stddef.h>

#include "core/base/util/macro.h"
#include "host/sampling/process/probe-notes.h"
#include "host/sampling/sample/kernel-half.h"
#include "host/sampling/sample/sampler-config.h"

typedef struct KernelEvents KernelEvents;

typedef enum KernelEventsKind {
        KERNEL_EVENTS_CRASHES,
        KERNEL_EVENTS_ALLOCATIONS,
} KernelEventsKind;

/*
 * Loads and verifies; nothing runs yet. @half: borrowed; it is loaded. Return: 0, SAMPLER_E_UNUSABLE (one
 * line was logged), -errno.
 */
int kernel_events_new(KernelEvents **eventsp, KernelEventsKind kind, const KernelHalf *half,
                      const SamplerConfig *config);
KernelEvents *kernel_events_free(KernelEvents *events);
DEFINE_CLEANUP(KernelEvents, kernel_events_free)

/* Crashes from here on are told. Attached already: nothing. Return: 0, SAMPLER_E_UNUSABLE. */
int kernel_events_attach_crashes(KernelEvents *events);
void kernel_events_detach_crashes(KernelEvents *events);

/*
 * Allocations, or frees, at the probe of @fd's file are told from here on, as long as it is not detached.
 * @index: below ALLOC_MAX_PROBES, no other probe has it. Return: 0, -errno.
 */
int kernel_events_attach_probe(KernelEvents *events, uint32_t index, int fd, const ProbeNote *note);
void kernel_events_detach_probe(KernelEvents *events, uint32_t index);

/*
 * Frees of a process that are lost so far. @start_time_ns: exact. What has no room to be counted by process
 * is in COUNTER_FREES_LOSERS_FULL. And: the process is no target any more.
 */
uint64_t kernel_events_lost_frees(const KernelEvents *events, uint32_t tgid, uint64_t start_time_ns);
void kernel_events_forget_frees(KernelEvents *events, uint32_t tgid);

/* Without the maps that belong to the sampler's object. */
size_t kernel_events_map_bytes(const KernelEvents *events);

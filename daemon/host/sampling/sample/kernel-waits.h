/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Waits
 *
 * The other BPF objects (bpf/offcpu.bpf.c, waker.bpf.c) in the daemon's hands: loads them beside the
 * sampler's object, whose tables they take over, attaches them to the scheduler, drains ring and sums.
 * Exist only where waits are asked for.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "border/offcpu_abi.h"
#include "border/wait_long_abi.h"
#include "core/base/util/macro.h"
#include "host/sampling/sample/kernel-half.h"
#include "host/sampling/sample/sampler-config.h"

typedef struct KernelWaits KernelWaits;

/*
 * Loads and verifies; nothing runs yet. @half: borrowed; it is loaded. Return: 0, SAMPLER_E_UNUSABLE (one
 * line was logged), -errno.
 */
int kernel_waits_new(KernelWaits **waitsp, KernelHalf *half, const SamplerConfig *config);
KernelWaits *kernel_waits_free(KernelWaits *waits);
DEFINE_CLEANUP(KernelWaits, kernel_waits_free)

void kernel_waits_set_callbacks(KernelWaits *waits, SamplerRecord on_wait, SamplerWaitSum on_sum,
                                void *userdata);

/* Waits that begin from here on are counted. Attached already: nothing. Return: 0, SAMPLER_E_UNUSABLE. */
int kernel_waits_attach(KernelWaits *waits);

/*
 * Ends it. Waits that go on are counted up to this moment; the next drain has all of them. Takes some
 * milliseconds. Detached already: nothing.
 */
void kernel_waits_detach(KernelWaits *waits);

/* Leaves out @limit and the steps before it, from the next wait on. It never detaches the others. */
void kernel_waits_limit(KernelWaits *waits, enum abi_wait_limit limit);

/*
 * Counts waits that go on up to this moment; the rest of each comes later. The next drain hands over all
 * sums until here, and none of what follows. Hands over sums itself. Return: 0, or the negative value of a
 * callback.
 */
int kernel_waits_split(KernelWaits *waits);

/*
 * Hands over records whose stacks are not younger than @release_ns, and sums; sums of the last moments come
 * with the next drain but one. Return: number of records, or the negative value of a callback.
 */
int kernel_waits_drain(KernelWaits *waits, uint64_t release_ns);

/* Whether a wait without a stack has begun since the last kernel_waits_list_long(). */
bool kernel_waits_are_undrawn(const KernelWaits *waits);

/* Lists waits that go on and have no stack. *longsp: valid until the next call. Return: 0, -errno. */
int kernel_waits_list_long(KernelWaits *waits, const struct abi_wait_longs **longsp);

/*
 * Gives a listed @wait its stack: @record has all but durations and waker, and its `size` is sound. It has no
 * effect if the thread has run since. Return: 0, -errno.
 */
int kernel_waits_give(KernelWaits *waits, const struct abi_wait_long *wait, const struct abi_wait *record,
                      enum abi_wait_given *givenp);

/* Readable while there are records. */
int kernel_waits_fd(const KernelWaits *waits);
size_t kernel_waits_map_bytes(const KernelWaits *waits);

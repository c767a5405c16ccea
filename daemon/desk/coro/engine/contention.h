/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Contention
 *
 * Tells a thread that scans whether others want its CPU, and shortens its waits for it while they do. The
 * thread has its turns from short_turns_take().
 */

#include <stdbool.h>
#include <stdint.h>

#include "core/base/util/macro.h"

typedef struct Contention Contention;

/* For the thread that calls. Return: 0, THREAD_E_UNABLE, -ENOMEM. */
int contention_new(Contention **contentionp);
Contention *contention_free(Contention *contention);

/*
 * To be called often by the thread that scans, at @now_ns (MONOTONIC). @looks: whether waits are to be
 * shortened. Return: whether it waited for a CPU of late; always false where the kernel does not count that
 * (CONFIG_SCHED_INFO).
 */
bool contention_update(Contention *contention, uint64_t now_ns, bool looks);

DEFINE_CLEANUP(Contention, contention_free)

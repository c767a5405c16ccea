/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Stacks of Long Waits
 *
 * Where waits are too many to walk them all, walks those that last (`off-cpu-long-wait`), while their threads
 * stand still.
 */

#include <stdbool.h>
#include <stdint.h>

#include "core/base/util/macro.h"
#include "host/sampling/walks/walks.h"

typedef struct LongWaits LongWaits;

/* @stages: borrowed. @length_ns: a wait of so much is long. Return: 0, -ENOMEM. */
int long_waits_new(LongWaits **waitsp, const WalkStages *stages, uint64_t length_ns);
LongWaits *long_waits_free(LongWaits *waits);
DEFINE_CLEANUP(LongWaits, long_waits_free)

/* Whether waits have begun without a stack, and no look goes on: then looks shall begin. */
bool long_waits_are_due(const LongWaits *waits);

/*
 * Looks once. *after_nsp: when to look again, from now on; UINT64_MAX = when long_waits_are_due() says so.
 * Return: 0, -errno.
 */
int long_waits_look(LongWaits *waits, uint64_t *after_nsp);

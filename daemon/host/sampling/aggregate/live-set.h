/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Live Set
 *
 * Allocations that were told and whose free was not, with stack, span and time: what is alive. Fed with
 * allocations and frees in the order of the ring; read as a window closes.
 */

#include <stdint.h>

#include "core/base/util/macro.h"
#include "host/sampling/context/publication.h"
#include "host/sampling/sample/decode.h"

enum {
        LIVE_MAX_BLOCKS = 32768,        /* blocks of all processes: 8 MiB */
        LIVE_BLOCK_BYTES = 256,
};

typedef struct LiveSet LiveSet;

/* Return: 0, -ENOMEM. */
int live_set_new(LiveSet **setp);
LiveSet *live_set_free(LiveSet *set);
DEFINE_CLEANUP(LiveSet, live_set_free)

/* An allocation, as it was told. Unless its free will be told, it is not kept. Return: 0, -ENOMEM. */
int live_set_add(LiveSet *set, const Process *process, const Sample *sample);

/*
 * The same once its stack is walked, and span and names are found; it may be gone by then. @n_objects: how
 * many allocations it stands for. Return: 0, -ENOMEM.
 */
int live_set_know(LiveSet *set, const Process *process, const Sample *sample, int64_t n_objects);

/* A free, as it was told. */
void live_set_remove(LiveSet *set, const struct abi_free *freed);

/* The process is no target any more. */
void live_set_forget(LiveSet *set, uint32_t pid);

/* Nothing was told for a while, until @now_ns: forgets all that was alive, and what is read from before. */
void live_set_begin(LiveSet *set, uint64_t now_ns);

/* Frees of a process that were lost, until now. */
typedef uint64_t (*LiveLosses)(void *userdata, uint32_t pid, uint64_t start_time_ns);

/*
 * Forgets what cannot be believed: processes that have lost frees since the last call, or all with @of_any.
 * To be called after a drain and before live_set_visit().
 */
void live_set_check(LiveSet *set, LiveLosses losses, void *userdata, bool of_any);

/* An allocation that is alive. All is borrowed. */
typedef struct LiveAllocation {
        Sample sample;                  /* stack with frames in files alone */
        int64_t bytes, objects;         /* sums that it stands for */
} LiveAllocation;

typedef struct LiveVisit {
        /* Allocations of this process come next. Return: 0, 1 = it has ended, and has none; negative ends. */
        int (*process)(void *userdata, uint32_t pid, uint64_t generation);
        /* Return: 0; negative ends the visit. */
        int (*allocation)(void *userdata, const LiveAllocation *allocation);
        void *userdata;
} LiveVisit;

/* Forgets processes that have ended. Return: 0, or what a member of @visit returned. */
int live_set_visit(LiveSet *set, const LiveVisit *visit);

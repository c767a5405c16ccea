/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Heaps
 *
 * Looks at the heap profiles that programs of Go among the targets keep of themselves, each at a period, one
 * at a time. Workers without rights read them; nothing here waits for one, but for heaps_finish().
 */

#include "core/base/data/shares.h"
#include "core/base/sandbox/zygotes.h"
#include "core/base/util/macro.h"
#include "core/profile/window.h"
#include "host/sampling/aggregate/context-attributes.h"
#include "host/sampling/discover/targets.h"

typedef struct Heaps Heaps;

enum { HEAPS_MAX_WINDOWS = 8 };         /* closed ones that nobody has taken yet */

typedef struct HeapsConfig {
        Zygotes *zygotes;               /* borrowed, as all */
        Targets *targets;
        const AttributeFilter *filter;
        uint64_t start_ns;              /* MONOTONIC: allocations from before are not told */
        uint64_t period_ns;             /* between two looks at a program, at least */
} HeapsConfig;

/* Return: 0, -ENOMEM. */
int heaps_new(Heaps **heapsp, const HeapsConfig *config);
Heaps *heaps_free(Heaps *heaps);
DEFINE_CLEANUP(Heaps, heaps_free)

/*
 * Takes what has come, looks for programs, and asks for what is due. Call it each second. Return: 0, -errno.
 */
int heaps_second(Heaps *heaps);

/*
 * Looks at a program as soon as possible, for @reason, a constant that goes with the samples. @generation: of
 * a process. A few times in a minute; what is more is counted. @weight: a look that has not begun yet is for
 * the reason that has most of it.
 */
void heaps_hurry(Heaps *heaps, uint64_t generation, const char *reason, unsigned weight);

/* Whether such a look is under way or has to come: call heaps_step() again and again. */
bool heaps_is_hurried(const Heaps *heaps);

/* Takes what has come, and asks for what is due, as heaps_second() does. Return: 0, -errno. */
int heaps_step(Heaps *heaps);

/* Whether such a look has come, and is to be taken and sent at once. */
bool heaps_is_urgent(const Heaps *heaps);

/* Visits the programs that have, or may have, a profile. */
typedef void (*HeapsVisit)(void *userdata, uint32_t pid, uint64_t generation, const ShareOwner *owner);
void heaps_each(const Heaps *heaps, HeapsVisit visit, void *userdata);

/* At the end: looks once more at all, for @timeout_ns at most. Return: 0, -errno. */
int heaps_finish(Heaps *heaps, uint64_t timeout_ns);

/*
 * Looks since the last call, in a closed window, which is the caller's; no program is in it twice. Call it
 * until it yields NULL. Return: 0, -ENOMEM.
 */
int heaps_take(Heaps *heaps, Window **windowp);

/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Aggregation
 *
 * Sample + Process → one more event in the current Window: frames become a
 * stack, the trace context a link, thread and outcome a set of attributes.
 * Owns the current window and hands it out when it is rotated.
 *
 * Every sample that comes in ends in the window or in exactly one LOST_* counter.
 */

#include <stdint.h>

#include "core/base/util/clock.h"
#include "core/base/util/macro.h"
#include "core/profile/window.h"
#include "host/sampling/aggregate/attributes.h"
#include "host/sampling/aggregate/context-attributes.h"
#include "host/sampling/aggregate/live-set.h"
#include "host/sampling/frames/frames.h"
#include "host/sampling/context/publication.h"
#include "host/sampling/sample/decode.h"

typedef struct Aggregator Aggregator;

/* Time between two looks at goroutines that wait, in the mean: what one that is seen once stands for. */
#define AGGREGATOR_GOROUTINES_PERIOD_NS NS_PER_SEC

/* Stack of who ended a wait. */
typedef struct WakerStack {
        const Program *program;         /* the waker's */
        const uint64_t *words;          /* words of the waker's frames, leaf first; none is cut */
        uint32_t n;
        enum abi_stack_end end;
        uint64_t time_ns;               /* MONOTONIC */
} WakerStack;

typedef struct WaitTimes {
        uint64_t blocked_ns, runnable_ns;
        uint64_t end_ns;                /* MONOTONIC */
        /* weight of a walk, × WAIT_WEIGHT_ONE; 0 = a sum of waits without walks */
        uint32_t weight;
        const struct abi_waker *waker;  /* the thread that ended the wait */
        bool is_long;                   /* WAIT_LONG */
        uint32_t file;                  /* enum abi_wait_file: what the descriptor of the call leads to */
        const WakerStack *waker_stack;  /* NULL = it was not walked */
        const SampleLock *lock;         /* NULL = not known */
        const char *idle;               /* wait_idle_reason(), if its stack says that it was such a wait */
} WaitTimes;

/* @frames is borrowed. @start_ns: MONOTONIC, start of the first window. Return: 0, -ENOMEM. */
int aggregator_new(Aggregator **aggregatorp, Frames *frames, uint64_t start_ns);
Aggregator *aggregator_free(Aggregator *aggregator);

/* Sets which attributes may be sent; before the first sample. @filter points to borrowed globs. */
void aggregator_set_filter(Aggregator *aggregator, const AttributeFilter *filter);
DEFINE_CLEANUP(Aggregator, aggregator_free)

/* Tells of programs of later windows' resources. */
void aggregator_set_note(Aggregator *aggregator, const AttributesNote *note);

/* Allocations that are known from then on are told to @live, which is borrowed. */
void aggregator_set_live(Aggregator *aggregator, LiveSet *live);

enum {
        _AGGREGATOR_E_SUCCESS,
        AGGREGATOR_E_LATER,             /* names are late, and the sample may wait: it was not added */
};

/*
 * The name of the span of @sample, which was read out of an SDK's memory (ABI_FORM_PYTHON): its entry span's.
 * What the sample says of spans is kept for later ones. *@namep: NULL = it is not known, or published
 * otherwise; it lives until the next call. Return: 0, -ENOMEM.
 */
int aggregator_span_name(Aggregator *aggregator, const Program *program, const Sample *sample,
                         const char **namep);

/*
 * Adds one sample of @program. A window that is full counts the sample as LOST_WINDOW_FULL.
 * Return: 0, AGGREGATOR_E_LATER, -ENOMEM.
 */
int aggregator_add(Aggregator *aggregator, const Program *program, const Sample *sample);

/*
 * Adds a wait of @sample (kind OFF_CPU), or the sum of several, to a profile of its own, under the @reason
 * of wait_reason(). The time of a sum goes to stacks of walked waits when the window closes (wait-
 * spread.h). Blocked time that a thread of a target has ended is in a second profile too (PROFILE_WAKER),
 * under the stack of that thread. Sets sample->wait. It is no tick, and no counter of those is touched.
 * Return: 0, WINDOW_E_FULL, -ENOMEM.
 */
int aggregator_add_wait(Aggregator *aggregator, const Program *program, Sample *sample, const char *reason,
                        const WaitTimes *times);

/*
 * Adds @n goroutines of @program that wait like the one of @sample, whose attributes are a goroutine's and
 * whose `wait` is set, to a profile of their own. They are no ticks, and no counter of those is touched.
 * Return: 0, WINDOW_E_FULL, -ENOMEM.
 */
int aggregator_add_goroutines(Aggregator *aggregator, const Program *program, const Sample *sample,
                              int64_t n);

/*
 * Adds an allocation of @program that is alive at @now_ns to profiles of their own, with its age. It is no
 * tick. Return: 0, WINDOW_E_FULL, -ENOMEM.
 */
int aggregator_add_live(Aggregator *aggregator, const Program *program, const LiveAllocation *allocation,
                        uint64_t now_ns);

/*
 * A coroutine of @program was suspended at @address for @value_ns, until @time_ns or a while before. Goes
 * into a profile of its own; it is no tick, and no counter of those is touched. Return: 0, WINDOW_E_FULL,
 * -ENOMEM.
 */
int aggregator_add_suspended(Aggregator *aggregator, const Program *program,
                             const SampleCoroutine *coroutine, uint64_t address, uint64_t value_ns,
                             uint64_t time_ns);

/*
 * Closes the window at @end_ns and starts the next one there. @period_ns: the true mean time between two
 * samples of one CPU in the closed window; @tick_ns: between two ticks, which boosted processes have all of.
 * *windowp is owned by the caller. On an error the window goes on. Return: 0, -ENOMEM.
 */
int aggregator_rotate(Aggregator *aggregator, uint64_t end_ns, int64_t period_ns, int64_t tick_ns,
                      Window **windowp);

/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Fault Events
 *
 * Two events of the kernel on each CPU, which count minor and major page faults and run the sampler at every
 * so many of them (bpf/walk/faults.bpf.h).
 */

#include <stdint.h>

#include "host/sampling/sample/event-opener.h"
#include "host/sampling/sample/kernel-half.h"

typedef struct FaultEvents FaultEvents;

/*
 * @half, @opener: borrowed. @frequency: Hz of the clock's events, which no event here exceeds for longer than
 * a second. Return: 0, -ENOMEM.
 */
int fault_events_new(FaultEvents **eventsp, KernelHalf *half, EventOpener *opener,
                     uint32_t frequency);

/* Closes them all. */
FaultEvents *fault_events_free(FaultEvents *events);

/* Samples faults on this CPU; one that has gone offline is no error. Return: 0, SAMPLER_E_UNUSABLE. */
int fault_events_open(FaultEvents *events, size_t cpu);
void fault_events_close(FaultEvents *events, size_t cpu);

void fault_events_set_frequency(FaultEvents *events, uint32_t frequency);

/*
 * Called each second: makes the periods fit what has come since the last call. @entries: entries of the
 * sampler on each CPU so far; one without new ones is idle, and is not asked.
 */
void fault_events_adapt(FaultEvents *events, const uint64_t *entries, uint64_t now_ns);

/* ---- the period of one event ---- */

typedef struct FaultPeriod {
        uint32_t asked;                 /* number that the period is drawn from; 0 = before the first look */
        uint32_t draw;                  /* state of the draws */
        uint64_t period, before;        /* period that is set, and the one before */
        uint64_t begun;                 /* faults up to the moment that it was set */
        uint64_t counted, looked_ns;    /* at the last look */
} FaultPeriod;

/* Begins one, that of an event that is opened with it. */
void fault_period_begin(FaultPeriod *period, bool is_major, uint64_t now_ns);

/* Nothing was counted since the last look. */
void fault_period_idle(FaultPeriod *period, uint64_t now_ns);

/*
 * @counted: faults since it began. @frequency: samples a second at most. Return: the period to set, or 0
 * where the one that runs goes on.
 */
uint64_t fault_period_adapt(FaultPeriod *period, bool is_major, uint64_t counted, uint64_t now_ns,
                            uint32_t frequency);

/*
 * Number that a period is drawn from. @asked: that of the second that ends, 0 = it was the first one. @rate:
 * faults a second in that.
 */
uint32_t fault_period_next(uint32_t asked, bool is_major, double rate, uint32_t frequency);

/* Draws a period: a prime. *drawp: state of one event's draws. */
uint64_t fault_period_draw(uint32_t asked, uint32_t *drawp);

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

/* Called each second: makes the periods fit what has come since the last call. */
void fault_events_adapt(FaultEvents *events, uint64_t now_ns);

/*
 * Number that the period of the next second is drawn from. @asked: that of the second that ends, or
 * fault_period_first(). @rate: faults a second in that; @frequency: samples a second at most.
 */
uint32_t fault_period_first(bool is_major);
uint32_t fault_period_next(uint32_t asked, bool is_major, double rate, uint32_t frequency);

/* Draws a period: a prime. *drawp: state of one event's draws. */
uint64_t fault_period(uint32_t asked, uint32_t *drawp);

/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Clock Event
 *
 * One cpu-clock event of the kernel on one CPU: the timer whose ticks run the
 * sampler. Knows nothing of BPF.
 */

#include <stdint.h>

#include "host/sampling/sample/event-opener.h"

typedef struct Event {
        int fd;                         /* -1 = closed */
        void *pages;                    /* ring for the kernel's throttle records, NULL = none */
        uint64_t period_ns;
        uint64_t since_ns;              /* MONOTONIC: when the period was set */
        double programmed;              /* ticks of all earlier periods */
} Event;

#define EVENT_INIT { .fd = -1 }

/*
 * Opens the event for @cpu with @period_ns; it runs at once. @opener: NULL = none. Return: 0, -errno (not
 * traced: the caller knows what it means).
 */
int event_init(Event *event, EventOpener *opener, uint32_t cpu, uint64_t period_ns);
void event_deinit(Event *event);

/* Sets a new period from now on; the elapsed part of the old one is forgotten. Return: 0, -errno. */
int event_set_period(Event *event, uint64_t period_ns);

/*
 * Ticks that the event's periods stand for since event_init(), whether they came or not. Our program's own
 * count misses the ticks that the kernel swallowed; this one does not.
 */
double event_programmed(const Event *event);

/*
 * Time that the event has been enabled, by the kernel's clock, ns. It stands still for good when the CPU goes
 * offline. Asks the CPU, and wakes it up. 0 = cannot be read.
 */
uint64_t event_enabled_ns(const Event *event);

/* Times that the kernel throttled the event since the last call; 0 too if that cannot be seen. */
uint64_t event_read_throttles(Event *event);

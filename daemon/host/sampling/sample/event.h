/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Clock Event
 *
 * One cpu-clock event of the kernel on one CPU: the timer whose ticks run the sampler. Draws its periods, and
 * tells whether it still ticks and what the kernel allows. Knows nothing of BPF.
 */

#include <stdbool.h>
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

/*
 * Tells whether the timer of a CPU still ticks. An event whose CPU goes offline never ticks again, not even
 * when the CPU is back a moment later. Then the list of CPUs looks as before, and only the missing ticks
 * tell. But an idle CPU need not tick either (some virtual machines leave it out). So a silent event is asked
 * twice how long it has been enabled; a stopped one answers the same:
 *
 *     t      ticks of CPU 3   enabled_ns     verdict
 *     0 s    10,412           –              ticks
 *     1 s    10,412           –              silent for 1 s: too short to ask
 *     2 s    10,412           8,100,000,000  silent: asked once
 *     3 s    10,412           8,100,000,000  the clock of the event stands still: stopped, open it again
 */
typedef struct EventPulse {
        /* entries of the sampler on that CPU, at the last look that saw new ones */
        uint64_t entries;
        uint64_t since_ns;              /* time of that look; 0 = there was none */
        uint64_t enabled_ns;            /* first answer of a silent event; 0 = not asked yet */
} EventPulse;

/* For an event that has just been opened or closed. */
void event_pulse_reset(EventPulse *pulse);

/*
 * @entries: entries of the sampler on that CPU so far. @period_ns: nominal period. Return: whether there were
 * no new ones for longer than chance can explain. Then read the event's enabled time and give it to
 * event_has_stopped().
 */
bool event_is_silent(EventPulse *pulse, uint64_t entries, uint64_t now_ns, uint64_t period_ns);

/*
 * @enabled_ns: time that the silent event has been enabled in all. Return: whether it does not grow any more.
 */
bool event_has_stopped(EventPulse *pulse, uint64_t enabled_ns);

/* Part of the mean by which a period may be off it: its reciprocal. */
typedef enum EventJitter {
        EVENT_JITTER_WIDE = 4,
        EVENT_JITTER_NARROW = 12,
} EventJitter;

/*
 * Draws a period for an event. @nominal_ns: 1 s ÷ frequency. *drawp: state of one CPU's draws, 0 = not begun.
 * Return: period in ns. The mean rate is nominal if each period is in force for about a second.
 */
uint64_t event_draw_period(uint64_t nominal_ns, EventJitter jitter, uint32_t *drawp);

typedef struct EventLimit {
        uint32_t frequency;
        int64_t max_rate;               /* perf_event_max_sample_rate at the last look */
        uint64_t look_ns;               /* earliest time of the next look */
} EventLimit;

/* Warns if perf_event_max_sample_rate is too low now, or has fallen since the last look (counted). */
void event_limit_begin(EventLimit *limit, uint32_t frequency);
void event_limit_watch(EventLimit *limit);

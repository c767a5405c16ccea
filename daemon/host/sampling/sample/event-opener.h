/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Event Opener
 *
 * Opens events for a daemon that has given its rights up, where the kernel asks more for that than
 * CAP_PERFMON: Debian's kernels since 6.12 let CAP_SYS_ADMIN alone pass kernel.perf_event_paranoid = 3, their
 * default. It is a fork of that daemon, made before, that keeps this one capability. It reads nothing but
 * requests for the forms of events that the sampler has, and a filter leaves it no other call.
 */

#include <stdbool.h>
#include <stdint.h>

#include "core/base/util/macro.h"

#define EVENT_OPENER_COMM "spanprof-events"     /* name of the opener in /proc */

typedef enum EventForm {
        EVENT_CLOCK,                    /* ticks every so many ns */
        EVENT_MAPPINGS,                 /* records of mappings, exec and fork (sideband.h) */
        EVENT_FAULTS_MINOR,             /* ticks every so many page faults (fault-events.h) */
        EVENT_FAULTS_MAJOR,
        _EVENT_FORM_MAX,
} EventForm;

typedef struct EventRequest {
        EventForm form;
        uint32_t cpu;
        uint64_t period;                /* ns or faults; 0 for EVENT_MAPPINGS */
} EventRequest;

/* Return: descriptor, owned by the caller; -errno (-ENODEV: the CPU is offline). */
int event_open(const EventRequest *request);

typedef struct EventOpener EventOpener;

/* Whether this kernel may ask more than CAP_PERFMON, and we hold it. */
bool event_opener_is_wanted(void);

/* For a process with one thread. Return: 0, -errno. */
int event_opener_new(EventOpener **openerp);

/* Ends the process. */
EventOpener *event_opener_free(EventOpener *opener);
DEFINE_CLEANUP(EventOpener, event_opener_free)

/*
 * Opens it here, or if the kernel forbids that, through @opener; NULL = none. Return: as event_open();
 * -ETIMEDOUT and -EPIPE from an opener that does not answer any more.
 */
int event_opener_open(EventOpener *opener, const EventRequest *request);

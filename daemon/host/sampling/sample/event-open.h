/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Opening Events
 *
 * The forms of the kernel's events that the sampler opens on each CPU. Knows perf_event_open(), nothing of
 * rings, BPF or rights.
 */

#include <stdint.h>

typedef enum EventForm {
        EVENT_CLOCK,                    /* ticks every so many ns */
        EVENT_MAPPINGS,                 /* records of mappings, exec and fork (sideband.h) */
        _EVENT_FORM_MAX,
} EventForm;

typedef struct EventRequest {
        EventForm form;
        uint32_t cpu;
        uint64_t period_ns;             /* EVENT_CLOCK only */
} EventRequest;

/* Return: descriptor, owned by the caller; -errno (-ENODEV: the CPU is offline). */
int event_open(const EventRequest *request);

/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Window of a Heap
 *
 * Puts the heap profile of a program of Go into a window: the four types of Go's own profiles.
 */

#include "core/profile/window.h"
#include "host/heap/heap-since.h"
#include "host/runtime/go/go-heap-wire.h"
#include "host/sampling/aggregate/context-attributes.h"

/* A look at a heap. All is borrowed. */
typedef struct HeapLook {
        const Program *program;
        const AttributeFilter *filter;  /* NULL = all attributes may be sent */
        const Mapping *mapping;         /* mapping of the file with Go in it */
        const GoHeapAnswer *answer;
        const char *reason;             /* goes with each sample; NULL = it is one of those at a period */
        const HeapSince *since;         /* allocations since then are told; NULL = none are told */
        uint64_t since_ns, time_ns;     /* MONOTONIC: from when on, and when it was; 0 = times are not told */
} HeapLook;

/*
 * Fills in a look, of whose process no other is in @window. *n_lostp: stacks for which there was no room.
 * Return: 0; WINDOW_E_FULL: there was none for the types; -ENOMEM.
 */
int heap_window_fill(Window *window, const HeapLook *look, uint32_t *n_lostp);

/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Window Filter
 *
 * Chooses samples of a closed window: by process, service, thread, span, trace, operation, coroutine, time,
 * and by how long a span of the trace lasted. Words of one kind are alternatives; all kinds must match. Rows
 * that samples share (a resource, a link, a set of attributes) are judged once, when a sample first has them.
 * Words are compared as text: a number is the id (process.pid, thread.id …), anything else a glob on the
 * name.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/profile/window.h"

typedef struct FilterWords {
        char *const *items;
        size_t n_items;
} FilterWords;

/* Everything is borrowed. Zeros and end_ns = UINT64_MAX let everything pass. */
typedef struct FilterOptions {
        const uint32_t *pids;
        size_t n_pids;
        /* globs on a process' or service's name, in addition to `pids` and `processes` */
        FilterWords comms;
        FilterWords processes;          /* pid, or glob on the name of process or service */
        FilterWords services;           /* globs on service.name */
        FilterWords hosts;              /* globs on host.name */
        FilterWords threads;            /* thread id, or glob on its name */
        FilterWords spans, traces;      /* hex digits; leading zeros may be missing */
        /* globs on the operation of a span, by its attributes or by `operation` */
        FilterWords operations;
        FilterWords coroutines;         /* id, probe id, number of the station, or name of a task */
        FilterWords types;              /* globs on the type of measurement: samples, suspended … */
        /*
         * Traces with a span that reaches over more than this (span-reach.h), all of each trace; 0 = any
         * sample. `operations` are then those of such a span, and not of each sample.
         */
        uint64_t slower_ns;
        /* The operation of a link by a list of spans, or NULL. May itself be NULL. */
        const char *(*operation)(const WindowLink *link, void *userdata);
        void *userdata;
        uint64_t start_ns, end_ns;      /* REALTIME; events in [start, end) */
} FilterOptions;

typedef struct WindowFilter {
        const FilterOptions *options;
        const Window *window;
        uint8_t *resources, *sets, *links;      /* verdicts: 0 = not asked yet, 1 = yes, 2 = no */
        bool *slow;                     /* links, with slower_ns */
} WindowFilter;

/* Whether any event could be left out. */
bool filter_is_needed(const FilterOptions *options);
bool filter_has_times(const FilterOptions *options);

/* Whether one of the globs matches. */
bool filter_words_match(const FilterWords *words, const char *text);

/* @window: closed. Pair with filter_deinit() in any case. Return: 0, -ENOMEM. */
int filter_init(WindowFilter *filter, const FilterOptions *options, const Window *window);
void filter_deinit(WindowFilter *filter);

bool filter_wants_resource(WindowFilter *filter, uint32_t resource);
bool filter_wants_profile(const WindowFilter *filter, const WindowProfile *profile);
bool filter_wants_sample(WindowFilter *filter, const WindowSample *sample);
/* @time_ns: in the window's clock. */
bool filter_wants_time(const WindowFilter *filter, uint64_t time_ns);

/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Rows of Side Files
 *
 * Reads the rows of stations and mappings that a trace has, from its side files or its database, and tells
 * whether side files are of this trace at all.
 */

#include <stdbool.h>
#include <stdint.h>

#include "base/util/hashmap.h"
#include "base/util/intern.h"
#include "base/util/text.h"
#include "coro/station/station-read.h"
#include "coro/trace/trace-rows.h"
#include "coro/trace/trace.h"

/* Identity of a coroutine: (process, station, birth) where they are known, else the probe id. */
static inline uint64_t trace_key(uint32_t pid, uint32_t station, uint64_t birth_ns, uint64_t probe_id) {
        uint64_t key[] = { (uint64_t)pid << 32 | station, birth_ns, birth_ns ? 0 : probe_id };

        return hash_bytes(key, sizeof(key));
}

enum { TRACE_SAMPLE_EVENTS = 4096 };

/* The coroutines of the first events of a trace. Starts as zeros. */
typedef struct TraceSample {
        uint64_t n_events;
        /* key → time of its last event in the sample, and that its row was found (trace-side-files.c) */
        Hashmap last_ns;
        uint32_t n_found;
} TraceSample;

/* Adds an event in any case. Return: 0, -ENOMEM. */
int trace_sample_add(TraceSample *sample, const CoroEvent *event);
void trace_sample_deinit(TraceSample *sample);

/* Adds the event as long as the sample is not full. Return: 0, -ENOMEM. */
static inline int trace_sample_event(TraceSample *sample, const CoroEvent *event) {
        return sample->n_events < TRACE_SAMPLE_EVENTS ? trace_sample_add(sample, event) : 0;
}

/*
 * Finds another trace that owns the side files which a new trace at @path would replace: it is there, is none
 * of the @inputs, and tells of other coroutines than @sample, which the inputs begin with. *ownerp: owned by
 * the caller; NULL = there is none. Return: 0, -ENOMEM.
 */
int trace_side_files_find_owner(const char *path, TraceSample *sample, char *const *inputs, size_t n_inputs,
                                char **ownerp);

/* Warns that @n coroutines of the trace at @path were in an earlier trace, too; says nothing for 0. */
void trace_side_files_warn_shared(const char *path, uint64_t n);

typedef int (*TraceStationFunc)(void *userdata, const TraceStationEnd *end);
typedef int (*TraceMappingFunc)(void *userdata, const TraceMapping *mapping);

typedef struct TraceRowFuncs {
        TraceStationFunc station;
        TraceMappingFunc mapping;
        void *userdata;
} TraceRowFuncs;

enum {
        _TRACE_SIDE_FILES_E_SUCCESS,
        TRACE_SIDE_FILES_E_PROBLEM,         /* @problem says what is wrong; the other rows were handed on */
};

/*
 * Hands on the rows of the trace at @path, which begins with @sample. Rows of another trace are left out with
 * a warning to the log, which is no problem of this trace. Return: 0, TRACE_SIDE_FILES_E_PROBLEM, -errno.
 */
int trace_side_files_read(const char *path, TraceForm form, TraceSample *sample, const TraceRowFuncs *to,
                          Text *problem);

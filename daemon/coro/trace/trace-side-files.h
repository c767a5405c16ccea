/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * What stands beside the events of a trace: stations at their end, mappings of code. In a database these are
 * tables of its own. The files beside other forms may be left from another trace of that name, or somebody
 * has put a trace beside them: they are believed only if they tell of most of the coroutines that the trace
 * begins with, each up to its last event there.
 */

#include <stdbool.h>
#include <stdint.h>

#include "base/util/hashmap.h"
#include "base/util/intern.h"
#include "base/util/text.h"
#include "coro/station/station-read.h"
#include "coro/trace/trace-rows.h"
#include "coro/trace/trace.h"

/* What a coroutine is told by: (process, station, birth) where they are known, else the probe id. */
static inline uint64_t trace_key(uint32_t pid, uint32_t station, uint64_t birth_ns, uint64_t probe_id) {
        uint64_t key[] = { (uint64_t)pid << 32 | station, birth_ns, birth_ns ? 0 : probe_id };

        return hash_bytes(key, sizeof(key));
}

enum { TRACE_SAMPLE_EVENTS = 4096 };

/* The coroutines of the first events of a trace. Starts as zeros. */
typedef struct TraceSample {
        uint64_t n_events;
        /* key → time of its last event among them + 1, as a pointer; 1 = it was found */
        Hashmap last_ns;
        uint32_t n_found;
} TraceSample;

/* Return: 0, -ENOMEM. */
int trace_sample_add(TraceSample *sample, const CoroEvent *event);
void trace_sample_deinit(TraceSample *sample);

/* Cheap for all the events that follow. Return: as trace_sample_add(). */
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

/* Says of the trace at @path that @n of its coroutines were in one read before it; nothing for 0. */
void trace_side_files_warn_shared(const char *path, uint64_t n);

typedef int (*TraceStationFunc)(void *userdata, const TraceStationEnd *end);
typedef int (*TraceMappingFunc)(void *userdata, const TraceMapping *mapping);

typedef struct TraceBeside {
        TraceStationFunc station;
        TraceMappingFunc mapping;
        void *userdata;
} TraceBeside;

enum {
        _TRACE_SIDE_FILES_E_SUCCESS,
        TRACE_SIDE_FILES_E_PROBLEM,         /* @problem says what; the rest was handed on */
};

/*
 * Hands on what stands beside the trace at @path, which has begun with @sample. What is of another trace is
 * left out with a warning to the log: nothing of this one is missing for that. Return: 0,
 * TRACE_SIDE_FILES_E_PROBLEM, -errno.
 */
int trace_side_files_read(const char *path, TraceForm form, TraceSample *sample, const TraceBeside *to,
                          Text *problem);

/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Flight Recorder
 *
 * Keeps the last closed windows in memory, with all their ticks, so that who learns later that a request was
 * slow can still have them. Bounded by age and by bytes; what goes for either is counted.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/base/util/macro.h"
#include "core/profile/remap.h"
#include "core/profile/window.h"

enum {
        RECORDER_MAX_BYTES = 64 << 20,
        RECORDER_LEAST_WINDOWS = 8,             /* a window has no more than its part of the bytes */
        RECORDER_REQUEST_BYTES = 256 << 10,     /* bytes of one request, before it is packed */
};

typedef struct Recorder Recorder;

/* A part of a window: an OTLP request, packed by gzip. */
typedef struct RecorderRequest {
        uint64_t number;                /* no other has had it */
        uint8_t *data;
        size_t size;
} RecorderRequest;

/* A question. Zeros and end_ns = UINT64_MAX: everything. */
typedef struct RecorderQuery {
        uint64_t start_ns, end_ns;      /* REALTIME: windows that lie in it, or partly */
        bool has_trace;
        uint8_t trace_id[16];
} RecorderQuery;

typedef struct RecorderState {
        uint64_t start_ns;              /* begin of the oldest window, REALTIME; 0 = there is none */
        size_t n_windows, bytes, max_bytes;
        uint64_t max_age_ns;
} RecorderState;

/* Pure. Bytes that it may have: a quarter of what caches may have, or of max-memory; 0 = no limit. */
size_t recorder_room(uint64_t spare_bytes, uint64_t max_memory_bytes);

/* Return: 0, -ENOMEM. */
int recorder_new(Recorder **recorderp);
/* Counts what it still has as dropped. */
Recorder *recorder_free(Recorder *recorder);
DEFINE_CLEANUP(Recorder, recorder_free)

/* Paths of mapped files, of windows that are added from now on. */
void recorder_set_paths(Recorder *recorder, RemapPaths paths);

/* A window over the new limits goes at once. */
void recorder_set_limits(Recorder *recorder, uint64_t max_age_ns, size_t max_bytes, uint64_t now_ns);

/*
 * Adds a closed window, whose samples of PROFILE_FINE become PROFILE_CPU: each stands for @tick_ns then, and
 * nobody else may use the window afterwards. @now_ns: REALTIME. Return: 0, -ENOMEM.
 */
int recorder_add(Recorder *recorder, Window *window, int64_t tick_ns, uint64_t now_ns);

/* Drops windows that are too old. */
void recorder_expire(Recorder *recorder, uint64_t now_ns);

RecorderState recorder_state(const Recorder *recorder);

/* Visits the requests of each window that @query may mean, oldest first, until one returns other than 0. */
typedef int (*RecorderVisit)(void *userdata, const RecorderRequest *request, uint64_t start_ns,
                             uint64_t end_ns);
int recorder_each(const Recorder *recorder, const RecorderQuery *query, RecorderVisit visit, void *userdata);

/* The number of the next request that comes. */
uint64_t recorder_next_number(const Recorder *recorder);

/* NULL = it is gone. Borrowed until the next window comes. */
const RecorderRequest *recorder_find(const Recorder *recorder, uint64_t number);

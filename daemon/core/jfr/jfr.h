/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Recordings
 *
 * Reads a recording (JFR) chunk by chunk into a Window. Samples of any profiler: the JDK's own,
 * async-profiler's, Datadog's. What is needed of a chunk's constants is held while that chunk is read; beside
 * the window, memory does not grow with the recording.
 *
 * Events that hold secrets (environment variables, system properties, other processes) are never looked into.
 */

#include "core/base/util/text.h"
#include "core/profile/window.h"
#include "core/jfr/chunk.h"

typedef struct JfrOptions {
        uint64_t start_ns, end_ns;      /* events in [start, end) count */
        bool start_relative, end_relative;      /* … counted from the first chunk's start */
        uint64_t from;                  /* place in the first chunk: events before it were read earlier */
        bool no_time;                   /* leave out what is of the CPU's time, the clock's, and of waits */
        bool timestamps;                /* keep times */
        uint64_t max_times;             /* … until the window has so many events, then none; 0 = no limit */
        bool arguments;                 /* command lines become attributes */
        uint64_t key;                   /* identity of the resource if the recording has none of its own */
        void (*progress)(uint64_t done, void *userdata);        /* may be NULL */
        void *userdata;
} JfrOptions;

enum { JFR_MAX_TWICE = 8, JFR_MAX_LEFT = 3 };

typedef struct JfrResult {
        uint64_t start_ns, end_ns;      /* time that the recording says it covers */
        uint64_t first_ns, last_ns;     /* times of the first and last event that counts; 0, 0 = none */
        uint32_t n_profiles, profile;   /* the recording's first profile in the window, if it has any */
        uint64_t n_timed;               /* events whose time was kept */
        uint64_t n_lost;                /* samples that the JVM says it has lost */
        uint64_t n_stackless;           /* samples whose stack is referred to and is not there */
        uint64_t n_frames_missing;      /* different frames and methods of which the same is so */
        uint64_t n_left;                /* events with a stack that are in no profile */
        uint32_t n_left_types;          /* types of these */
        struct {
                char name[64];
                uint64_t n;
        } left[JFR_MAX_LEFT];           /* the most frequent of these */
        bool times_dropped;       /* there were too many times: no event of the window has its own any more */
        uint32_t n_twice;
        struct {
                const char *type, *other;
        } twice[JFR_MAX_TWICE];         /* types of profiles that measure the same in two ways */
} JfrResult;

enum {
        _JFR_E_SUCCESS,
        JFR_E_DAMAGED,                  /* @problem says where; everything readable is in the window */
        JFR_E_FULL,                     /* a cap of the window is reached: the rest is missing */
};

/* Whether a profile with this type may come of a recording that is read with `no_time`. */
bool jfr_type_is_without_time(const char *type);

/* The place of a profile among others: time of CPUs, of the clock, waits, locks, allocations, the rest. */
unsigned jfr_profile_rank(const Window *window, const WindowProfile *profile);

/* @diagnostics: what was in it, for people; NULL = not wanted. Return: 0, JFR_E_*, -ENOMEM. */
int jfr_read(const JfrInput *input, const JfrOptions *options, Window *window, JfrResult *result,
             Text *diagnostics, Text *problem);

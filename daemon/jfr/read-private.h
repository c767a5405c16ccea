/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * What read.c (chunks), sample.c (events that are samples) and about.c (events about the recording) share.
 */

#include "jfr/event.h"
#include "jfr/jfr.h"
#include "jfr/names.h"
#include "util/intern.h"

enum { JFR_SAMPLE_CACHE_BITS = 16, JFR_SET_CACHE_BITS = 10, JFR_MAX_PENDING = 8 };

/* Counts of one type of events, over all chunks. */
typedef struct JfrTypeCount {
        uint64_t n_read, n_converted;
        uint64_t n_out_of_time, n_failed;       /* of those that are samples */
        bool is_sample;
} JfrTypeCount;

/* What this chunk's events of one class are. */
typedef struct JfrClassState {
        JfrPlan *plan;                  /* NULL = no samples */
        uint32_t count;                 /* row of counts */
        uint32_t about;                 /* number + 1 of the kind of events about the recording, 0 = none */
        uint32_t event_attribute;       /* of the window: the name of the type */
} JfrClassState;

/*
 * Numbers of an event that were seen before, and what they came to. Of the numbers a hash with the keys of the chunk is kept:
 * they themselves would be ten times as much, and the table would not stay in a CPU's cache.
 */
typedef struct JfrKnown {
        uint64_t hash;
        uint32_t more;                  /* of the hash; 0 = free */
        uint32_t index;                 /* sample, or set of attributes */
} JfrKnown;

/*
 * A sample that was read and not yet counted: the table of what is known is larger than a CPU's first cache, so its place
 * is asked for some samples ahead.
 */
typedef struct JfrPending {
        JfrClassState *state;
        JfrHash hash;
        uint64_t time_ns;
        uint64_t slots[JFR_N_SLOTS + 1];
} JfrPending;

/* What the recording says of its process. */
typedef struct JfrAbout {
        bool has_jvm;
        int64_t pid;
        uint64_t jvm_start;
        Text jvm_name, jvm_version, jvm_arguments, java_arguments, os, cpu;
} JfrAbout;

typedef struct JfrReader {
        const JfrInput *input;
        const JfrOptions *options;
        Window *window;
        JfrResult *result;
        Text *problem;
        uint64_t start_ns, end_ns;      /* events in between count */
        bool timed;

        /* this chunk */
        const JfrChunk *chunk;
        uint32_t n_chunks;
        JfrClock clock;
        JfrMetadata metadata;
        JfrPools pools;
        JfrClassState *states;          /* by class number */
        JfrPlan *plans;
        uint32_t n_plans;
        JfrPending pending[JFR_MAX_PENDING];    /* by number */
        uint64_t n_pending, n_finished;

        /* over all chunks */
        JfrNames names;
        JfrCounts counts;
        Intern type_names;
        JfrTypeCount *types;            /* by row of type_names */
        uint32_t types_size;
        JfrKnown *samples, *sets;       /* of this chunk */
        uint64_t n_cached;              /* events whose combination was in the cache */
        uint32_t resource;
        uint32_t profiles[JFR_N_MEASURES];      /* index + 1 */
        uint32_t type_attributes[JFR_N_MEASURES];
        uint64_t periods[JFR_N_MEASURES];       /* ns or bytes, as the settings say; 0 = they do not */
        JfrAbout about;
        JfrLibrary *libraries;
        uint32_t n_libraries, libraries_size;
        uint64_t n_events;
        bool damaged;
} JfrReader;

/* Notes a mistake; the first is the one that is told. */
_printf_(2, 3) void jfr_mistake(JfrReader *reader, const char *format, ...);

/* sample.c: one event of a class that has a plan. Return: 0, JFR_E_FULL, -ENOMEM. */
int jfr_sample_add(JfrReader *reader, JfrClassState *state, const JfrEvent *event);

/* Counts those that were only read: before the chunk ends. Return: as above. */
int jfr_sample_finish(JfrReader *reader);

/* about.c: events about the recording. */

/* The kind of the class + 1; 0 = none of them. */
uint32_t jfr_about_kind(const char *class_name);
int jfr_about_event(JfrReader *reader, const JfrClassState *state, const JfrClass *class, const JfrEvent *event);

/* What must be known before the first sample: the process; libraries, where frames may be remote. */
int jfr_about_prepare(JfrReader *reader);

/* The resource and its attributes; periods of the profiles. */
int jfr_about_finish(JfrReader *reader);

/* WINDOW_E_FULL becomes JFR_E_FULL. */
static inline int jfr_full(int r) {
        return r == WINDOW_E_FULL ? JFR_E_FULL : r;
}

/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Reader
 *
 * The state of reading one recording. read.c goes through its chunks, blocks.c through the events of a chunk;
 * samples.c, profiles.c and recording.c make of them what the window holds.
 */

#include "core/base/data/intern.h"
#include "core/jfr/constants.h"
#include "core/jfr/event.h"
#include "core/jfr/jfr.h"

enum { JFR_SET_CACHE_BITS = 10 };

/* Counts of one type of events, over all chunks. */
typedef struct JfrTypeCount {
        uint64_t n_read, n_converted;
        uint64_t n_out_of_time, n_failed;       /* counts of events that are samples */
        bool is_sample;
        bool has_stack;                 /* events of it may have one */
} JfrTypeCount;

/* Counts of a class of this chunk. The thread that reads the class's events writes them. */
typedef struct JfrClassCount {
        uint64_t n_read, n_out_of_time, n_failed;
        uint64_t first_ns, last_ns;     /* times of events that are summed without theirs; 0 = none */
        double periods_ns;              /* sum of those that events say themselves, and their number */
        uint64_t n_periods;
} JfrClassCount;

/* The state of a class in this chunk. */
typedef struct JfrClassState {
        JfrPlan *plan;                  /* NULL = no samples */
        bool timed;                     /* the times of its events may be kept */
        uint32_t count;                 /* row of counts */
        uint64_t n_left_out;            /* samples that were read and could not be counted */
        uint32_t about;                 /* number + 1 of the kind of events about the recording, 0 = none */
        uint32_t event_attribute;       /* attribute of the window: the name of the type */
} JfrClassState;

/* Where a hash is looked up: there, or one behind it. */
static inline uint32_t jfr_known_place(uint64_t hash, unsigned bits) {
        return (uint32_t)((hash ^ hash >> 32) * 0x9E3779B97F4A7C15 >> (64 - bits)) & ~1u;
}

/*
 * Combinations of this chunk. Of the numbers a hash with the keys of the chunk is kept: they themselves would
 * be ten times as much, and the table would not stay in a CPU's cache.
 */
typedef struct JfrCombination {
        uint64_t hash;
        uint32_t more;                  /* further bits of the hash; 0 = free */
        uint32_t n;                     /* events that were added up and not told yet … */
        int64_t value;                  /* … to this */
        bool listed;                    /* the place: its sum is told at the chunk's end */
} JfrCombination;

typedef struct JfrCombinations {
        JfrCombination *rows;
        unsigned bits;
        uint32_t *listed, n_listed;     /* places */
        uint64_t n_known;               /* events whose combination was there */
} JfrCombinations;

/* The same places as the reader sees them. */
typedef struct JfrPlace {
        uint32_t sample;                /* + 1, and JFR_PLACE_WALL; 0 = it could not be made */
        uint16_t class;                 /* number */
        bool stackless;                 /* it refers to a stack that yields no frames */
} JfrPlace;

/* The sample is of the wall clock, whatever its type. */
#define JFR_PLACE_WALL (UINT32_C(1) << 31)

/* The hash of attributes, and the set that they became. */
typedef struct JfrKnown {
        uint64_t hash;
        uint32_t more;                  /* further bits of the hash; 0 = free */
        uint32_t index;                 /* set of attributes */
} JfrKnown;

/* Where a hash is looked up: one of two neighbours knows it, or none. */
typedef struct JfrLookup {
        JfrKnown wanted;                /* the hash as tables keep it, 95 bits of it */
        JfrKnown *pair;
} JfrLookup;

static inline JfrLookup jfr_look_up(JfrHash hash, JfrKnown *table, unsigned bits) {
        uint64_t low = (uint64_t)hash, high = (uint64_t)(hash >> 64);

        return (JfrLookup){ .wanted = { .hash = low, .more = (uint32_t)(high ^ high >> 32) | 1 },
                            .pair = table + jfr_known_place(low, bits) };
}

/*
 * The choice between the two is no branch: no CPU could foresee it. Return: the one that knows the hash, or
 * NULL.
 */
static inline const JfrKnown *jfr_find_known(const JfrLookup *lookup) {
        const JfrKnown *known = lookup->pair + (lookup->pair->hash != lookup->wanted.hash);

        return known->hash == lookup->wanted.hash && known->more == lookup->wanted.more ? known : NULL;
}

/* In the first of the two; what was there takes the place of the other. */
static inline void jfr_remember(const JfrLookup *lookup, uint32_t index) {
        lookup->pair[1] = lookup->pair[0];
        lookup->pair[0] = lookup->wanted;
        lookup->pair->index = index;
}

/* The recorded process, as the recording describes it. */
typedef struct JfrRecording {
        bool has_jvm;
        int64_t pid;
        uint64_t jvm_start;
        Text jvm_name, jvm_version, jvm_arguments, java_arguments, os, cpu;
} JfrRecording;

/* The state of a chunk while its events are read. */
typedef struct JfrChunkState {
        const JfrChunk *chunk;
        JfrClock clock;
        JfrMetadata metadata;
        JfrPools pools;
        JfrClassState *states;          /* by class number */
        JfrPlan *plans;
        uint32_t n_plans;
        JfrClassCount *class_counts;    /* by class number */
        JfrKnown *sets;
        bool by_async;                  /* async-profiler wrote it */
        Text event;         /* the event at which async-profiler took jdk.ExecutionSample; empty = not said */
        bool has_execution;             /* the chunk has had jdk.ExecutionSample */
} JfrChunkState;

/* Types of events that the recording has, over all chunks. */
typedef struct JfrTypes {
        Intern names;
        JfrTypeCount *rows;             /* by row of names */
        uint32_t size;
} JfrTypes;

/* Periods of samples, over all chunks. */
typedef struct JfrPeriods {
        uint64_t said[JFR_N_GROUPS];    /* ns or bytes, as the settings say; 0 = they do not */
        bool interval_said;             /* the period of JFR_EXECUTION is async-profiler's */
        bool assumed;                   /* the recording has none of a profile */
        /* sum of periods over the events of past chunks, and number of these events */
        double sums[JFR_N_GROUPS];
        uint64_t n[JFR_N_GROUPS];
} JfrPeriods;

typedef struct JfrReader {
        const JfrInput *input;
        const JfrOptions *options;
        Window *window;
        JfrResult *result;
        Text *problem;
        uint64_t start_ns, end_ns;      /* events in between count */
        uint64_t from;                  /* … from this place of the chunk on */
        bool timed;
        JfrChunkState current;
        uint32_t n_chunks;

        /* over all chunks */
        JfrNames names;
        JfrCounts counts;
        JfrTypes types;
        JfrCombinations combinations;   /* combinations of the thread that reads events … */
        JfrPlace *places;               /* … and what became of them */
        uint32_t resource;
        uint32_t profiles[JFR_N_GROUPS];        /* index + 1 */
        uint32_t type_attributes[JFR_N_GROUPS];
        JfrPeriods periods;
        JfrRecording about;
        JfrLibrary *libraries;
        uint32_t n_libraries, libraries_size;
        bool damaged;
} JfrReader;

/* Notes a mistake; the first is the one that is told. */
_printf_(2, 3) void jfr_mistake(JfrReader *reader, const char *format, ...);

/* WINDOW_E_FULL becomes JFR_E_FULL. */
static inline int jfr_full(int r) {
        return r == WINDOW_E_FULL ? JFR_E_FULL : r;
}

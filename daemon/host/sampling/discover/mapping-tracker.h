/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Mapping Tracker
 *
 * Keeps what is known of the mappings of profiled programs up to date: reads them when a sample needs them,
 * puts the kernel's notices on top, and recalls those of a process that is gone. Long maps are read in turns.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "host/sampling/discover/notice-history.h"
#include "host/sampling/process/process.h"

/* How well the mappings of one program are known. Its Process has the mappings themselves. */
typedef struct TrackedMappings {
        Process *process;               /* borrowed, lives longer */
        uint64_t end_ns;                /* end of the program; 0 = it runs */
        uint64_t refresh_ns, refresh_interval_ns;       /* when they may be read again */
        size_t n_read;                  /* mappings at the last read */
        /* an exec began: what is mapped since then is another program's; 0 = none */
        uint64_t exec_ns;
        unsigned n_changes;             /* mappings that were noticed since the last flush */
        bool is_outdated;               /* the mappings must be read again */
        bool is_told;                   /* … by notices alone, and each file was found by its path */
        bool is_forgotten;              /* the process is gone, and no notice tells what it had mapped */
        bool has_lent;                  /* its identity is an ancestor's, until its own start comes */
        bool is_changed;                /* the program is in the list of changed ones */
        struct TrackedMappings *next_changed;
        ProcessReading *reading;        /* in several turns; NULL = none */
        bool changed_much;              /* during that reading: they must be read again after it */
        struct TrackedMappings *next_reading;
        uint64_t copy_start, copy_end;  /* where memory has taken the place of a file's text last */
} TrackedMappings;

typedef struct MappingTrackerConfig {
        ObjectCache *objects;           /* borrowed */
        NoticeHistory *notices;         /* borrowed; NULL = a process that is gone is not recalled */
        bool environment;               /* whether the environment of a program is read with its mappings */
        /* The profiled program that @pid ran at @time_ns, or NULL. */
        TrackedMappings *(*program_at)(void *userdata, uint32_t pid, uint64_t time_ns);
        /* The mappings of a program are others now. Return: 0, -errno. */
        int (*changed)(void *userdata, TrackedMappings *mappings);
        void *userdata;
} MappingTrackerConfig;

typedef struct MappingTracker {
        MappingTrackerConfig config;
        TrackedMappings *first_changed; /* until the next flush */
        TrackedMappings *first_reading;
        unsigned n_reading;
        size_t text_left;               /* bytes of maps that may still be read in this turn */
        struct TrackedGroup {           /* control groups of ancestors that starts have told of, as a ring */
                Identity *identity;     /* owned; NULL = none */
                uint32_t of;
                uint64_t start_ns, read_ns;
        } groups[8];                    /* a ring; one that is overwritten is read again: no counter */
        uint32_t n_groups;              /* groups read so far */
} MappingTracker;

enum {
        _MAPPING_TRACKER_E_SUCCESS,
        MAPPING_TRACKER_E_NOT_NOW,      /* asked too often */
};

/* Until the first turn begins, reading has no limit. */
void mapping_tracker_init(MappingTracker *tracker, const MappingTrackerConfig *config);

void mapping_tracker_deinit(MappingTracker *tracker);

/* Another turn of the loop: so much of maps may be read once more. */
void mapping_tracker_begin_turn(MappingTracker *tracker);

/* Goes on with the readings that wait, in the order in which they began. Return: 0, -errno. */
int mapping_tracker_work(MappingTracker *tracker);

/* Nothing is read of the mappings of a new program yet. */
void mapping_tracker_begin(TrackedMappings *mappings, Process *process);

/* The program has ended: no reading goes on. */
void mapping_tracker_end(MappingTracker *tracker, TrackedMappings *mappings, uint64_t end_ns);

/*
 * Reads the mappings; a process that goes away meanwhile stays with what it has, and so does one with very
 * many until they are read in later turns. Return: 0, -errno.
 */
int mapping_tracker_read(MappingTracker *tracker, TrackedMappings *mappings);

/*
 * The same, but at most every 100 ms, and ever less often while nothing new is found. Return: 0,
 * MAPPING_TRACKER_E_NOT_NOW, -errno.
 */
int mapping_tracker_refresh(MappingTracker *tracker, TrackedMappings *mappings);

/*
 * Gives @process the identity that was sent with its first sample, and its groups if it lives. Comes before
 * its mappings are read or recalled. Return: 0, -ENOMEM.
 */
int mapping_tracker_know(MappingTracker *tracker, Process *process, const struct abi_start *start);

/* Whether all that it has mapped was known, and holds no runtime and no contexts. */
bool mapping_tracker_is_plain(const TrackedMappings *mappings);

/*
 * Mappings are read when they are needed first, or recalled from notices if the process is gone. @time_ns: of
 * the sample that needs them. @is_told: all notices from before it have been here. Return: 0, -errno.
 */
int mapping_tracker_ensure(MappingTracker *tracker, TrackedMappings *mappings, uint64_t time_ns,
                           bool is_told);

/* A notice of a mapping in the process of @mappings. Return: 0, -errno. */
int mapping_tracker_notice(MappingTracker *tracker, TrackedMappings *mappings, const MappingNotice *notice);

/* An exec has begun: what is mapped from @time_ns on belongs to another program. */
void mapping_tracker_exec_begins(TrackedMappings *mappings, uint64_t time_ns);

/* Notices were lost: they must be read again. */
void mapping_tracker_outdate(TrackedMappings *mappings);

/* The mappings of a program are others, by what is known apart from notices. Return: 0, -errno. */
int mapping_tracker_tell(MappingTracker *tracker, TrackedMappings *mappings);

/* Tells of all that have changed (callback `changed`). Return: 0, -errno. */
int mapping_tracker_flush(MappingTracker *tracker);

/* @mappings are of the program that has replaced @old in the same process. Return: 0, -ENOMEM. */
int mapping_tracker_inherit(TrackedMappings *mappings, const TrackedMappings *old);

/*
 * @mappings are of a child that the process of @parent forked at @fork_ns, and that was walked by its
 * parent's rows until now: stale are samples in code that the child has mapped over its parent's. Return: 0,
 * -ENOMEM.
 */
int mapping_tracker_fork(TrackedMappings *mappings, const TrackedMappings *parent, uint64_t fork_ns);

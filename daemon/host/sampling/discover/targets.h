/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Targets
 *
 * The set of processes that are profiled. One pass over /proc at the start,
 * then fed with notices from the kernel half and with time; tells its user
 * through callbacks what the kernel's process table must hold. Goes over /proc
 * again only where notices were lost, and very slowly as a net under all this.
 *
 * A process that is gone stays known for TARGETS_KEEP_NS, for samples that are
 * still on their way. A program that exec replaces does too.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "border/abi.h"
#include "core/base/util/macro.h"
#include "host/sampling/context/publication.h"
#include "host/sampling/discover/selector.h"
#include "host/sampling/process/object.h"
#include "host/sampling/process/process.h"

#define TARGETS_KEEP_NS UINT64_C(2000000000)

typedef struct Targets Targets;

/* Calls that keep the kernel's table. Return: 0, > 0 = the table is full, < 0 = fatal, passed up. */
typedef struct TargetsCallbacks {
        int (*row_set)(void *userdata, uint32_t tgid, const struct abi_process *row);
        int (*row_remove)(void *userdata, uint32_t tgid);
        /* a target, or a new program of one; may be NULL */
        void (*found)(void *userdata, const Process *process);
        /* the mappings of @process were read; 0 or < 0; may be NULL */
        int (*mapped)(void *userdata, const Process *process);
        /* later: workers have looked into all its files; 0 or < 0; may be NULL */
        int (*looked)(void *userdata, const Process *process);
        /* workers have looked into some of them, and the others may be asked for again; may be NULL */
        int (*waits)(void *userdata, const Process *process);
        void *userdata;
        int (*adopt)(void *userdata, const struct abi_adoption *adoption);     /* 0 or < 0; may be NULL */
        /* stations of coroutines were found in @process; 0 or < 0; may be NULL */
        int (*stations)(void *userdata, const Process *process);
        /* no process of this name is chosen; 0 or < 0; may be NULL, if `names` is ABI_NAMES_NONE */
        int (*reject_name)(void *userdata, const struct abi_name *name);
        /* whether all ticks of @process are wanted; NULL = of none are */
        bool (*is_boosted)(void *userdata, const Process *process);
        /* first samples of programs of this name may wait, or may not any more; NULL = they never do */
        void (*settle_name)(void *userdata, const struct abi_settled_name *name, bool is_settled);
} TargetsCallbacks;

typedef struct TargetsConfig {
        const Selector *selector;       /* borrowed, lives longer */
        ObjectCache *objects;           /* borrowed, lives longer */
        TargetsCallbacks callbacks;
        enum abi_names names;           /* parts of a name that the kernel half looks at */
        bool environment;               /* whether targets' environments are looked into */
        /* living ones; 0 = ABI_MAX_PROCESSES / 2. Over it: TARGETS_OVER_CAP */
        uint32_t max_targets;
} TargetsConfig;

enum {
        _TARGETS_E_SUCCESS,
        TARGETS_E_REJECTED,             /* no selector chose it, or the set is full */
        TARGETS_E_NOT_NOW,              /* asked too often, or the process is gone */
};

/* Return: 0, -ENOMEM. */
int targets_new(Targets **targetsp, const TargetsConfig *config);

/* Gives back every object; the callbacks are not called. */
Targets *targets_free(Targets *targets);
DEFINE_CLEANUP(Targets, targets_free)

/*
 * The pass over /proc. Call it once, after the watchers are attached: nothing falls in between. Return: 0,
 * -errno.
 */
int targets_scan(Targets *targets);

/*
 * Takes a notice of the kernel half, which must watch (`watch_targets`), whatever the selectors are: a target
 * that starts to publish later is found by such a notice too. Return: 0, -errno.
 */
int targets_notice(Targets *targets, const struct abi_notice *notice);

/* Keeps what a new process says of itself; its sample follows. @start: a sound record. */
void targets_start(Targets *targets, const struct abi_start *start);

/* Keeps programs that are gone for @keep_ns from now on; TARGETS_KEEP_NS is usual. */
void targets_keep(Targets *targets, uint64_t keep_ns);

/* Whether so many programs that are gone are kept that the oldest may soon make room. */
bool targets_is_crowded(const Targets *targets);

/* When targets_work() has to come for what was told since its last call; UINT64_MAX = for nothing of it. */
uint64_t targets_asked_ns(const Targets *targets);

/*
 * All of them that were posted before @until_ns have been told: what the sweep found until then was told, or
 * it was not.
 */
void targets_noticed(Targets *targets, uint64_t until_ns);

/*
 * Take what the kernel tells of executable mappings, in the order of time and before targets_notice() of the
 * same drain: a mapping; the begin of an exec, before the new program maps anything (the notice of it
 * follows); a fork, whose child has all that its parent has; or that some were lost: every target's mappings
 * are read again then. Return: 0, -errno.
 */
int targets_mapping(Targets *targets, const MappingNotice *notice);
int targets_exec_begins(Targets *targets, uint32_t tgid, const char comm[ABI_COMM_SIZE], uint64_t time_ns);
int targets_fork(Targets *targets, uint32_t tgid, uint32_t parent, uint64_t time_ns);
void targets_resync(Targets *targets);

/*
 * Notices of the kernel half were lost (LOST_NOTICES): all processes are looked at again, a few at each
 * targets_work(). Exits that were missed are seen by the targets' clocks.
 */
void targets_resync_notices(Targets *targets);

/*
 * Each exec before @until_ns was told by targets_exec_begins(), unless it was lost (targets_resync()). Until
 * the first call that is so of all.
 */
void targets_execs_told(Targets *targets, uint64_t until_ns);

/*
 * Another turn of the loop: once more so much of maps may be read. Until the first one, at the start, there
 * is no limit. Whether there is some left to read: then targets_work() should be called soon.
 */
void targets_begin_turn(Targets *targets);
bool targets_is_reading(const Targets *targets);

/*
 * Tells what has changed by then (callback `mapped`). Once after them, before samples of that time. Return:
 * 0, -errno.
 */
int targets_flush_mappings(Targets *targets);

/*
 * Work that is due at @now_ns (MONOTONIC): forgets the dead, goes on searching for rings, checks rings.
 * *next_nsp: when to call again. Return: 0, -errno.
 */
int targets_work(Targets *targets, uint64_t now_ns, uint64_t *next_nsp);

/*
 * The program that was sampled, with its mappings read if that was possible. A process that was sampled while
 * undecided is decided here. *programp lives until the next call of targets_work(), _notice() or _admit().
 * Return: 0 and *programp, TARGETS_E_REJECTED (the sample belongs to no target), -errno.
 */
int targets_admit(Targets *targets, const struct abi_sample *sample, Program *programp);

/*
 * The program of @pid with that generation, with its mappings as by targets_admit(); one that is gone, for
 * some seconds, too.
 * Return: 0, TARGETS_E_REJECTED = it is not known (any more), -errno.
 */
int targets_program(Targets *targets, uint32_t pid, uint64_t generation, Program *programp);

/* The areas of made code of a living process are others now. Return: 0, -errno. */
int targets_made(Targets *targets, Process *process);

/* When the last program of @pid ended; UINT64_MAX = it has not, or there was none. */
uint64_t targets_end_ns(const Targets *targets, uint32_t pid);

/*
 * Reads the mappings of a living process again, since an address of it lay outside of all. At most every
 * 100 ms a process, and ever less often while nothing new is found. Return: 0, TARGETS_E_NOT_NOW, -errno.
 */
int targets_refresh(Targets *targets, Process *process);

/* Others are boosted now: writes rows that are not as they should be. Return: 0, -errno. */
int targets_boost(Targets *targets);

/*
 * More is known of the files of those that wait for that: how their threads' contexts are reached. Return: 0,
 * -errno.
 */
int targets_resolve_waiting(Targets *targets);

/* Copies of files have come, or will not: reads the mappings of who waits for them. Return: 0, -errno. */
int targets_reread_awaiting(Targets *targets);

/* CPU time of all targets, dead ones included, each from when it became one; ns. Never goes down. */
uint64_t targets_cpu_time(Targets *targets);

/* Sampling begins: what the targets found so far have used until now was not sampled. */
void targets_begin_cpu_time(Targets *targets);

/*
 * The same without a look at the clocks of the living: as they were at the last call of targets_cpu_time().
 */
uint64_t targets_cpu_time_seen(Targets *targets);

/* The same as the passes of targets_work() saw it: some seconds old. Never goes down. */
uint64_t targets_cpu_time_passed(Targets *targets);

/* Living targets. */
size_t targets_count(const Targets *targets);

/* Processes that --all would profile, as the pass over /proc saw them; kernel threads are not among them. */
size_t targets_count_all(const Targets *targets);

/* A pid that was asked for and that the pass over /proc did not find; 0 = none. */
uint32_t targets_missing_pid(const Targets *targets);

/* How many of the pids that were asked for an exclude took away again. */
size_t targets_n_excluded_pids(const Targets *targets);

/* Visits the living targets in no order (for `targets`, `contexts`). */
void targets_each(Targets *targets,
                  void (*visit)(void *userdata, const Process *process, SelectorReason reason),
                  void *userdata);

/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Inside of Targets
 *
 *     targets.c           the set as a whole: pass over /proc, work that is due, CPU time
 *     targets-member.c    how a process gets in, gets known better, and gets out
 *     targets-event.c     what notices and samples tell
 *     targets-mapping.c   what is known of their mappings, and how it changes
 *     targets-sweep.c     what notices should have told and did not
 */

#include <dirent.h>

#include "base/util/clock.h"
#include "base/util/hashmap.h"
#include "base/util/stat.h"
#include "sampling/context/ring-search.h"
#include "sampling/discover/notice-history.h"
#include "sampling/discover/rejects.h"
#include "sampling/discover/sweep-results.h"
#include "sampling/discover/targets.h"
#include "sampling/discover/tree.h"

#define TARGETS_REFRESH_MIN_NS (100 * NS_PER_MS)
/* not quite a second: who calls once a second calls in time */
#define WORK_INTERVAL_NS (900 * NS_PER_MS)

/* A program that is or was profiled. */
typedef struct Target {
        Process *process;
        Publication publication;
        struct Target *older;           /* the program before it, same pid */
        struct Target *next_dead;       /* in the order of death */
        SelectorReason reason;
        uint64_t begin_ns;              /* exec; 0 = as long as the process lives */
        uint64_t end_ns;                /* 0 = alive */
        uint64_t missed_ns;             /* when it was first seen gone without a notice of its exit */
        uint64_t cpu_base_ns, cpu_last_ns;
        uint64_t refresh_ns, refresh_interval_ns;       /* when mappings may be read again */
        size_t n_read;                  /* mappings at the last read */
        /* an exec began: what is mapped since then is another program's; 0 = none */
        uint64_t exec_ns;
        unsigned n_changes;             /* mappings that were noticed since the last flush */
        bool is_outdated;               /* its mappings must be read again */
        bool is_forgotten;              /* gone, and no notice tells what it had mapped */
        bool is_changed;                /* is in the list of those that were */
        struct Target *next_changed;
        ProcessReading *reading;        /* of its mappings, in several turns; NULL = none */
        bool changed_much;              /* meanwhile: they must be read again after that */
        struct Target *next_reading;
} Target;

/* The pass that never ends. */
typedef struct Sweep {
        DIR *dir;                       /* where it is; NULL = at the begin */
        uint64_t next_ns;
        bool is_resync;                 /* notices were lost: everybody, at once and thoroughly, */
        bool is_again;                  /* and once more, since more were lost meanwhile */
        uint64_t cost_ns;               /* of this pass over everybody so far */
        uint64_t rest_ns;               /* none of these before */
        SweepResults sweep_results;
} Sweep;

struct Targets {
        TargetsConfig config;
        Hashmap chains;                 /* tgid → newest Target */
        Rejects rejects;
        Target *first_dead, **last_deadp;
        size_t n_alive, n_dead, n_all;
        uint64_t last_generation;
        uint64_t cpu_done_ns;           /* of those that are gone */
        uint64_t cpu_reported_ns;
        uint64_t start_ticks_ns;        /* BOOTTIME when the set was made */
        uint64_t next_pass_ns;
        uint32_t pass_at;               /* where the next pass over the targets goes on */
        uint32_t missing_pid;
        size_t n_excluded_pids;
        Search *search;
        Sweep sweep;
        Tree *tree;                     /* NULL = nobody is chosen by descent */
        NoticeHistory *notice_history;                 /* NULL = only living processes become targets */
        Target *first_changed;          /* until the next flush */
        Target *first_reading;
        unsigned n_reading;
        size_t text_left;               /* bytes of maps that may still be read in this turn */
};

/* The living target with this id, or NULL. */
Target *targets_living(const Targets *targets, uint32_t tgid);

/*
 * What the selectors say of a process. Who it is beyond what @facts hold is read if that is needed; what
 * cannot be read matches nothing. Return: 0, -ENOMEM.
 */
int targets_decide(const Targets *targets, const SelectorFacts *facts, SelectorReason *reasonp);

/*
 * Who a process was that is gone: its user and groups were its parent's, or that one's parent's; its
 * executable is known from notices. *identityp stays NULL if that tells too little. Return: 0, -ENOMEM.
 */
int targets_recall_identity(const Targets *targets, uint32_t tgid, unsigned what, Identity **identityp);

/* What the leader of a process that is gone was called at @time_ns; @comm stays as it is if nobody knows. */
void targets_recall_comm(const Targets *targets, uint32_t tgid, uint64_t time_ns, char comm[ABI_COMM_SIZE]);

/* The kernel's table. Return: as the callbacks. */
int targets_set_row(Targets *targets, Target *target);
int targets_remove_row(Targets *targets, uint32_t tgid);

/*
 * Makes a target of a process that is none. Takes *processp over on success. @finding: what a search has found
 * in it; NULL = nothing.
 * Return: 0, TARGETS_E_REJECTED = the table is full (counted), -errno.
 */
int targets_add(Targets *targets, Process **processp, SelectorReason reason, const SearchFinding *finding,
                Target **targetp);

/* The same for one that is chosen by pid, name or --all: with mappings and, if it is there, its ring. */
int targets_add_chosen(Targets *targets, Process **processp, SelectorReason reason, Target **targetp);

/*
 * The end of a living target: its row goes, it waits for its last samples.
 * @event: COUNTER_TARGETS_GONE or _EXEC. @cpu_total_ns: all its CPU time, or 0 = what was read last.
 */
int targets_end(Targets *targets, Target *target, enum counter event, uint64_t end_ns, uint64_t cpu_total_ns);
void targets_forget_oldest_dead(Targets *targets);
void targets_free_target(Target *target);

/* What targets_notice() does, for a notice that the kernel half has not posted. */
int targets_take_notice(Targets *targets, const struct abi_notice *notice);

/* A step of the sweep, if it is due. *next_nsp: when the next one is. Return: 0, -errno. */
int targets_sweep(Targets *targets, uint64_t now_ns, uint64_t *next_nsp);

/* Whether its process context was updated, or is gone. */
int targets_poll_context(Targets *targets, Target *target);

/* After a change of mappings: how its threads' contexts are reached. */
int targets_resolve_threads(Targets *targets, Target *target);

/*
 * Reads the mappings; a process that goes away meanwhile stays with what it has, and so does one with very
 * many until they are read in later turns.
 */
int targets_read_mappings(Targets *targets, Target *target);
int targets_go_on_reading(Targets *targets);
void targets_stop_reading(Targets *targets, Target *target);

/*
 * Mappings are read when they are needed first, or recalled from notices if the process is gone. @time_ns: of
 * the sample that needs them. Return: 0, -errno.
 */
int targets_ensure_mappings(Targets *targets, Target *target, uint64_t time_ns);

/* @target has replaced @old in the same process. Return: 0, -ENOMEM. */
int targets_inherit_past(Target *target, const Target *old);

/* A rejected process has a row too, until it may be decided anew. */
int targets_reject(Targets *targets, uint32_t tgid, uint64_t start_time_ns);
int targets_unreject(Targets *targets, uint32_t tgid);
int targets_expire_rejects(Targets *targets, uint64_t now_ns);

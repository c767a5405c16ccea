/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Membership
 *
 * Who is profiled, and why: decides by the selectors, remembers which process ran which program when, keeps
 * programs that are gone for samples that are still on their way, and adds up CPU time. Remembers for a while
 * which processes no selector chose. It does not know the kernel's table: its caller writes that.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "border/abi.h"
#include "core/base/data/hashmap.h"
#include "host/sampling/discover/notice-history.h"
#include "host/sampling/discover/selector.h"
#include "host/sampling/discover/tree.h"
#include "host/sampling/process/process.h"

/* ---- processes that no selector chose ---- */

/* Processes are kept for a while, so that they are not decided again at each sample. Capped, oldest first. */
typedef struct Reject Reject;

typedef struct Rejects {
        Hashmap map;                    /* tgid → Reject */
        Reject *first, *last;
        size_t max;
} Rejects;

enum {
        _REJECTS_E_SUCCESS,
        REJECTS_E_KNOWN,                /* is there already */
        REJECTS_E_FULL,                 /* the cap is reached; nothing was added */
};

static inline void rejects_init(Rejects *rejects, size_t max) {
        *rejects = (Rejects){ .max = max };
}

void rejects_deinit(Rejects *rejects);

/* @until_ns must not be earlier than that of those added before. Return: 0, REJECTS_E_*, -ENOMEM. */
int rejects_add(Rejects *rejects, uint32_t tgid, uint64_t until_ns);
bool rejects_contains(const Rejects *rejects, uint32_t tgid);

/* Return: whether it was there. */
bool rejects_remove(Rejects *rejects, uint32_t tgid);

/* The first whose time has come at @now_ns; it stays until it is removed. Return: its tgid, 0 = none. */
uint32_t rejects_expired(const Rejects *rejects, uint64_t now_ns);

/* ---- members ---- */

/* A program that is or was profiled; part of what its caller keeps of it. */
typedef struct Member {
        Process *process;               /* borrowed, lives longer */
        struct Member *older;           /* the program before it, same pid */
        struct Member *next_dead;       /* in the order of death */
        SelectorReason reason;
        uint64_t begin_ns;              /* exec; 0 = as long as the process lives */
        uint64_t end_ns;                /* 0 = alive */
        uint64_t until_ns;              /* exec of the next program, of one that was gone by then; 0 = none */
        uint64_t missed_ns;             /* when it was first seen gone without a notice of its exit */
        uint64_t cpu_base_ns, cpu_last_ns;
        /* when a look passed by; of the next program too, if no notice told of its exec yet */
        uint64_t cpu_passed_ns;
} Member;

/* Exits that are remembered. A later one takes the place, and costs a look at /proc: no counter. */
enum { MEMBERSHIP_EXITS = 256 };

typedef struct Membership {
        const Selector *selector;       /* borrowed */
        const NoticeHistory *notices;   /* borrowed; NULL = none */
        Hashmap chains;                 /* pid → newest Member */
        Rejects rejects;
        Tree *tree;                     /* NULL = no process is chosen by descent */
        Member *first_dead, **last_deadp;
        size_t n_alive, n_dead;
        uint64_t last_generation;
        uint64_t cpu_done_ns;           /* sum over members that are gone */
        uint64_t cpu_reported_ns, cpu_passed_ns;
        uint64_t start_ticks_ns;        /* BOOTTIME when the set was made */
        struct MembershipExit {         /* by pid, modulo their number */
                uint64_t start_time_ns;
                uint32_t tgid;
        } exits[MEMBERSHIP_EXITS];
} Membership;

enum {
        _MEMBERSHIP_E_SUCCESS,
        MEMBERSHIP_E_REJECTED,          /* the process is rejected already, or too many are */
};

/* @notices: NULL = none. Return: 0, -ENOMEM. */
int membership_init(Membership *membership, const Selector *selector, const NoticeHistory *notices);

/* The members are their owner's. */
void membership_deinit(Membership *membership);

/* ---- decisions ---- */

/*
 * Asks the selectors about a process. Its identity is read if the selectors need it, or recalled from notices
 * if the process is gone; what cannot be known matches nothing. @time_ns: of a program that ran then and is
 * over; 0 = of the one that runs now. Return: 0, -ENOMEM.
 */
int membership_decide(const Membership *membership, const SelectorFacts *facts, uint64_t time_ns,
                      SelectorReason *reasonp);

/*
 * Exits of all processes: one that is known to be gone need not be looked for. Most short programs are, when
 * their first sample is read. has_exited: false = it is not known.
 */
void membership_note_exit(Membership *membership, uint32_t tgid, uint64_t start_time_ns);
bool membership_has_exited(const Membership *membership, uint32_t tgid, uint64_t start_time_ns);

/* Finds the name that the leader of an ended process had at @time_ns; @comm stays if that is unknown. */
void membership_recall_comm(const Membership *membership, uint32_t tgid, uint64_t time_ns,
                            char comm[ABI_COMM_SIZE]);

/*
 * Remembers for ten seconds that no selector chose a process; *generationp: of its row. Return: 0,
 * MEMBERSHIP_E_REJECTED = nothing was done, -ENOMEM.
 */
int membership_reject(Membership *membership, uint32_t tgid, uint64_t *generationp);

/* Return: whether it was rejected, and has a row. */
bool membership_unreject(Membership *membership, uint32_t tgid);

/* ---- programs ---- */

/* The newest program of @pid; the one that runs; the one of @time_ns. Or NULL. */
Member *membership_newest(const Membership *membership, uint32_t pid);
Member *membership_living(const Membership *membership, uint32_t pid);
Member *membership_at(const Membership *membership, uint32_t pid, uint64_t time_ns);

/* The program that a process with this start ran at @time_ns, also after its end; by generation. Or NULL. */
Member *membership_find(const Membership *membership, uint32_t pid, uint64_t start_time_ns, uint64_t time_ns);
Member *membership_find_generation(const Membership *membership, uint32_t pid, uint64_t generation);

/* Walks the newest program of each pid, as hashmap_next(). NULL = the end. */
Member *membership_next(const Membership *membership, uint32_t *atp);

/* A new member, which gets a generation. All zeros but @member->process. Return: 0, -ENOMEM. */
int membership_add(Membership *membership, Member *member, SelectorReason reason);

/* Takes back membership_add(), of the newest program of its pid. */
void membership_withdraw(Membership *membership, Member *member);

/* The member is in force: its CPU time counts from now on, or from its birth. */
void membership_start(Membership *membership, Member *member, bool from_birth);

/* The end of a living member. @cpu_total_ns: all its CPU time, or 0 = what was read last. */
void membership_end(Membership *membership, Member *member, uint64_t end_ns, uint64_t cpu_total_ns);

/*
 * Takes a dead member out that no sample can ask for any more: @keep_ns after its end, or if there are too
 * many. Return: the member, which is its owner's to free; NULL = none.
 */
Member *membership_take_dead(Membership *membership, uint64_t now_ns, uint64_t keep_ns);

/* Whether the dead take three quarters of their places. */
bool membership_is_crowded(const Membership *membership);

/* ---- CPU time ---- */

/* An exit or what was settled after it, of a process that may never have been seen; value: CPU time, ns. */
void membership_settle(Membership *membership, const struct abi_notice *notice);

/* As targets_begin_cpu_time() and so on. */
void membership_begin_cpu_time(Membership *membership);
uint64_t membership_cpu_time(Membership *membership);
uint64_t membership_cpu_time_seen(Membership *membership);
uint64_t membership_cpu_time_passed(Membership *membership);

/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Publication
 *
 * What one program publishes of its traces, in any of four forms: a ring (spanprof/ring.h), a process context
 * (spanprof/process.h), thread contexts (spanprof/thread.h), stations of coroutines (spanprof/station.h).
 * And what must be known to follow it: each form may come, change and go while the program runs.
 *
 * It does not search (ring-search.h) and does not know the kernel's table: its caller does both.
 */

#include <stdbool.h>
#include <stdint.h>

#include "host/sampling/context/process-context.h"
#include "host/sampling/context/thread-context.h"
#include "host/sampling/process/process.h"

/* When to look again, which is ever less often. */
typedef struct LookAgain {
        uint64_t at_ns, interval_s;     /* interval 0 = there was no look yet */
} LookAgain;

typedef struct Publication {
        uint64_t ring_address;          /* 0 = none */
        uint32_t ring_capacity;
        uint32_t lost_capacity;
        uint64_t invalid_ring;          /* a ring with one wrong field, for lists; 0 = none, */
        unsigned invalid_fault;         /* … and which field: RING_FAULT_* */
        uint64_t lost_address;          /* a ring that went wrong, and may come right again; 0 = none */
        uint64_t adopted_ring;          /* the ring whose threads the kernel half knows; 0 = none */
        uint32_t adopted_capacity;
        uint64_t stations_address;      /* stations of coroutines; 0 = none */

        ProcessContext *context;        /* owned; NULL = none */
        bool wants_context;             /* a key index was met that `context` does not know: it may be old */
        unsigned context_tries;
        uint64_t context_address;       /* a process context that was being updated; 0 = none */
        uint64_t refused_address;       /* a process context that is not read, */
        int refused;                    /* … and why: PROCESS_CONTEXT_E_*; told once */

        ThreadContext thread;           /* how its threads' contexts are reached */
        bool waits_for_symbols;         /* … as far as its files have been looked through */
        bool told_unread;
        uint32_t n_early;               /* samples without a context that came while it waited */
        uint64_t threads_ns;            /* MONOTONIC: when the wait ended with `thread` found; 0 = never */

        LookAgain form;                 /* for another form */
        LookAgain link;                 /* how a thread's context is reached; interval 0 = it is known */
        uint64_t looked_cpu_ns;         /* CPU time of the process at the last look */
} Publication;

/* A program that is profiled, and what it publishes; both borrowed. */
typedef struct Program {
        Process *process;
        Publication *publication;
        bool has_ended;
} Program;

/* Gives back what it holds; all zeros is a publication of nothing. */
void publication_deinit(Publication *publication);

/* A ring was found; (0, 0) = it is lost. */
void publication_set_ring(Publication *publication, uint64_t address, uint32_t capacity);

/*
 * Whether the ring is still there. A new one is announced by a notice of the kernel half; but none comes when
 * the old one, which was being written or had been overwritten, is right again where it was.
 */
typedef enum PublicationRing {
        PUBLICATION_RING_SAME,          /* as it was, or none */
        PUBLICATION_RING_BACK,          /* the one that was lost is set again */
        PUBLICATION_RING_LOST,          /* no ring is set any more */
} PublicationRing;

PublicationRing publication_check_ring(Publication *publication, const Process *process);

/*
 * Reads the process context at @address, which was met for the first time or has changed. One that cannot be
 * read is told once, and the one before stays. *changedp becomes true where there is another one now.
 * Return: 0, -ENOMEM.
 */
int publication_set_context(Publication *publication, const Process *process, uint64_t address,
                            bool *changedp);

/* Looks whether the process context was updated, or is gone. *changedp, return: as above. */
int publication_poll_context(Publication *publication, const Process *process, bool *changedp);

/*
 * How its threads' contexts are reached, by the mappings of @process; after each change of these. Return:
 * whether it is another way now.
 */
bool publication_resolve_threads(Publication *publication, const Process *process);

/* Whether publication_resolve_threads() is due though no mapping has changed. */
bool publication_is_link_due(const Publication *publication, uint64_t now_ns);

/* Whether to look for another form now; if so, the next look is the later. */
bool publication_is_form_due(Publication *publication, uint64_t now_ns);

/* Whether the process has run since the last call: if not, it has changed nothing. @cpu_ns: its CPU time. */
bool publication_may_differ(Publication *publication, uint64_t cpu_ns);

/*
 * Counts a sample without a context, taken at @time_ns, if it was too early: from before the daemon knew how
 * to reach the context of its thread (CONTEXTS_EARLY).
 */
void publication_count_early(Publication *publication, uint64_t time_ns);

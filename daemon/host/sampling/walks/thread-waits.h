/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Waits of Threads as They Are Now
 *
 * Adds a wait of each thread of a target that has no CPU to the open window: its stack, span, state and
 * reason, and for how long it has waited at most.
 */

#include <stddef.h>
#include <stdint.h>

#include "host/sampling/sample/decode.h"
#include "host/sampling/walks/thread-locks.h"
#include "host/sampling/walks/walks.h"

enum {
        _THREAD_WAITS_E_SUCCESS,
        THREAD_WAITS_E_UNUSABLE,        /* the kernel does not list threads; it was logged */
};

/* A thread that was met. */
typedef struct ThreadWait {
        uint32_t tgid, tid;
        bool was_added;                 /* the wait is in the window; else it runs, or ran in between */
        /*
         * the thread that has what it waits for, if that is a lock of its runtime or a mutex of glibc; 0 =
         * none of this process
         */
        uint32_t holder;
        const RuntimeLock *lock;        /* one of ThreadWaits.locks; NULL = its runtime tells none */
        const char *name;               /* text of its runtime, in ThreadWaits.locks; NULL = none */
        char comm[16];                  /* any bytes, NUL-terminated */
} ThreadWait;

typedef struct ThreadWaits {
        ThreadWait *threads;          /* by process and thread */
        size_t n;
        uint64_t n_over_cap;            /* threads that were not looked at */
        bool lacks_rights;              /* memory of some may not be read */
        ThreadLocks locks;
        /* times of waits are known; else they are 1 ns long, since this kernel does not tell */
        bool knows_times;
} ThreadWaits;

/* A thread that waited before waits were counted. */
typedef struct EarlyWait {
        uint32_t tgid, tid;
        uint64_t n_switches;            /* times that it had left a CPU by then */
} EarlyWait;

/* All of them; { 0 } = none. */
typedef struct EarlyWaits {
        EarlyWait *waits;               /* by process and thread */
        size_t n;
        uint64_t noted_ns;              /* MONOTONIC: when they were noted */
        uint64_t counted_ns;            /* they are in windows until then */
} EarlyWaits;

/*
 * Another word for @reason of a wait in @call with the stack of @sample, if its runtime says that there was
 * nothing to do: a constant, else NULL.
 */
const char *thread_waits_idle(const WalkStages *stages, int16_t call, const char *reason,
                              const Sample *sample);

/*
 * Notes who waits already, before the kernel half begins to count waits: it learns of a wait as that begins.
 * A kernel that does not list threads leaves none. Return: 0, -errno.
 */
int early_waits_note(EarlyWaits *early, const WalkStages *stages);

/*
 * Adds to the open window what such waits have taken since the last call, or since @since_ns (MONOTONIC),
 * when the sampler was started. Drops those that have ended: their last part is not known. Return: 0, -errno.
 */
int early_waits_count(EarlyWaits *early, const WalkStages *stages, uint64_t since_ns);
void early_waits_drop(EarlyWaits *early);

/*
 * Adds the wait of each thread, from when it began. Takes a second at most. Return: 0,
 * THREAD_WAITS_E_UNUSABLE, -errno.
 */
int thread_waits_add(const WalkStages *stages, ThreadWaits *threads);
void thread_waits_deinit(ThreadWaits *threads);

/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Locks of a Runtime
 *
 * What threads of one process wait for, by the word of its runtime.
 */

#include <stddef.h>
#include <stdint.h>

enum {
        RUNTIME_MAX_LOCKS = 1024,       /* of a process; further threads have none */
        RUNTIME_MAX_LOCK_NAME = 160,
        RUNTIME_MAX_LOCK_TEXT = 128,
};

typedef enum RuntimeLockKind {
        RUNTIME_LOCK_MONITOR,           /* to enter the monitor of an object */
        RUNTIME_LOCK_NOTIFY,            /* for notify() of an object */
        RUNTIME_LOCK_PARKED,            /* an object says what a parked thread waits for */
        RUNTIME_LOCK_OWNED,             /* a lock that knows its owner */
        RUNTIME_LOCK_OWNERLESS,         /* one that does not */
        RUNTIME_LOCK_NONE,              /* no lock: the name is that of the thread itself */
        RUNTIME_N_LOCK_KINDS,
} RuntimeLockKind;

/* Thread and what it waits for. Thread ids are those of the process' own namespace. No hidden bytes. */
typedef struct RuntimeLock {
        uint64_t address;               /* of the lock in the process, which tells it from others */
        uint64_t futex;                 /* it waits for it only if it waits on this word; 0 = it does */
        uint32_t tid;
        uint32_t owner;                 /* thread that has it; 0 = not known, or none */
        uint32_t kind, zero;
        char name[RUNTIME_MAX_LOCK_NAME];       /* its class', zeroes behind it; "" = not known */
} RuntimeLock;

typedef struct RuntimeLocks {
        uint32_t n, n_over_cap;
        char text[RUNTIME_MAX_LOCK_TEXT];       /* what is not read of this runtime; "" = nothing */
        RuntimeLock locks[RUNTIME_MAX_LOCKS];
} RuntimeLocks;

/* Bytes of RuntimeLocks with @n locks. */
static inline size_t runtime_locks_size(uint32_t n) {
        return offsetof(RuntimeLocks, locks) + n * sizeof(RuntimeLock);
}

_Static_assert(sizeof(RuntimeLock) == 32 + RUNTIME_MAX_LOCK_NAME, "no hidden bytes");

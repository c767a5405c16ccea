/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Locks of Threads
 *
 * What threads of processes with a runtime wait for, as the runtime's memory says. It changes while it is
 * read, so a lock is believed only if two looks say the same of a thread: one before its stack is read, one
 * behind that.
 */

#include <stddef.h>
#include <stdint.h>

#include "host/sampling/runtime/runtime-lock.h"
#include "host/sampling/sample/kernel-threads.h"
#include "host/sampling/walks/walks.h"

/* A process, and what its threads wait for. */
typedef struct ProcessLocks {
        uint32_t tgid;
        RuntimeLocks *locks;            /* with room for locks->n of them */
} ProcessLocks;

/* All processes that tell. { 0 } = none. */
typedef struct ThreadLocks {
        ProcessLocks *processes;        /* by process */
        size_t n, room;
} ThreadLocks;

/* Asks each process of @threads once. Return: 0, -errno; *locks is to be given back in both cases. */
int thread_locks_read(ThreadLocks *locks, const WalkStages *stages, const ThreadsLook *threads);
void thread_locks_deinit(ThreadLocks *locks);

/* The locks of process @tgid; NULL = it does not tell. */
const RuntimeLocks *thread_locks_find(const ThreadLocks *locks, uint32_t tgid);

/*
 * Pure. Keeps those of @locks that @again has, too, without an owner if it is another one there; what one of
 * them lacks stays said.
 */
void thread_locks_keep_same(ThreadLocks *locks, const ThreadLocks *again);

/* A constant word for a lock of @kind, as `stacks` and wait.lock.kind have it; NULL = it is none. */
const char *thread_locks_word(uint32_t kind);

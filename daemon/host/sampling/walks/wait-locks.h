/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Locks of Waits
 *
 * Finds out which lock threads of targets wait for, and who has it, while they wait (`--off-cpu`). A wait is
 * told its lock when it ends.
 */

#include <stdbool.h>
#include <stdint.h>

#include "core/base/util/macro.h"
#include "host/sampling/sample/decode.h"
#include "host/sampling/walks/walks.h"

enum { WAIT_LOCKS_MUTEX_WORDS = 5 };

/* @stages: borrowed. Return: 0, -ENOMEM. */
int wait_locks_new(WaitLocks **locksp, const WalkStages *stages);
WaitLocks *wait_locks_free(WaitLocks *locks);
DEFINE_CLEANUP(WaitLocks, wait_locks_free)

/*
 * Looks once. *after_nsp: when to look again, from now on; UINT64_MAX = never: the kernel does not list
 * threads. Return: 0, -errno.
 */
int wait_locks_look(WaitLocks *locks, uint64_t *after_nsp);

/* A window has ended: no pointer to a name is in use any more. Makes room for others where there are many. */
void wait_locks_end_window(WaitLocks *locks);

/* A thread that stood still from one moment to another (MONOTONIC). */
typedef struct WaitingThread {
        uint32_t tgid, tid;
        uint64_t n_switches;            /* times that it has left a CPU */
        uint64_t from_ns, until_ns;
} WaitingThread;

/*
 * Keeps what @thread waits for: a lock whose class is @name, "" = not known. @kind: a constant word, NULL =
 * for no lock that is known. Return: 0, -ENOMEM.
 */
int wait_locks_note(WaitLocks *locks, const WaitingThread *thread, const char *kind, const char *name,
                    uint32_t owner);

/* The lock of thread @tid's wait, or part of one, from @begin_ns to @end_ns (MONOTONIC); NULL = not known. */
const SampleLock *wait_locks_find(const WaitLocks *locks, uint32_t tgid, uint32_t tid, uint64_t begin_ns,
                                  uint64_t end_ns);

/*
 * Pure. @words: a pthread_mutex_t of glibc, if that is at the futex: lock, count, owner, users, kind. Return:
 * the id of the thread that has it; 0 = it is none, or nobody waits for it.
 */
uint32_t wait_locks_mutex_owner(const uint32_t words[static WAIT_LOCKS_MUTEX_WORDS]);

enum wait_locks_mutex {
        WAIT_LOCKS_NO_MUTEX,            /* by both reads */
        WAIT_LOCKS_MUTEX,
        WAIT_LOCKS_UNSURE,              /* by one of them */
};

/*
 * Pure. @first, @second: threads of the process that have it by two reads; 0 = it is no mutex by that read.
 * *ownerp: who has it; 0 = it has changed hands.
 */
enum wait_locks_mutex wait_locks_judge_mutex(uint32_t first, uint32_t second, uint32_t *ownerp);

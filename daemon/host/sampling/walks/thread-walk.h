/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Walks of Threads That Stand Still
 *
 * Reads stack and trace context of a thread that has no CPU, from its memory and the registers that the
 * kernel has saved. Whether it really stood still meanwhile is for the caller to find out.
 */

#include <stdbool.h>
#include <stdint.h>

#include "border/threads_abi.h"
#include "core/base/util/macro.h"
#include "host/sampling/context/publication.h"
#include "host/sampling/context/thread-record.h"
#include "host/sampling/walks/walks.h"

enum {
        _THREAD_WALK_E_SUCCESS,
        THREAD_WALK_E_UNREADABLE,             /* memory of its process */
};

typedef struct ThreadWalker ThreadWalker;

/* Result of a read of one thread. */
typedef struct WalkedThread {
        const struct abi_thread *thread;        /* borrowed */
        ThreadLook context;
        uint8_t outcome, form;          /* enum abi_context, enum abi_form */
        int32_t owner;                  /* word behind the futex that it waits for; 0 = none */
        bool waits_for_lock;            /* the lock is an interpreter's of Python (the GIL) */
        uint8_t interrupted;            /* as in struct abi_sample, like the next three */
        enum abi_stack_end end;
        uint32_t n;
        uint64_t *words;                /* to be freed */
} WalkedThread;

/* @stages: borrowed. @depth: frames at most. Return: 0, -ENOMEM. */
int thread_walker_new(ThreadWalker **walkerp, const WalkStages *stages, uint32_t depth);
ThreadWalker *thread_walker_free(ThreadWalker *walker);
DEFINE_CLEANUP(ThreadWalker, thread_walker_free)

/*
 * @thread: has THREAD_HAS_USER. @program: its process. Threads of one process should come one after the
 * other. Return: 0, THREAD_WALK_E_UNREADABLE, -ENOMEM.
 */
int thread_walker_walk(ThreadWalker *walker, const Program *program, const struct abi_thread *thread,
                      WalkedThread *found);

/* The head of a sample of it, without a value. Its stack and attributes lie in @found. */
void walked_thread_head(const WalkedThread *found, struct abi_sample *head);

/* The process of the last thread is left; it is opened again if it comes again. */
void thread_walker_leave(ThreadWalker *walker);

/* Memory of some processes may not be read. */
bool thread_walker_lacks_rights(const ThreadWalker *walker);

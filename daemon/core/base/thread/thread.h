/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Thread
 *
 * A thread for work that may hang: a disk, a file in FUSE, or the memory of another process need never
 * answer. Its owner waits for a bounded time and then leaves the thread behind, with all that the thread
 * still uses. When the work returns after all, the thread frees that itself. Signals are blocked in it,
 * since the loop wants them.
 *
 * How the owner hands work over, and tells the thread to end, is the owner's own: a mutex and a condition.
 */

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct Thread Thread;

typedef struct ThreadConfig {
        const char *name;               /* as /proc shows it, 15 bytes at most; NULL = its creator's */
        int nice;                       /* 0 = its creator's */
        size_t stack_bytes;             /* 0 = the usual size */
        void (*run)(void *userdata);    /* all that the thread does */
        /* called in a thread that was left behind, after run(); NULL = there is nothing to free */
        void (*destroy)(void *userdata);
        void *userdata;                 /* a thread that is left behind owns it */
} ThreadConfig;

enum {
        _THREAD_E_SUCCESS,
        THREAD_E_UNABLE,                /* the system gives no more threads, for now */
        THREAD_E_LEFT,                  /* the thread has not ended, and was left behind */
};

/* Starts a thread. Return: 0, THREAD_E_UNABLE, -ENOMEM. */
int thread_new(Thread **threadp, const ThreadConfig *config);

/*
 * Waits until run() has returned or @end_ns (MONOTONIC; 0 = does not wait). Return: whether it has. What it
 * wrote is seen by the caller then.
 */
bool thread_wait(Thread *thread, uint64_t end_ns);

/*
 * Ends the use of @thread, which is invalid afterwards. The caller has told run() to return before.
 * @end_ns: as thread_wait(). Return: 0 = the thread is gone, and @userdata is the caller's; THREAD_E_LEFT =
 * it still runs, and @userdata may not be touched any more.
 */
int thread_end(Thread *thread, uint64_t end_ns);

/* The same for work that is known to return: waits as long as that takes. @thread: may be NULL. */
Thread *thread_join(Thread *thread);

/* The thread that calls runs on @cpu alone from now on. Where that is refused, all stays as it is. */
void thread_stay_on(int cpu);

/* The same for another thread. It costs least while that one waits. */
void thread_keep_on(const Thread *thread, int cpu);

/* A condition whose waits end by the monotonic clock. */
void thread_condition_init(pthread_cond_t *condition);

/* Waits for a change until @end_ns (MONOTONIC), with @mutex held. Return: false = the time is up. */
bool thread_condition_wait(pthread_cond_t *condition, pthread_mutex_t *mutex, uint64_t end_ns);

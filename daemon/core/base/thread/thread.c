/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Two sides share a Thread: its owner and the thread itself. The mutex decides which of them comes last,
 * and that one frees:
 *
 *     owner    thread_new() ─────────────── thread_end() ── has it ended?
 *                  │                                          ├─ yes: joins, frees; userdata is the owner's
 *                  ▼                                          └─ no: is_left = true, never looks at it again
 *     thread     run() … hangs … returns ── has_ended = true ── is_left?
 *                                                             ├─ no: ends; the owner will join
 *                                                             └─ yes: destroy(userdata), frees, ends
 */
#include "core/base/thread/thread.h"

#include <errno.h>
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <time.h>

#include "core/base/util/clock.h"
#include "core/base/util/error.h"
#include "core/base/util/macro.h"

struct Thread {
        ThreadConfig config;
        pthread_t id;
        pthread_mutex_t mutex;          /* protects all that follows */
        pthread_cond_t ended;
        bool has_ended, is_left;
};

static void keep_on(pthread_t id, int cpu) {
        cpu_set_t set;

        CPU_ZERO(&set);
        CPU_SET(cpu, &set);
        (void)!pthread_setaffinity_np(id, sizeof(set), &set);
}

void thread_stay_on(int cpu) {
        keep_on(pthread_self(), cpu);
}

void thread_keep_on(const Thread *thread, int cpu) {
        keep_on(thread->id, cpu);
}

void thread_condition_init(pthread_cond_t *condition) {
        pthread_condattr_t monotonic;

        pthread_condattr_init(&monotonic);
        pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
        pthread_cond_init(condition, &monotonic);
        pthread_condattr_destroy(&monotonic);
}

bool thread_condition_wait(pthread_cond_t *condition, pthread_mutex_t *mutex, uint64_t end_ns) {
        const struct timespec end = { (time_t)(end_ns / NS_PER_SEC), (long)(end_ns % NS_PER_SEC) };

        return pthread_cond_timedwait(condition, mutex, &end) != ETIMEDOUT;
}

static void free_thread(Thread *thread) {
        pthread_cond_destroy(&thread->ended);
        pthread_mutex_destroy(&thread->mutex);
        free(thread);
}

/* Return: whether this side has to free @thread. */
static bool note_end(Thread *thread) {
        bool is_left;

        pthread_mutex_lock(&thread->mutex);
        thread->has_ended = true;
        is_left = thread->is_left;
        pthread_cond_signal(&thread->ended);
        pthread_mutex_unlock(&thread->mutex);
        return is_left;
}

static void *thread_main(void *data) {
        Thread *thread = data;
        const ThreadConfig *config = &thread->config;

        if (config->name)
                pthread_setname_np(pthread_self(), config->name);
        if (config->nice)
                setpriority(PRIO_PROCESS, 0, config->nice);     /* Linux: of this thread */
        config->run(config->userdata);
        if (note_end(thread)) {
                if (config->destroy)
                        config->destroy(config->userdata);
                free_thread(thread);
        }
        return NULL;
}

/*
 * Fills in the signals that the loop handles. Signals that a thread's own access causes are not among them:
 * blocked, one would end the process although a handler is there, as for a mapped file that its owner cuts
 * (SIGBUS).
 */
static void fill_asynchronous(sigset_t *set) {
        sigfillset(set);
        sigdelset(set, SIGBUS);
        sigdelset(set, SIGSEGV);
        sigdelset(set, SIGFPE);
        sigdelset(set, SIGILL);
}

/* A thread begins with the signal mask of its creator. Return: 0, an errno. */
static int create(Thread *thread) {
        pthread_attr_t attributes;
        sigset_t all, before;
        int r = 0;

        fill_asynchronous(&all);
        pthread_attr_init(&attributes);
        if (thread->config.stack_bytes)
                r = pthread_attr_setstacksize(&attributes, thread->config.stack_bytes);
        pthread_sigmask(SIG_SETMASK, &all, &before);
        if (!r)
                r = pthread_create(&thread->id, &attributes, thread_main, thread);
        pthread_sigmask(SIG_SETMASK, &before, NULL);
        pthread_attr_destroy(&attributes);
        return r;
}

int thread_new(Thread **threadp, const ThreadConfig *config) {
        Thread *thread = calloc(1, sizeof(*thread));

        if (!thread)
                return error_origin(-ENOMEM);
        thread->config = *config;
        pthread_mutex_init(&thread->mutex, NULL);
        thread_condition_init(&thread->ended);
        if (create(thread)) {
                free_thread(thread);
                return THREAD_E_UNABLE;
        }
        *threadp = thread;
        return 0;
}

/* With the mutex held. */
static bool wait_ended(Thread *thread, uint64_t end_ns) {
        while (!thread->has_ended && end_ns && thread_condition_wait(&thread->ended, &thread->mutex, end_ns))
                ;
        return thread->has_ended;
}

bool thread_wait(Thread *thread, uint64_t end_ns) {
        bool has_ended;

        pthread_mutex_lock(&thread->mutex);
        has_ended = wait_ended(thread, end_ns);
        pthread_mutex_unlock(&thread->mutex);
        return has_ended;
}

int thread_end(Thread *thread, uint64_t end_ns) {
        bool has_ended;

        pthread_mutex_lock(&thread->mutex);
        has_ended = wait_ended(thread, end_ns);
        thread->is_left = !has_ended;
        if (!has_ended)
                pthread_detach(thread->id);
        pthread_mutex_unlock(&thread->mutex);
        if (!has_ended)
                return THREAD_E_LEFT;
        thread_join(thread);
        return 0;
}

Thread *thread_join(Thread *thread) {
        if (!thread)
                return NULL;
        pthread_join(thread->id, NULL);
        free_thread(thread);
        return NULL;
}

/* SPDX-License-Identifier: Apache-2.0 */

/*
 *     push ──▶ jobs ──▶ thread ──▶ results ──▶ collect ──▶ done()
 *                          └─ no answer: stuck(); the jobs move to a new thread, the old one ends when it can
 *
 * The loop owns what a thread uses, and joins it; only a thread that still hangs when the worker ends owns
 * itself.
 */
#include "base/util/worker.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <time.h>

#include "base/util/clock.h"
#include "base/util/error.h"
#include "base/util/list.h"

#define DEFAULT_TIME_LIMIT_NS (10 * NS_PER_SEC)
#define END_TIME_LIMIT_NS (200 * NS_PER_MS)

enum {
        DEFAULT_MAX_JOBS = 256,
        MAX_STUCK = 4,
        STACK_BYTES = 1 << 20,
        NICE = 10,                      /* services go first */
};

typedef struct JobList {
        WorkerJob *first, *last;
} JobList;

typedef struct Thread {
        pthread_t id;
        pthread_mutex_t mutex;
        pthread_cond_t changed;
        WorkerConfig config;
        JobList jobs, results;
        WorkerJob *current;             /* at work */
        uint64_t begin_ns;              /* since then */
        bool quit;
        bool is_given_up;               /* nobody wants the result of its job */
        bool is_alone;                  /* it frees itself */
        bool has_ended;
} Thread;

struct Worker {
        WorkerConfig config;
        Thread *thread;                 /* NULL = none yet */
        Thread *stuck[MAX_STUCK];
        unsigned n_stuck;
        uint32_t n_waiting;
};

static void discard_all(JobList *list) {
        WorkerJob *job;

        while ((job = fifo_pop(list)))
                job->discard(job);
}

/* ---- in the thread ---- */

static void free_thread(Thread *thread) {
        discard_all(&thread->jobs);
        discard_all(&thread->results);
        pthread_cond_destroy(&thread->changed);
        pthread_mutex_destroy(&thread->mutex);
        free(thread);
}

/* With the lock held. */
static void perform(Thread *thread, WorkerJob *job, void *state) {
        thread->current = job;
        thread->begin_ns = clock_monotonic_ns();
        pthread_mutex_unlock(&thread->mutex);
        job->work(job, state);
        pthread_mutex_lock(&thread->mutex);
        thread->current = NULL;
        if (thread->is_given_up)
                job->discard(job);
        else
                fifo_push(&thread->results, job);
        pthread_cond_broadcast(&thread->changed);
}

static void *thread_main(void *userdata) {
        Thread *thread = userdata;
        void *state = thread->config.begin ? thread->config.begin() : NULL;
        bool is_alone;

        if (thread->config.name)
                pthread_setname_np(pthread_self(), thread->config.name);
        setpriority(PRIO_PROCESS, 0, NICE);     /* Linux: of this thread */
        pthread_mutex_lock(&thread->mutex);
        while (!thread->quit) {
                if (thread->jobs.first)
                        perform(thread, fifo_pop(&thread->jobs), state);
                else
                        pthread_cond_wait(&thread->changed, &thread->mutex);
        }
        pthread_mutex_unlock(&thread->mutex);
        if (state && thread->config.end)
                thread->config.end(state);
        pthread_mutex_lock(&thread->mutex);
        is_alone = thread->is_alone;
        thread->has_ended = true;
        pthread_cond_broadcast(&thread->changed);
        pthread_mutex_unlock(&thread->mutex);
        if (is_alone)
                free_thread(thread);
        return NULL;
}

/* ---- in the loop ---- */

/* Signals are the main thread's. */
static int run_thread(Thread *thread) {
        pthread_attr_t attributes;
        sigset_t all, old;
        int r;

        sigfillset(&all);
        pthread_attr_init(&attributes);
        pthread_attr_setstacksize(&attributes, STACK_BYTES);
        pthread_sigmask(SIG_SETMASK, &all, &old);
        r = pthread_create(&thread->id, &attributes, thread_main, thread);
        pthread_sigmask(SIG_SETMASK, &old, NULL);
        pthread_attr_destroy(&attributes);
        return r;
}

static int start_thread(Worker *worker) {
        Thread *thread = calloc(1, sizeof(*thread));
        pthread_condattr_t monotonic;

        if (!thread)
                return error_origin(-ENOMEM);
        pthread_condattr_init(&monotonic);
        pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
        pthread_cond_init(&thread->changed, &monotonic);
        pthread_condattr_destroy(&monotonic);
        pthread_mutex_init(&thread->mutex, NULL);
        thread->config = worker->config;
        if (run_thread(thread)) {
                free_thread(thread);
                return WORKER_E_UNABLE;
        }
        worker->thread = thread;
        return 0;
}

static bool wait_change(Thread *thread, uint64_t end_ns) {
        const struct timespec end = { (time_t)(end_ns / NS_PER_SEC), (long)(end_ns % NS_PER_SEC) };

        return pthread_cond_timedwait(&thread->changed, &thread->mutex, &end) != ETIMEDOUT;
}

static bool has_ended(Thread *thread) {
        bool ended;

        pthread_mutex_lock(&thread->mutex);
        ended = thread->has_ended;
        pthread_mutex_unlock(&thread->mutex);
        return ended;
}

static void join(Thread *thread) {
        pthread_join(thread->id, NULL);
        free_thread(thread);
}

/* Joins it if it ends until @end_ns; else it clears up by itself, whenever that is. */
static void end_thread(Thread *thread, uint64_t end_ns) {
        pthread_mutex_lock(&thread->mutex);
        thread->quit = true;
        discard_all(&thread->jobs);
        pthread_cond_broadcast(&thread->changed);
        while (!thread->has_ended && wait_change(thread, end_ns))
                ;
        thread->is_given_up = thread->is_alone = !thread->has_ended;
        if (thread->is_alone)
                pthread_detach(thread->id);
        pthread_mutex_unlock(&thread->mutex);
        if (!thread->is_alone)
                join(thread);
}

int worker_new(Worker **workerp, const WorkerConfig *config) {
        Worker *worker = calloc(1, sizeof(*worker));

        if (!worker)
                return error_origin(-ENOMEM);
        worker->config = *config;
        worker->config.max_jobs = config->max_jobs ?: DEFAULT_MAX_JOBS;
        worker->config.time_limit_ns = config->time_limit_ns ?: DEFAULT_TIME_LIMIT_NS;
        *workerp = worker;
        return 0;
}

Worker *worker_free(Worker *worker) {
        if (!worker)
                return NULL;
        if (worker->thread)
                end_thread(worker->thread, clock_monotonic_ns() + END_TIME_LIMIT_NS);
        for (unsigned i = 0; i < worker->n_stuck; i++)
                end_thread(worker->stuck[i], clock_monotonic_ns());
        free(worker);
        return NULL;
}

int worker_push(Worker *worker, WorkerJob *job) {
        int r;

        if (worker->n_waiting >= worker->config.max_jobs)
                return WORKER_E_FULL;
        if (!worker->thread) {
                if (worker->n_stuck >= MAX_STUCK)
                        return WORKER_E_UNABLE;
                r = start_thread(worker);
                if (r)
                        return r;
        }
        pthread_mutex_lock(&worker->thread->mutex);
        fifo_push(&worker->thread->jobs, job);
        pthread_cond_broadcast(&worker->thread->changed);
        pthread_mutex_unlock(&worker->thread->mutex);
        worker->n_waiting++;
        return 0;
}

/* With the lock held, which it gives back. */
static void give_up(Worker *worker) {
        Thread *thread = take(worker->thread);
        WorkerJob *current = thread->current, *job;
        JobList jobs = thread->jobs;

        thread->jobs = (JobList){ 0 };
        thread->quit = thread->is_given_up = true;
        worker->stuck[worker->n_stuck++] = thread;
        worker->n_waiting--;
        current->stuck(current, worker->config.userdata);
        pthread_mutex_unlock(&thread->mutex);
        while ((job = fifo_pop(&jobs))) {
                worker->n_waiting--;
                if (worker_push(worker, job)) {
                        job->stuck(job, worker->config.userdata);
                        job->discard(job);
                }
        }
}

static void reap(Worker *worker) {
        for (unsigned i = 0; i < worker->n_stuck;)
                if (has_ended(worker->stuck[i])) {
                        join(worker->stuck[i]);
                        worker->stuck[i] = worker->stuck[--worker->n_stuck];
                } else {
                        i++;
                }
}

void worker_collect(Worker *worker, uint64_t now_ns) {
        Thread *thread = worker->thread;
        JobList results;
        WorkerJob *job;

        reap(worker);
        if (!thread || !worker->n_waiting)
                return;
        pthread_mutex_lock(&thread->mutex);
        results = thread->results;
        thread->results = (JobList){ 0 };
        if (thread->current && now_ns > thread->begin_ns + worker->config.time_limit_ns)
                give_up(worker);
        else
                pthread_mutex_unlock(&thread->mutex);
        while ((job = fifo_pop(&results))) {
                worker->n_waiting--;
                job->done(job, worker->config.userdata);
        }
}

bool worker_wait(Worker *worker, uint64_t end_ns) {
        Thread *thread = worker->thread;
        bool is_idle;

        if (!thread || !worker->n_waiting)
                return true;
        pthread_mutex_lock(&thread->mutex);
        while ((thread->jobs.first || thread->current) && wait_change(thread, end_ns))
                ;
        is_idle = !thread->jobs.first && !thread->current;
        pthread_mutex_unlock(&thread->mutex);
        return is_idle;
}

uint32_t worker_n_waiting(const Worker *worker) {
        return worker->n_waiting;
}

unsigned worker_n_stuck(const Worker *worker) {
        return worker->n_stuck;
}

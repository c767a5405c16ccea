/* SPDX-License-Identifier: Apache-2.0 */

/*
 *     push ──▶ jobs ──▶ thread ──▶ results ──▶ collect ──▶ done()
 *                          └─ no answer: stuck(); the jobs move to a new thread, the old one ends when it can
 *
 * The loop owns what a thread uses, and joins it. A thread that still hangs when the worker ends is left
 * behind with its lane (thread.h).
 */
#include "core/base/thread/worker.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>

#include "core/base/data/list.h"
#include "core/base/thread/thread.h"
#include "core/base/util/clock.h"
#include "core/base/util/error.h"

#define DEFAULT_TIME_LIMIT_NS (10 * NS_PER_SEC)
#define END_TIME_LIMIT_NS (200 * NS_PER_MS)

enum {
        DEFAULT_MAX_JOBS = 256,
        MAX_STUCK = 4,
        STACK_BYTES = 1 << 20,
        NICE = 10,
};

typedef struct JobList {
        WorkerJob *first, *last;
} JobList;

/* A thread with its jobs. The loop and the thread share it under the mutex. */
typedef struct Lane {
        Thread *thread;                 /* the loop's */
        pthread_mutex_t mutex;
        pthread_cond_t changed;
        WorkerConfig config;
        JobList jobs, results;
        WorkerJob *current;             /* at work */
        uint64_t begin_ns;              /* since then */
        bool quit;
        bool is_given_up;               /* the result of its job is not wanted */
} Lane;

struct Worker {
        WorkerConfig config;
        Lane *lane;                     /* NULL = none yet */
        Lane *stuck[MAX_STUCK];
        unsigned n_stuck;
        uint32_t n_waiting;
};

static void discard_all(JobList *list) {
        WorkerJob *job;

        while ((job = fifo_pop(list)))
                job->discard(job);
}

/* ---- in the thread ---- */

static void free_lane(Lane *lane) {
        discard_all(&lane->jobs);
        discard_all(&lane->results);
        pthread_cond_destroy(&lane->changed);
        pthread_mutex_destroy(&lane->mutex);
        free(lane);
}

/* With the lock held. */
static void perform(Lane *lane, WorkerJob *job, void *state) {
        lane->current = job;
        lane->begin_ns = clock_monotonic_ns();
        pthread_mutex_unlock(&lane->mutex);
        job->work(job, state);
        pthread_mutex_lock(&lane->mutex);
        lane->current = NULL;
        if (lane->is_given_up) {
                job->discard(job);
        } else {
                fifo_push(&lane->results, job);
                if (job->ready)
                        job->ready(job);
        }
        pthread_cond_broadcast(&lane->changed);
}

static void run_lane(void *userdata) {
        Lane *lane = userdata;
        void *state = lane->config.begin ? lane->config.begin() : NULL;

        pthread_mutex_lock(&lane->mutex);
        while (!lane->quit) {
                if (lane->jobs.first)
                        perform(lane, fifo_pop(&lane->jobs), state);
                else
                        pthread_cond_wait(&lane->changed, &lane->mutex);
        }
        pthread_mutex_unlock(&lane->mutex);
        if (state && lane->config.end)
                lane->config.end(state);
}

static void destroy_lane(void *lane) {
        free_lane(lane);
}

/* ---- in the loop ---- */

static int start_lane(Worker *worker) {
        Lane *lane = calloc(1, sizeof(*lane));
        const ThreadConfig config = { .name = worker->config.name,
                                      .nice = worker->config.nice ?: NICE,
                                      .stack_bytes = STACK_BYTES,
                                      .run = run_lane,
                                      .destroy = destroy_lane,
                                      .userdata = lane };
        int r;

        if (!lane)
                return error_origin(-ENOMEM);
        thread_condition_init(&lane->changed);
        pthread_mutex_init(&lane->mutex, NULL);
        lane->config = worker->config;
        r = thread_new(&lane->thread, &config);
        if (r) {
                free_lane(lane);
                return r < 0 ? error_fold(r) : WORKER_E_UNABLE;
        }
        worker->lane = lane;
        return 0;
}

/* Frees it if its thread ends until @end_ns; else the thread does that, whenever it is back. */
static void end_lane(Lane *lane, uint64_t end_ns) {
        pthread_mutex_lock(&lane->mutex);
        lane->quit = true;
        discard_all(&lane->jobs);
        pthread_cond_broadcast(&lane->changed);
        pthread_mutex_unlock(&lane->mutex);
        if (thread_end(lane->thread, end_ns) == 0)
                free_lane(lane);
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
        if (worker->lane)
                end_lane(worker->lane, clock_monotonic_ns() + END_TIME_LIMIT_NS);
        for (unsigned i = 0; i < worker->n_stuck; i++)
                end_lane(worker->stuck[i], 0);
        free(worker);
        return NULL;
}

static void insert(JobList *list, WorkerJob *job) {
        WorkerJob *before = NULL;

        for (WorkerJob *at = list->first; at && at->rank <= job->rank; at = at->next)
                before = at;
        job->next = before ? before->next : list->first;
        if (before)
                before->next = job;
        else
                list->first = job;
        if (!job->next)
                list->last = job;
}

int worker_push(Worker *worker, WorkerJob *job) {
        int r;

        if (worker->n_waiting >= worker->config.max_jobs)
                return WORKER_E_FULL;
        if (!worker->lane) {
                if (worker->n_stuck >= MAX_STUCK)
                        return WORKER_E_UNABLE;
                r = start_lane(worker);
                if (r)
                        return r;
        }
        pthread_mutex_lock(&worker->lane->mutex);
        insert(&worker->lane->jobs, job);
        pthread_cond_broadcast(&worker->lane->changed);
        pthread_mutex_unlock(&worker->lane->mutex);
        worker->n_waiting++;
        return 0;
}

/* With the lock held, which it gives back. */
static void give_up(Worker *worker) {
        Lane *lane = take(worker->lane);
        WorkerJob *current = lane->current, *job;
        JobList jobs = lane->jobs;

        lane->jobs = (JobList){ 0 };
        lane->quit = lane->is_given_up = true;
        worker->stuck[worker->n_stuck++] = lane;
        worker->n_waiting--;
        current->stuck(current, worker->config.userdata);
        pthread_mutex_unlock(&lane->mutex);
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
                if (thread_wait(worker->stuck[i]->thread, 0)) {
                        end_lane(worker->stuck[i], 0);
                        worker->stuck[i] = worker->stuck[--worker->n_stuck];
                } else {
                        i++;
                }
}

void worker_collect(Worker *worker, uint64_t now_ns) {
        Lane *lane = worker->lane;
        JobList results;
        WorkerJob *job;

        reap(worker);
        if (!lane || !worker->n_waiting)
                return;
        pthread_mutex_lock(&lane->mutex);
        results = lane->results;
        lane->results = (JobList){ 0 };
        if (lane->current && now_ns > lane->begin_ns + worker->config.time_limit_ns)
                give_up(worker);
        else
                pthread_mutex_unlock(&lane->mutex);
        while ((job = fifo_pop(&results))) {
                worker->n_waiting--;
                job->done(job, worker->config.userdata);
        }
}

bool worker_wait(Worker *worker, uint64_t end_ns) {
        Lane *lane = worker->lane;
        bool is_idle;

        if (!lane || !worker->n_waiting)
                return true;
        pthread_mutex_lock(&lane->mutex);
        while ((lane->jobs.first || lane->current) &&
               thread_condition_wait(&lane->changed, &lane->mutex, end_ns))
                ;
        is_idle = !lane->jobs.first && !lane->current;
        pthread_mutex_unlock(&lane->mutex);
        return is_idle;
}

uint32_t worker_n_waiting(const Worker *worker) {
        return worker->n_waiting;
}

unsigned worker_n_stuck(const Worker *worker) {
        return worker->n_stuck;
}

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Runs the workers: each takes a request from the bounded queue, or makes one, publishes a span around it,
 * and adds the time of its own CPU clock to the account of that operation.
 */
#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "pool.h"
#include "random.h"
#include "spanprof/context.h"
#include "spanprof/otel.h"

enum { QUEUE_SIZE = 1024 };

/* Written by one worker, read by anybody. */
typedef struct Account {
        _Atomic uint64_t cpu_ns, n_requests, n_spans;
} Account;

typedef struct Worker {
        Pool *pool;
        pthread_t thread;
        pid_t tid;
        uint64_t random;
        struct spanprof_otel_root root; /* of the request at hand: its name */
        SpanLogBuffer *log;
        Account accounts[N_OPERATIONS];
        Workbench bench;
} Worker;

struct Pool {
        PoolOptions options;
        atomic_bool publishing, stopping;
        pthread_mutex_t lock;           /* of the queue */
        pthread_cond_t wake;
        uint8_t queue[QUEUE_SIZE];      /* OperationKind */
        unsigned int queue_start, n_queued;
        unsigned int n_started;
        Worker workers[];
};

static uint64_t clock_ns(clockid_t id) {
        struct timespec ts;

        clock_gettime(id, &ts);
        return (uint64_t)ts.tv_sec * 1000000000 + (uint64_t)ts.tv_nsec;
}

static void account_add(_Atomic uint64_t *sum, uint64_t n) {
        atomic_store_explicit(sum, atomic_load_explicit(sum, memory_order_relaxed) + n, memory_order_relaxed);
}

static void worker_serve(Worker *worker, OperationKind operation) {
        uint64_t start_ns = clock_ns(CLOCK_THREAD_CPUTIME_ID);

        operation_serve(operation, &worker->bench);
        account_add(&worker->accounts[operation].cpu_ns, clock_ns(CLOCK_THREAD_CPUTIME_ID) - start_ns);
        account_add(&worker->accounts[operation].n_requests, 1);
}

static void worker_name(Worker *worker, OperationKind operation) {
        const char *name = operation_name(operation);

        worker->root = (struct spanprof_otel_root){ 0 };
        spanprof_otel_name(&worker->root, name, strlen(name), NULL, 0);
}

/*
 * This is how a service publishes: name and set when a request begins, clear when it ends. The rest is the
 * log. A ring has ids alone, and leaves the name out.
 */
static void worker_serve_with_span(Worker *worker, OperationKind operation) {
        SpanLogEntry entry = { .tid = worker->tid,
                               .operation = operation,
                               .span_id = random_id(&worker->random) };
        uint64_t trace_high = worker->pool->options.trace_high ? random_id(&worker->random) : 0;
        uint64_t trace_low = random_id(&worker->random);

        worker_name(worker, operation);
        entry.start_before_ns = clock_ns(CLOCK_MONOTONIC);
        spanprof_context_set_root(trace_high, trace_low, entry.span_id, &worker->root);
        entry.start_after_ns = clock_ns(CLOCK_MONOTONIC);
        worker_serve(worker, operation);
        entry.end_before_ns = clock_ns(CLOCK_MONOTONIC);
        spanprof_context_clear();
        entry.end_after_ns = clock_ns(CLOCK_MONOTONIC);
        account_add(&worker->accounts[operation].n_spans, 1);
        if (worker->log)
                spanlog_append(worker->log, &entry);
}

/* Waits for a request. Return: false = the pool stops. */
static bool pool_take(Pool *pool, OperationKind *operationp) {
        bool stopping;

        pthread_mutex_lock(&pool->lock);
        while (pool->n_queued == 0 && !atomic_load(&pool->stopping))
                pthread_cond_wait(&pool->wake, &pool->lock);
        stopping = atomic_load(&pool->stopping);
        if (!stopping) {
                *operationp = pool->queue[pool->queue_start];
                pool->queue_start = (pool->queue_start + 1) % QUEUE_SIZE;
                pool->n_queued--;
        }
        pthread_mutex_unlock(&pool->lock);
        return !stopping;
}

static bool worker_next(Worker *worker, OperationKind *operationp) {
        if (!worker->pool->options.closed_loop)
                return pool_take(worker->pool, operationp);
        *operationp = random_next(&worker->random) % N_OPERATIONS;
        return !atomic_load(&worker->pool->stopping);
}

static void *worker_main(void *data) {
        Worker *worker = data;
        OperationKind operation;

        worker->tid = gettid();
        while (worker_next(worker, &operation)) {
                if (atomic_load(&worker->pool->publishing))
                        worker_serve_with_span(worker, operation);
                else
                        worker_serve(worker, operation);
        }
        return NULL;
}

static int worker_start(Worker *worker, Pool *pool, unsigned int index) {
        char name[24];
        int r;

        worker->pool = pool;
        worker->random = pool->options.seed + (index + 1) * UINT64_C(0xd1b54a32d192ed03);
        if (pool->options.log) {
                worker->log = spanlog_open_buffer(pool->options.log);
                if (!worker->log)
                        return -ENOMEM;
        }
        r = pthread_create(&worker->thread, NULL, worker_main, worker);
        if (r)
                return -r;
        snprintf(name, sizeof(name), "worker-%u", index);
        pthread_setname_np(worker->thread, name);
        return 0;
}

int pool_new(Pool **poolp, const PoolOptions *options) {
        Pool *pool = calloc(1, sizeof(*pool) + options->n_workers * sizeof(Worker));
        int r;

        if (!pool)
                return -ENOMEM;
        pool->options = *options;
        pthread_mutex_init(&pool->lock, NULL);
        pthread_cond_init(&pool->wake, NULL);
        for (; pool->n_started < options->n_workers; pool->n_started++) {
                r = worker_start(&pool->workers[pool->n_started], pool, pool->n_started);
                if (r) {
                        pool_free(pool);
                        return r;
                }
        }
        *poolp = pool;
        return 0;
}

void pool_stop(Pool *pool) {
        pthread_mutex_lock(&pool->lock);
        atomic_store(&pool->stopping, true);
        pthread_cond_broadcast(&pool->wake);
        pthread_mutex_unlock(&pool->lock);
        for (unsigned int i = 0; i < pool->n_started; i++)
                pthread_join(pool->workers[i].thread, NULL);
        pool->n_started = 0;
}

Pool *pool_free(Pool *pool) {
        if (!pool)
                return NULL;
        pool_stop(pool);
        pthread_cond_destroy(&pool->wake);
        pthread_mutex_destroy(&pool->lock);
        free(pool);
        return NULL;
}

void pool_publish(Pool *pool) {
        atomic_store(&pool->publishing, true);
}

bool pool_submit(Pool *pool, OperationKind operation) {
        bool room;

        pthread_mutex_lock(&pool->lock);
        room = pool->n_queued < QUEUE_SIZE;
        if (room) {
                pool->queue[(pool->queue_start + pool->n_queued) % QUEUE_SIZE] = (uint8_t)operation;
                pool->n_queued++;
                pthread_cond_signal(&pool->wake);
        }
        pthread_mutex_unlock(&pool->lock);
        return room;
}

void pool_read_truth(const Pool *pool, Truth *truth) {
        for (int kind = 0; kind < N_OPERATIONS; kind++) {
                truth[kind] = (Truth){ 0 };
                for (unsigned int i = 0; i < pool->options.n_workers; i++) {
                        const Account *account = &pool->workers[i].accounts[kind];

                        truth[kind].cpu_ns += atomic_load_explicit(&account->cpu_ns, memory_order_relaxed);
                        truth[kind].n_requests += atomic_load_explicit(&account->n_requests,
                                                                       memory_order_relaxed);
                        truth[kind].n_spans += atomic_load_explicit(&account->n_spans, memory_order_relaxed);
                }
        }
}

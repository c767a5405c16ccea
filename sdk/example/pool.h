/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Pool of Workers
 *
 * Threads that serve requests, one span a request, and keep the truth that a
 * profile of them is judged by: CPU time per operation by each thread's own
 * clock. Requests come from the load generator through a bounded queue; in a
 * closed loop each worker makes its next one itself.
 */

#include <stdbool.h>
#include <stdint.h>

#include "operations.h"
#include "spanlog.h"

typedef struct Pool Pool;

typedef struct PoolOptions {
        unsigned int n_workers;
        uint64_t seed;                  /* of operations (closed loop) and ids */
        bool closed_loop;
        bool trace_high;                /* trace ids of 128 bit; false: the high half is 0 */
        SpanLog *log;                   /* or NULL */
} PoolOptions;

typedef struct Truth {
        uint64_t cpu_ns, n_requests, n_spans;
} Truth;

/* Starts the workers. Return: 0, -errno. */
int pool_new(Pool **poolp, const PoolOptions *options);

/* Ends the workers after the request they are at; what is queued is dropped. */
void pool_stop(Pool *pool);
Pool *pool_free(Pool *pool);

/* From now on requests carry a span; the SDK must have been started. */
void pool_publish(Pool *pool);

/* Queues a request. Return: false = the queue is full and the request is shed. */
bool pool_submit(Pool *pool, OperationKind operation);

/* Sums over the workers, at any time. @truth: N_OPERATIONS of them. */
void pool_read_truth(const Pool *pool, Truth *truth);

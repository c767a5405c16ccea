/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Blocks go round: the stack of free ones, the one that is filled, the queue of those to be written. It is a stack so
 * that a sink that keeps up uses the same few blocks, which are in the cache, and touches no further memory.
 *
 * Two threads can write, one at a time. What comes in full blocks comes fast, and then its producer must not lose its
 * CPU to us for a scheduler's slice: the calm thread is of the kernel's idle class, which gives way at once. All that comes slowly, and
 * what the calm one does not get done in time, is written by the swift one, which has the same rights as everybody.
 */

#include "coro/sink.h"

#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdbool.h>
#include <stdlib.h>

#include "util/clock.h"
#include "util/error.h"
#include "util/file.h"

enum {
        N_BLOCKS = 256,
        MANY_BLOCKS = N_BLOCKS / 4 * 3, /* waiting: too many for the calm thread */
};

#define MAX_CALM_NS (100 * NS_PER_MS)   /* that a block waits for it */

typedef struct Full {
        char *block;
        size_t size;
        uint64_t since_ns;
} Full;

typedef struct Worker {
        Sink *sink;
        pthread_t thread;
        pthread_cond_t wake;
        bool calm, running;
} Worker;

struct Sink {
        int fd, error;
        Worker calm, swift;
        bool stopping, waiting;         /* waiting: for a free block */
        bool yielding;                  /* the producer waits until all is written */
        bool hurry;                     /* the swift one writes, until nothing is left */
        bool writing;
        pthread_mutex_t mutex;          /* of all that follows */
        pthread_cond_t freed;
        uint64_t n_stalls;
        char *filling;                  /* the producer's */
        char *free[N_BLOCKS];
        unsigned n_free;
        Full full[N_BLOCKS];
        unsigned first, n_full;
        char *memory;
};

static Worker *whose_turn(Sink *sink) {
        return sink->hurry || sink->stopping ? &sink->swift : &sink->calm;
}

static bool take_full(Worker *worker, Full *full) {
        Sink *sink = worker->sink;

        while (!sink->n_full || sink->writing || whose_turn(sink) != worker) {
                if (sink->stopping && (!sink->n_full || worker->calm))
                        return false;
                pthread_cond_wait(&worker->wake, &sink->mutex);
        }
        *full = sink->full[sink->first];
        sink->writing = true;
        return true;
}

static void give_back(Sink *sink, char *block, int error) {
        sink->writing = false;
        sink->first = (sink->first + 1) % N_BLOCKS;
        sink->n_full--;
        sink->free[sink->n_free++] = block;
        sink->error = sink->error ? sink->error : error;
        if (!sink->n_full)
                sink->hurry = false;
        else
                pthread_cond_signal(&whose_turn(sink)->wake);
        if (sink->waiting || (sink->yielding && !sink->n_full))
                pthread_cond_signal(&sink->freed);
}

static void *run(void *userdata) {
        Worker *worker = userdata;
        Sink *sink = worker->sink;
        Full full;

        if (worker->calm)               /* where that is not allowed, it is a thread like any other */
                pthread_setschedparam(pthread_self(), SCHED_IDLE, &(struct sched_param){ 0 });
        pthread_mutex_lock(&sink->mutex);
        while (take_full(worker, &full)) {
                int error = sink->error;

                pthread_mutex_unlock(&sink->mutex);
                if (!error && file_write(sink->fd, full.block, full.size))
                        error = errno ? errno : EIO;
                pthread_mutex_lock(&sink->mutex);
                give_back(sink, full.block, error);
        }
        pthread_mutex_unlock(&sink->mutex);
        return NULL;
}

static int start(Sink *sink, Worker *worker, bool calm) {
        sigset_t all, old;
        int r;

        worker->sink = sink;
        worker->calm = calm;
        sigfillset(&all);
        pthread_sigmask(SIG_SETMASK, &all, &old);       /* signals are for the thread that runs the command */
        r = pthread_create(&worker->thread, NULL, run, worker);
        pthread_sigmask(SIG_SETMASK, &old, NULL);
        worker->running = !r;
        return r ? error_origin(-r) : 0;
}

static void init_conditions(Sink *sink) {
        pthread_condattr_t attributes;

        pthread_condattr_init(&attributes);
        pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
        pthread_cond_init(&sink->freed, &attributes);
        pthread_condattr_destroy(&attributes);
        pthread_cond_init(&sink->calm.wake, NULL);
        pthread_cond_init(&sink->swift.wake, NULL);
}

int sink_new(Sink **sinkp, int fd, char **blockp) {
        _cleanup_(sink_freep) Sink *sink = calloc(1, sizeof(*sink));
        int r;

        if (!sink)
                return error_origin(-ENOMEM);
        sink->fd = fd;
        pthread_mutex_init(&sink->mutex, NULL);
        init_conditions(sink);
        sink->memory = malloc((size_t)N_BLOCKS * SINK_BLOCK);
        if (!sink->memory)
                return error_origin(-ENOMEM);
        for (unsigned i = N_BLOCKS; i--;)
                sink->free[sink->n_free++] = sink->memory + (size_t)i * SINK_BLOCK;
        sink->filling = sink->free[--sink->n_free];
        r = start(sink, &sink->calm, true);
        if (!r)
                r = start(sink, &sink->swift, false);
        if (r)
                return r;
        *blockp = sink->filling;
        *sinkp = take(sink);
        return 0;
}

char *sink_swap(Sink *sink, size_t size) {
        uint64_t now_ns = clock_monotonic_ns();

        pthread_mutex_lock(&sink->mutex);
        sink->full[(sink->first + sink->n_full++) % N_BLOCKS] = (Full){ sink->filling, size, now_ns };
        sink->hurry |= size < SINK_FULL || sink->n_full >= MANY_BLOCKS || now_ns - sink->full[sink->first].since_ns > MAX_CALM_NS;
        if (!sink->writing)
                pthread_cond_signal(&whose_turn(sink)->wake);
        sink->n_stalls += !sink->n_free;
        sink->waiting = true;
        while (!sink->n_free)
                pthread_cond_wait(&sink->freed, &sink->mutex);
        sink->waiting = false;
        sink->filling = sink->free[--sink->n_free];
        pthread_mutex_unlock(&sink->mutex);
        return sink->filling;
}

void sink_yield(Sink *sink, uint64_t until_ns) {
        struct timespec until = { .tv_sec = (time_t)(until_ns / NS_PER_SEC), .tv_nsec = (long)(until_ns % NS_PER_SEC) };

        pthread_mutex_lock(&sink->mutex);
        sink->yielding = true;
        while (sink->n_full && !sink->hurry)
                if (pthread_cond_timedwait(&sink->freed, &sink->mutex, &until))
                        break;
        sink->yielding = false;
        pthread_mutex_unlock(&sink->mutex);
}

int sink_error(Sink *sink) {
        int error;

        pthread_mutex_lock(&sink->mutex);
        error = sink->error;
        pthread_mutex_unlock(&sink->mutex);
        return error;
}

uint64_t sink_n_stalls(const Sink *sink) {
        return sink->n_stalls;          /* only the producer changes it */
}

static void join(Worker *worker) {
        if (worker->running)
                pthread_join(worker->thread, NULL);
        worker->running = false;
}

int sink_finish(Sink *sink) {
        pthread_mutex_lock(&sink->mutex);
        sink->stopping = true;
        pthread_cond_signal(&sink->swift.wake);
        pthread_cond_signal(&sink->calm.wake);
        pthread_mutex_unlock(&sink->mutex);
        join(&sink->swift);
        join(&sink->calm);
        return sink_error(sink);
}

Sink *sink_free(Sink *sink) {
        if (!sink)
                return NULL;
        sink_finish(sink);
        pthread_cond_destroy(&sink->freed);
        pthread_cond_destroy(&sink->calm.wake);
        pthread_cond_destroy(&sink->swift.wake);
        pthread_mutex_destroy(&sink->mutex);
        free(sink->memory);
        free(sink);
        return NULL;
}

/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Each of the 512 blocks is in one of three places:
 *
 *      free (a stack) ──▶ filling (the producer's) ──▶ full (a queue) ──▶ written, and free again
 *
 * The thread writes in turns that are last where CPUs are scarce. When no block is free, and at the end, the
 * producer writes as well; the order of blocks stays, since one of the two writes at a time.
 *
 * The free ones are a stack so that a sink that keeps up uses the same few blocks, which are in the cache,
 * and touches no further memory.
 */

#include "desk/coro/trace/sink.h"

#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <stdbool.h>
#include <stdlib.h>

#include "core/base/file/file.h"
#include "core/base/thread/thread.h"
#include "core/base/util/error.h"
#include "core/base/util/short-turns.h"

enum {
        N_BLOCKS = 512,
        ROOM = 8,                       /* blocks for what is written between two looks, 1,024 lines */
};

typedef struct Full {
        char *block;
        size_t size;
} Full;

struct Sink {
        int fd, error;
        Thread *thread;                 /* NULL = it does not run */
        bool stopping, waiting;         /* waiting: the producer, until a block has been written */
        bool writing;                   /* the producer or the thread writes the oldest full block */
        pthread_mutex_t mutex;          /* guards all that follows */
        pthread_cond_t filled, freed;
        uint64_t n_stalls;
        bool shares;                    /* the sink stays on the producer's CPU */
        int cpu;                        /* the producer's; -1 = any */
        char *filling;                  /* block of the producer */
        char *free[N_BLOCKS];
        unsigned n_free;                /* written under the mutex, read without it as well */
        Full full[N_BLOCKS];
        unsigned first, n_full;
        char *memory;
};

/* Writes the oldest full block, with the mutex free meanwhile; nobody else is writing. */
static void write_first(Sink *sink) {
        const Full full = sink->full[sink->first];
        int error = sink->error;

        sink->writing = true;
        pthread_mutex_unlock(&sink->mutex);
        if (!error && file_write(sink->fd, full.block, full.size))
                error = errno ? errno : EIO;
        pthread_mutex_lock(&sink->mutex);
        sink->writing = false;
        sink->first = (sink->first + 1) % N_BLOCKS;
        sink->n_full--;
        sink->free[sink->n_free] = full.block;
        __atomic_store_n(&sink->n_free, sink->n_free + 1, __ATOMIC_RELAXED);
        sink->error = sink->error ? sink->error : error;
        if (sink->waiting)
                pthread_cond_signal(&sink->freed);
}

/*
 * The producer writes, because it would have to wait for the thread: that has a ninth of its share, and
 * where others want the CPUs it would take seconds for blocks that are written in milliseconds.
 */
static void help(Sink *sink) {
        sink->waiting = true;
        while (sink->writing)
                pthread_cond_wait(&sink->freed, &sink->mutex);
        sink->waiting = false;
        if (sink->n_full)
                write_first(sink);
}

/*
 * With two CPUs, one is the program's. A thread that moves there drains the program's store buffer at once,
 * and may push the program to the CPU on which its events are read, for a whole tick. So the sink stays on
 * the CPU of its producer, a block at a time.
 */
static bool shares_a_cpu(void) {
        cpu_set_t set;

        return !sched_getaffinity(0, sizeof(set), &set) && CPU_COUNT(&set) == 2;
}

static void run(void *userdata) {
        Sink *sink = userdata;
        int on = -1;

        short_turns_leave();
        pthread_mutex_lock(&sink->mutex);
        while (!sink->stopping) {
                int cpu = sink->cpu;

                if (!sink->n_full || sink->writing) {
                        pthread_cond_wait(&sink->filled, &sink->mutex);
                        continue;
                }
                if (cpu != on) {
                        pthread_mutex_unlock(&sink->mutex);
                        thread_stay_on(cpu);
                        on = cpu;
                        pthread_mutex_lock(&sink->mutex);
                        continue;
                }
                write_first(sink);
                if (on >= 0) {
                        /* without an offer all waiting blocks are written before the producer runs */
                        pthread_mutex_unlock(&sink->mutex);
                        short_turns_offer();
                        pthread_mutex_lock(&sink->mutex);
                }
        }
        pthread_mutex_unlock(&sink->mutex);
}

int sink_new(Sink **sinkp, int fd, char **blockp) {
        _cleanup_(sink_freep) Sink *sink = calloc(1, sizeof(*sink));
        const ThreadConfig config = { .run = run, .userdata = sink };
        int r;

        if (!sink)
                return error_origin(-ENOMEM);
        sink->fd = fd;
        sink->shares = shares_a_cpu();
        sink->cpu = -1;
        pthread_mutex_init(&sink->mutex, NULL);
        pthread_cond_init(&sink->filled, NULL);
        pthread_cond_init(&sink->freed, NULL);
        sink->memory = malloc((size_t)N_BLOCKS * SINK_BLOCK);
        if (!sink->memory)
                return error_origin(-ENOMEM);
        for (unsigned i = N_BLOCKS; i--;)
                sink->free[sink->n_free++] = sink->memory + (size_t)i * SINK_BLOCK;
        sink->filling = sink->free[--sink->n_free];
        r = thread_new(&sink->thread, &config);
        if (r)
                return r < 0 ? error_fold(r) : error_origin(-EAGAIN);
        *blockp = sink->filling;
        *sinkp = take(sink);
        return 0;
}

char *sink_swap(Sink *sink, size_t size) {
        pthread_mutex_lock(&sink->mutex);
        sink->full[(sink->first + sink->n_full++) % N_BLOCKS] = (Full){ sink->filling, size };
        pthread_cond_signal(&sink->filled);
        sink->n_stalls += !sink->n_free;
        sink->cpu = sink->shares ? sched_getcpu() : -1;
        while (!sink->n_free)
                help(sink);
        __atomic_store_n(&sink->n_free, sink->n_free - 1, __ATOMIC_RELAXED);
        sink->filling = sink->free[sink->n_free];
        pthread_mutex_unlock(&sink->mutex);
        return sink->filling;
}

bool sink_has_room(const Sink *sink) {
        return __atomic_load_n(&sink->n_free, __ATOMIC_RELAXED) >= ROOM;
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

int sink_finish(Sink *sink) {
        if (sink->thread) {
                pthread_mutex_lock(&sink->mutex);
                while (sink->n_full)
                        help(sink);
                sink->stopping = true;
                pthread_cond_signal(&sink->filled);
                pthread_mutex_unlock(&sink->mutex);
                sink->thread = thread_join(sink->thread);
        }
        return sink_error(sink);
}

Sink *sink_free(Sink *sink) {
        if (!sink)
                return NULL;
        sink_finish(sink);
        pthread_cond_destroy(&sink->freed);
        pthread_cond_destroy(&sink->filled);
        pthread_mutex_destroy(&sink->mutex);
        free(sink->memory);
        free(sink);
        return NULL;
}

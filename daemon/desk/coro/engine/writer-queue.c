/* SPDX-License-Identifier: Apache-2.0 */

/*
 * A ring of events has one producer and one consumer. Each writes its own position and reads the other's:
 *
 *      events   …  │ written, free │ to be written │ free │ …
 *                                  ▲ tail          ▲ head
 *                                  the thread      the scan
 *
 * The thread writes up to 256 events before it gives their places back. With no event for 200 ms it sets
 * `sleeping`, looks at head once more, and sleeps; the scan stores head, and then looks at `sleeping`.
 */

#include "desk/coro/engine/writer-queue.h"

#include <errno.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <time.h>

#include "core/base/thread/thread.h"
#include "core/base/util/clock.h"
#include "core/base/util/error.h"

enum {
        N_EVENTS = 1 << 17,
        BATCH = 256,                    /* events that are written before their places are given back */
};

struct WriterQueue {
        TraceWriter *writer;
        Thread *thread;                 /* NULL = it does not run */
        int wake_fd;
        uint64_t n_stalls;
        _Alignas(64) uint64_t head;     /* events put, by the scan */
        _Alignas(64) uint64_t tail;     /* events written, by the thread */
        _Alignas(64) uint32_t sleeping; /* the thread waits for wake_fd */
        uint32_t stopping;
        CoroEvent events[N_EVENTS];
};

static void nap(uint64_t ns) {
        struct timespec time = { .tv_nsec = (long)ns };

        nanosleep(&time, NULL);
}

static bool write_batch(WriterQueue *queue) {
        uint64_t head = __atomic_load_n(&queue->head, __ATOMIC_ACQUIRE),
                 n = MIN(head - queue->tail, (uint64_t)BATCH);

        for (uint64_t i = 0; i < n; i++)
                trace_writer_event(queue->writer, &queue->events[(queue->tail + i) % N_EVENTS]);
        __atomic_store_n(&queue->tail, queue->tail + n, __ATOMIC_RELEASE);
        return n;
}

/*
 * Sleeps until there is an event. Sets the flag, then looks once more: writer_queue_kick() has the other
 * order.
 */
static void wait_for_events(WriterQueue *queue) {
        struct pollfd fd = { .fd = queue->wake_fd, .events = POLLIN };
        uint64_t n;

        __atomic_store_n(&queue->sleeping, 1, __ATOMIC_SEQ_CST);
        if (__atomic_load_n(&queue->head, __ATOMIC_SEQ_CST) == queue->tail &&
            !__atomic_load_n(&queue->stopping, __ATOMIC_SEQ_CST))
                poll(&fd, 1, -1);
        __atomic_store_n(&queue->sleeping, 0, __ATOMIC_SEQ_CST);
        (void)!read(queue->wake_fd, &n, sizeof(n));
}

static void run(void *userdata) {
        WriterQueue *queue = userdata;
        uint64_t last_ns = 0;

        for (;;) {
                bool stopping = __atomic_load_n(&queue->stopping, __ATOMIC_ACQUIRE),
                     wrote = write_batch(queue);
                uint64_t now_ns = clock_monotonic_ns();

                trace_writer_flush(queue->writer, now_ns, false);
                if (wrote)
                        last_ns = now_ns;
                else if (stopping)
                        return;
                else if (now_ns - last_ns <
                         200 * NS_PER_MS) /* the writer may still hold lines or rows back for a while */
                        nap(500 * NS_PER_US);
                else
                        wait_for_events(queue);
        }
}

int writer_queue_new(WriterQueue **queuep, TraceWriter *writer) {
        WriterQueue *queue = aligned_alloc(64, (sizeof(*queue) + 63) / 64 * 64);
        ThreadConfig config = { .run = run, .userdata = queue };
        int r = 0;

        if (!queue)
                return error_origin(-ENOMEM);
        __builtin_memset(queue, 0, offsetof(WriterQueue, events));
        queue->writer = writer;
        queue->wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
        if (queue->wake_fd < 0)
                r = error_origin(-errno);
        else if ((r = thread_new(&queue->thread, &config)) > 0)
                r = error_origin(-EAGAIN);
        if (r) {
                queue->writer = NULL;
                writer_queue_free(queue);
                return r;
        }
        *queuep = queue;
        return 0;
}

void writer_queue_put(WriterQueue *queue, const CoroEvent *event) {
        uint64_t head = queue->head;

        if (head - __atomic_load_n(&queue->tail, __ATOMIC_ACQUIRE) >= N_EVENTS) {
                queue->n_stalls++;
                writer_queue_kick(queue);
                while (head - __atomic_load_n(&queue->tail, __ATOMIC_ACQUIRE) >= N_EVENTS)
                        nap(100 * NS_PER_US);
        }
        queue->events[head % N_EVENTS] = *event;
        __atomic_store_n(&queue->head, head + 1, __ATOMIC_RELEASE);
}

void writer_queue_kick(WriterQueue *queue) {
        uint64_t one = 1;

        __atomic_thread_fence(__ATOMIC_SEQ_CST);
        if (__atomic_load_n(&queue->sleeping, __ATOMIC_SEQ_CST))
                (void)!write(queue->wake_fd, &one, sizeof(one));
}

uint64_t writer_queue_n_stalls(const WriterQueue *queue) {
        return queue->n_stalls;
}

TraceWriter *writer_queue_finish(WriterQueue *queue) {
        if (queue->thread) {
                __atomic_store_n(&queue->stopping, 1, __ATOMIC_SEQ_CST);
                writer_queue_kick(queue);
                queue->thread = thread_join(queue->thread);
        }
        return take(queue->writer);
}

WriterQueue *writer_queue_free(WriterQueue *queue) {
        if (!queue)
                return NULL;
        trace_writer_free(writer_queue_finish(queue));
        if (queue->wake_fd >= 0)
                close(queue->wake_fd);
        free(queue);
        return NULL;
}

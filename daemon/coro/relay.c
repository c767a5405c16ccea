/* SPDX-License-Identifier: Apache-2.0 */

/* One producer, one consumer, a ring of events; each side writes its own position and reads the other's. */

#include "coro/relay.h"

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <sys/eventfd.h>
#include <time.h>

#include "util/clock.h"
#include "util/error.h"

enum {
        N_EVENTS = 1 << 17,
        BATCH = 256,                    /* written before the place is given back */
};

struct Relay {
        TraceWriter *writer;
        pthread_t thread;
        bool running;
        int wake_fd;
        uint64_t n_stalls;
        _Alignas(64) uint64_t head;     /* of the harvest: events put */
        _Alignas(64) uint64_t tail;     /* of the writer: events written */
        _Alignas(64) uint32_t sleeping; /* the writer waits for wake_fd */
        uint32_t stopping;
        CoroEvent events[N_EVENTS];
};

static void nap(uint64_t ns) {
        struct timespec time = { .tv_nsec = (long)ns };

        nanosleep(&time, NULL);
}

static bool write_batch(Relay *relay) {
        uint64_t head = __atomic_load_n(&relay->head, __ATOMIC_ACQUIRE), n = MIN(head - relay->tail, (uint64_t)BATCH);

        for (uint64_t i = 0; i < n; i++)
                trace_writer_event(relay->writer, &relay->events[(relay->tail + i) % N_EVENTS]);
        __atomic_store_n(&relay->tail, relay->tail + n, __ATOMIC_RELEASE);
        return n;
}

/* Until there is an event. The flag is set, then looked once more: relay_kick() looks in the other order. */
static void wait_for_events(Relay *relay) {
        struct pollfd fd = { .fd = relay->wake_fd, .events = POLLIN };
        uint64_t n;

        __atomic_store_n(&relay->sleeping, 1, __ATOMIC_SEQ_CST);
        if (__atomic_load_n(&relay->head, __ATOMIC_SEQ_CST) == relay->tail && !__atomic_load_n(&relay->stopping, __ATOMIC_SEQ_CST))
                poll(&fd, 1, -1);
        __atomic_store_n(&relay->sleeping, 0, __ATOMIC_SEQ_CST);
        (void)!read(relay->wake_fd, &n, sizeof(n));
}

static void *run(void *userdata) {
        Relay *relay = userdata;
        uint64_t last_ns = 0;

        for (;;) {
                bool stopping = __atomic_load_n(&relay->stopping, __ATOMIC_ACQUIRE), wrote = write_batch(relay);
                uint64_t now_ns = clock_monotonic_ns();

                trace_writer_flush(relay->writer, now_ns);
                if (wrote)
                        last_ns = now_ns;
                else if (stopping)
                        return NULL;
                else if (now_ns - last_ns < 200 * NS_PER_MS)    /* the writer may still hold something back for a while */
                        nap(500 * NS_PER_US);
                else
                        wait_for_events(relay);
        }
}

int relay_new(Relay **relayp, TraceWriter *writer) {
        Relay *relay = aligned_alloc(64, (sizeof(*relay) + 63) / 64 * 64);
        sigset_t all, old;
        int r;

        if (!relay)
                return error_origin(-ENOMEM);
        __builtin_memset(relay, 0, offsetof(Relay, events));
        relay->writer = writer;
        relay->wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
        sigfillset(&all);
        pthread_sigmask(SIG_SETMASK, &all, &old);       /* signals are for the thread that runs the command */
        r = relay->wake_fd < 0 ? errno : pthread_create(&relay->thread, NULL, run, relay);
        pthread_sigmask(SIG_SETMASK, &old, NULL);
        relay->running = !r;
        if (r) {
                relay->writer = NULL;
                relay_free(relay);
                return error_origin(-r);
        }
        *relayp = relay;
        return 0;
}

void relay_put(Relay *relay, const CoroEvent *event) {
        uint64_t head = relay->head;

        if (head - __atomic_load_n(&relay->tail, __ATOMIC_ACQUIRE) >= N_EVENTS) {
                relay->n_stalls++;
                relay_kick(relay);
                while (head - __atomic_load_n(&relay->tail, __ATOMIC_ACQUIRE) >= N_EVENTS)
                        nap(100 * NS_PER_US);
        }
        relay->events[head % N_EVENTS] = *event;
        __atomic_store_n(&relay->head, head + 1, __ATOMIC_RELEASE);
}

void relay_kick(Relay *relay) {
        uint64_t one = 1;

        __atomic_thread_fence(__ATOMIC_SEQ_CST);
        if (__atomic_load_n(&relay->sleeping, __ATOMIC_SEQ_CST))
                (void)!write(relay->wake_fd, &one, sizeof(one));
}

uint64_t relay_n_stalls(const Relay *relay) {
        return relay->n_stalls;
}

TraceWriter *relay_finish(Relay *relay) {
        if (relay->running) {
                __atomic_store_n(&relay->stopping, 1, __ATOMIC_SEQ_CST);
                relay_kick(relay);
                pthread_join(relay->thread, NULL);
                relay->running = false;
        }
        return take(relay->writer);
}

Relay *relay_free(Relay *relay) {
        if (!relay)
                return NULL;
        trace_writer_free(relay_finish(relay));
        if (relay->wake_fd >= 0)
                close(relay->wake_fd);
        free(relay);
        return NULL;
}

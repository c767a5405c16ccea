/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Runs calls from a ring in a thread, as many at once as wait there, and reports each through an eventfd.
 */

#include "host/sampling/unwind/tables/publisher.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "core/base/thread/thread.h"
#include "core/base/util/error.h"
#include "host/sampling/unwind/tables/bpfmap.h"

enum {
        BATCH = 64,                     /* calls that are made as one */
};

typedef struct Call {
        uint32_t slot;
        bool is_removal;
        int error;
} Call;

/*
 * The ring of calls: [taken, done) are results, [done, asked) are waiting for the thread. A slot is set,
 * removed, and not set again before its removal was taken: so there are at most two calls a slot in the ring.
 */
struct Publisher {
        int array_fd, event_fd;
        Thread *thread;
        pthread_mutex_t lock;
        pthread_cond_t wake;
        bool stops;
        Call *calls;
        uint64_t n_calls, taken, done, asked;
        int *tables;                    /* descriptor by slot, -1 = none; only the thread touches it */
        int *handed;                    /* descriptor by slot, on its way to the thread */
        uint32_t n_slots;
        uint32_t slots[BATCH];          /* calls that the thread works on */
        int fds[BATCH], errors[BATCH];
};

static Call *call_at(Publisher *publisher, uint64_t i) {
        return &publisher->calls[i % publisher->n_calls];
}

static void remove_table(Publisher *publisher, Call *call) {
        call->error = bpfmap_delete(publisher->array_fd, &call->slot);
        if (publisher->tables[call->slot] >= 0)
                close(publisher->tables[call->slot]);
        publisher->tables[call->slot] = -1;
}

/*
 * Sets tables together if the kernel can, since each call waits. What it did not take, and on old kernels
 * all, is set one by one.
 */
static void set_tables(Publisher *publisher, uint32_t n) {
        uint32_t n_done = 0;

        if (n > 1)
                bpfmap_update_batch(publisher->array_fd, publisher->slots, publisher->fds, n, &n_done);
        for (uint32_t i = 0; i < n; i++) {
                uint32_t slot = publisher->slots[i];

                publisher->tables[slot] = publisher->fds[i];
                publisher->errors[i] = i < n_done
                        ? 0
                        : bpfmap_update(publisher->array_fd, &slot, &publisher->fds[i]);
        }
}

/* Takes the calls that set, up to the first one that removes. The caller holds the lock. */
static uint32_t collect(Publisher *publisher) {
        uint32_t n = 0;

        for (uint64_t i = publisher->done; i < publisher->asked && n < BATCH; i++) {
                Call *call = call_at(publisher, i);

                if (call->is_removal)
                        break;
                publisher->slots[n] = call->slot;
                publisher->fds[n++] = publisher->handed[call->slot];
                publisher->handed[call->slot] = -1;
        }
        return n;
}

/* Called with the lock, works without it. */
static void work(Publisher *publisher) {
        uint32_t n = collect(publisher);

        if (n == 0) {
                Call call = *call_at(publisher, publisher->done);

                pthread_mutex_unlock(&publisher->lock);
                remove_table(publisher, &call);
                pthread_mutex_lock(&publisher->lock);
                *call_at(publisher, publisher->done++) = call;
        } else {
                pthread_mutex_unlock(&publisher->lock);
                set_tables(publisher, n);
                pthread_mutex_lock(&publisher->lock);
                for (uint32_t i = 0; i < n; i++)
                        call_at(publisher, publisher->done++)->error = publisher->errors[i];
        }
        eventfd_write(publisher->event_fd, 1);
}

static void run(void *userdata) {
        Publisher *publisher = userdata;

        pthread_mutex_lock(&publisher->lock);
        while (!publisher->stops) {
                if (publisher->done < publisher->asked)
                        work(publisher);
                else
                        pthread_cond_wait(&publisher->wake, &publisher->lock);
        }
        pthread_mutex_unlock(&publisher->lock);
}

static void stop(Publisher *publisher) {
        pthread_mutex_lock(&publisher->lock);
        publisher->stops = true;
        pthread_cond_signal(&publisher->wake);
        pthread_mutex_unlock(&publisher->lock);
        publisher->thread = thread_join(publisher->thread);
}

static void close_all(int *fds, uint32_t n) {
        for (uint32_t i = 0; fds && i < n; i++)
                if (fds[i] >= 0)
                        close(fds[i]);
        free(fds);
}

Publisher *publisher_free(Publisher *publisher) {
        if (!publisher)
                return NULL;
        stop(publisher);
        close_all(publisher->tables, publisher->n_slots);
        close_all(publisher->handed, publisher->n_slots);
        if (publisher->event_fd >= 0)
                close(publisher->event_fd);
        pthread_mutex_destroy(&publisher->lock);
        pthread_cond_destroy(&publisher->wake);
        free(publisher->calls);
        free(publisher);
        return NULL;
}

static int *new_fds(uint32_t n) {
        int *fds = malloc(n * sizeof(*fds));

        for (uint32_t i = 0; fds && i < n; i++)
                fds[i] = -1;
        return fds;
}

int publisher_new(Publisher **publisherp, int array_fd, uint32_t max_slots) {
        _cleanup_(publisher_freep) Publisher *publisher = calloc(1, sizeof(*publisher));
        const ThreadConfig config = { .run = run, .userdata = publisher };
        int r;

        if (!publisher)
                return error_origin(-ENOMEM);
        pthread_mutex_init(&publisher->lock, NULL);
        pthread_cond_init(&publisher->wake, NULL);
        publisher->array_fd = array_fd;
        publisher->n_slots = max_slots;
        publisher->n_calls = 2 * (uint64_t)max_slots;
        publisher->tables = new_fds(max_slots);
        publisher->handed = new_fds(max_slots);
        publisher->calls = calloc(publisher->n_calls, sizeof(*publisher->calls));
        publisher->event_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
        if (publisher->event_fd < 0)
                return error_origin(-errno);
        if (!publisher->tables || !publisher->handed || !publisher->calls)
                return error_origin(-ENOMEM);
        r = thread_new(&publisher->thread, &config);
        if (r)
                return r < 0 ? error_fold(r) : error_origin(-EAGAIN);
        *publisherp = take(publisher);
        return 0;
}

static void ask(Publisher *publisher, uint32_t slot, bool is_removal, int fd) {
        pthread_mutex_lock(&publisher->lock);
        if (!is_removal)
                publisher->handed[slot] = fd;
        publisher->calls[publisher->asked % publisher->n_calls] = (Call){ .slot = slot,
                                                                          .is_removal = is_removal };
        publisher->asked++;
        pthread_cond_signal(&publisher->wake);
        pthread_mutex_unlock(&publisher->lock);
}

void publisher_set(Publisher *publisher, uint32_t slot, int table_fd) {
        ask(publisher, slot, false, table_fd);
}

void publisher_remove(Publisher *publisher, uint32_t slot) {
        ask(publisher, slot, true, -1);
}

int publisher_fd(const Publisher *publisher) {
        return publisher->event_fd;
}

bool publisher_take(Publisher *publisher, PublisherResult *resultp) {
        bool is_there;
        eventfd_t ignored;

        pthread_mutex_lock(&publisher->lock);
        is_there = publisher->taken < publisher->done;
        if (is_there) {
                const Call *call = &publisher->calls[publisher->taken++ % publisher->n_calls];

                *resultp = (PublisherResult){ .slot = call->slot,
                                              .is_removal = call->is_removal,
                                              .error = call->error };
        } else {
                eventfd_read(publisher->event_fd, &ignored);
        }
        pthread_mutex_unlock(&publisher->lock);
        return is_there;
}

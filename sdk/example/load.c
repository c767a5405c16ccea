/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Submits requests at random gaps from a thread of its own, by absolute times: a request that was late does
 * not shift the next ones. What the queue has no room for is counted as shed.
 */
#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <time.h>

#include "load.h"
#include "random.h"

struct Load {
        Pool *pool;
        pthread_t thread;
        uint64_t mean_gap_ns;
        uint64_t random;
        atomic_bool stopping;
        _Atomic uint64_t n_shed;
};

/* Sleeps until the time has come, but never longer than it may take to notice the end. */
static void sleep_until(const Load *load, const struct timespec *time) {
        struct timespec now, step = { .tv_nsec = 100000000 };

        for (;;) {
                clock_gettime(CLOCK_MONOTONIC, &now);
                if (atomic_load(&load->stopping) || now.tv_sec > time->tv_sec ||
                    (now.tv_sec == time->tv_sec && now.tv_nsec >= time->tv_nsec))
                        return;
                if (time->tv_sec > now.tv_sec + 1)
                        clock_nanosleep(CLOCK_MONOTONIC, 0, &step, NULL);
                else
                        clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, time, NULL);
        }
}

static void advance(struct timespec *time, uint64_t ns) {
        ns += (uint64_t)time->tv_nsec;
        time->tv_sec += (time_t)(ns / 1000000000);
        time->tv_nsec = (long)(ns % 1000000000);
}

static void *load_main(void *data) {
        Load *load = data;
        struct timespec next;

        clock_gettime(CLOCK_MONOTONIC, &next);
        while (!atomic_load(&load->stopping)) {
                if (!pool_submit(load->pool, random_next(&load->random) % N_OPERATIONS))
                        atomic_fetch_add(&load->n_shed, 1);
                advance(&next, random_next(&load->random) % (2 * load->mean_gap_ns));
                sleep_until(load, &next);
        }
        return NULL;
}

int load_new(Load **loadp, Pool *pool, double rate, uint64_t seed) {
        Load *load = calloc(1, sizeof(*load));
        int r;

        if (!load)
                return -ENOMEM;
        load->pool = pool;
        load->mean_gap_ns = (uint64_t)(1e9 / rate) + 1;
        load->random = seed;
        r = pthread_create(&load->thread, NULL, load_main, load);
        if (r) {
                free(load);
                return -r;
        }
        pthread_setname_np(load->thread, "load");
        *loadp = load;
        return 0;
}

Load *load_free(Load *load) {
        if (!load)
                return NULL;
        atomic_store(&load->stopping, true);
        pthread_join(load->thread, NULL);
        free(load);
        return NULL;
}

uint64_t load_n_shed(const Load *load) {
        return load ? atomic_load(&load->n_shed) : 0;
}

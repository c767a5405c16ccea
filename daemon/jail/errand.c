/* SPDX-License-Identifier: Apache-2.0 */
#include "jail/errand.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <sys/socket.h>
#include <time.h>

#include "jail/channel.h"
#include "util/clock.h"
#include "util/macro.h"
#include "util/stat.h"

#define MAX_WAIT_NS (NS_PER_SEC)        /* for those that were ended to be gone */

static uint64_t left_ns(const Errand *errand) {
        uint64_t now_ns = clock_monotonic_ns();

        return now_ns < errand->end_ns ? errand->end_ns - now_ns : 0;
}

/* It may wait, for sends as long as there is time: what is sent is short. */
static int prepare(const Errand *errand) {
        uint64_t time_ns = MAX(left_ns(errand), (uint64_t)NS_PER_MS);
        const struct timeval time = { .tv_sec = (time_t)(time_ns / NS_PER_SEC), .tv_usec = (suseconds_t)(time_ns % NS_PER_SEC / NS_PER_US) };

        return fcntl(errand->socket, F_SETFL, 0) < 0 ||
               setsockopt(errand->socket, SOL_SOCKET, SO_SNDTIMEO, &time, sizeof(time)) < 0;
}

int errand_begin(Errand *errand) {
        const struct timespec pause = { .tv_nsec = NS_PER_MS };
        uint64_t end_ns = clock_monotonic_ns() + MIN(left_ns(errand), (uint64_t)MAX_WAIT_NS);
        int r;

        if (errand->socket >= 0)
                return 0;
        while ((r = nursery_spawn(errand->nursery, &errand->socket, &errand->serial)) == NURSERY_E_FULL &&
               clock_monotonic_ns() < end_ns) {
                nanosleep(&pause, NULL);
                nursery_tend(errand->nursery);
        }
        if (r)
                return ERRAND_E_NONE;
        errand->counts->n_started++;
        if (prepare(errand)) {
                errand_end(errand);
                return ERRAND_E_NONE;
        }
        return 0;
}

void errand_end(Errand *errand) {
        if (errand->socket < 0)
                return;
        closep(&errand->socket);
        errand->socket = -1;
        nursery_end(errand->nursery, errand->serial);
}

static int fail(Errand *errand, bool is_late) {
        ++*(is_late ? &errand->counts->n_late : &errand->counts->n_died);
        errand_end(errand);
        return is_late ? ERRAND_E_LATE : ERRAND_E_DIED;
}

int errand_refuse(Errand *errand) {
        errand->counts->n_malformed++;
        errand_end(errand);
        return ERRAND_E_DIED;
}

int errand_send(Errand *errand, const void *data, size_t size, int fd) {
        int r = channel_send(errand->socket, data, size, fd);

        return r ? fail(errand, r == -EAGAIN) : 0;
}

/* Return: whether there is something to read, or an end. */
static bool wait_for_bytes(const Errand *errand) {
        struct pollfd fd = { .fd = errand->socket, .events = POLLIN };
        int r;

        do
                r = poll(&fd, 1, (int)((left_ns(errand) + NS_PER_MS - 1) / NS_PER_MS));
        while (r < 0 && errno == EINTR);
        return r > 0;
}

int errand_receive(Errand *errand, void *data, size_t size) {
        for (size_t at = 0; at < size;) {
                ssize_t n;

                if (!wait_for_bytes(errand))
                        return fail(errand, true);
                n = channel_receive(errand->socket, (char *)data + at, size - at, NULL, MSG_DONTWAIT);
                if (n == -EAGAIN)
                        continue;
                if (n <= 0)
                        return fail(errand, false);
                at += (size_t)n;
        }
        return 0;
}

void errand_count(const ErrandCounts *counts) {
        stat_add(COUNTER_WORKERS_STARTED, counts->n_started);
        stat_add(COUNTER_WORKERS_DIED, counts->n_died);
        stat_add(COUNTER_WORKERS_LATE, counts->n_late);
        stat_add(COUNTER_WORKERS_MALFORMED, counts->n_malformed);
}

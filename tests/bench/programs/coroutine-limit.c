/* SPDX-License-Identifier: Apache-2.0 */

/*
 * What the protocol lets a reader see: runs a command with stations (seqlock dialect) and reads them with a
 * loop that does nothing but look, copy and count. It has no states, no output, looks at nothing else and
 * never sleeps.
 *
 *      coroutine-limit STATIONS COMMAND…       prints: limit READ LOST
 */

#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "core/base/util/macro.h"
#include "host/coro/region.h"

enum { EPOCHS = SPANPROF_STATION_EPOCHS, KEPT = 1 << 12, SPINS = 2000 };

static char path[] = "/dev/shm/spanprof-limit-XXXXXX";
static struct spanprof_epoch copies[KEPT];      /* so that the copy is really made */
static uint64_t n_read, n_lost;

static uint64_t load_seq(const struct spanprof_station *station, uint64_t number) {
        return __atomic_load_n(&station->epochs[number % EPOCHS].seq, __ATOMIC_ACQUIRE);
}

static uint64_t count_written(const struct spanprof_station *station) {
        uint64_t most = 0;

        for (unsigned i = 0; i < EPOCHS; i++) {
                uint64_t seq = load_seq(station, i), written = seq > 1 ? EPOCHS * (seq / 2 - 1) + i + 1 : 0;

                most = MAX(most, written);
        }
        return most;
}

/* Copies event @next. Return: whether it was still there to the end. */
static bool copy(const struct spanprof_station *station, uint64_t next) {
        uint64_t seq = 2 * (next / EPOCHS + 1);

        if (load_seq(station, next) != seq)
                return false;
        copies[n_read % KEPT] = *(const volatile struct spanprof_epoch *)&station->epochs[next % EPOCHS];
        __atomic_thread_fence(__ATOMIC_ACQUIRE);
        return load_seq(station, next) == seq;
}

/* Stays as long as events come. Return: the next event. */
static uint64_t follow(const struct spanprof_station *station, uint64_t next) {
        for (int quiet = 0; quiet < SPINS;) {
                uint64_t written;

                if (load_seq(station, next) / 2 <= next / EPOCHS) {
                        quiet++;
                        continue;
                }
                quiet = 0;
                if (copy(station, next)) {
                        n_read++;
                        next++;
                        continue;
                }
                /* the two oldest are overwritten before one gets there */
                written = count_written(station);
                written = MAX(next + 1, written > EPOCHS - 2 ? written - (EPOCHS - 2) : 0);
                n_lost += written - next;
                next = written;
        }
        return next;
}

static void read_all(Region *region, pid_t child, uint64_t *next) {
        for (uint64_t scan = 0; scan % 4096 || !waitpid(child, NULL, WNOHANG); scan++) {
                uint32_t without, n = region_allocated(region, &without);

                for (uint32_t i = 0; i < n; i++)
                        if (load_seq(&region->stations[i], next[i]) / 2 > next[i] / EPOCHS)
                                next[i] = follow(&region->stations[i], next[i]);
        }
        for (uint32_t i = 0; i < region->n_stations; i++)
                n_lost += count_written(&region->stations[i]) - next[i];
}

int main(int argc, char **argv) {
        _cleanup_(region_freep) Region *region = NULL;
        uint64_t *next = argc > 2 ? calloc((size_t)atol(argv[1]), sizeof(*next)) : NULL;
        pid_t child;

        if (!next || mkstemp(path) < 0 || unlink(path) ||
            region_create(&region, path, (uint32_t)atol(argv[1]), 0600))
                return 2;
        setenv(SPANPROF_STATION_ENV_REGION, path, 1);
        setenv(SPANPROF_STATION_ENV_MAX, argv[1], 1);
        unsetenv(SPANPROF_STATION_ENV_SOCKET);
        child = fork();
        if (child == 0) {
                execv(argv[2], argv + 2);
                _exit(127);
        }
        read_all(region, child, next);
        unlink(path);
        printf("limit %" PRIu64 " %" PRIu64 "\n", n_read, n_lost);
        free(next);
        return 0;
}

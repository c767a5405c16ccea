/* SPDX-License-Identifier: Apache-2.0 */

/*
 * The engine that the protocol's text describes, and nothing more: the rival of `spanprof coro` in coro.py.
 *
 *      scan all stations; an event is found: scan again at once
 *      three scans in a row find none: set tracer_sleeping to 1, scan once more, and wait for a byte of the
 *      program for up to 50 ms; then set it to 0
 *
 * It keeps copies of the events in memory and writes no trace.
 *
 *      coroutine-straight STATIONS seqlock|document COMMAND…   prints: straight READ LOST SLEEPS
 */

#include <fcntl.h>
#include <inttypes.h>
#include <poll.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include "core/base/util/macro.h"
#include "host/coro/region.h"

enum { EPOCHS = SPANPROF_STATION_EPOCHS, KEPT = 1 << 12, EMPTY = 3, DEADLINE_MS = 50 };

static char directory[] = "/dev/shm/spanprof-straight-XXXXXX";
static struct spanprof_epoch copies[KEPT];      /* so that the copy is really made */
static uint64_t n_read, n_lost, n_sleeps;
static bool is_document;

static unsigned epoch_of(uint64_t number) {
        return (number + is_document) % EPOCHS;
}

static uint64_t seq_of(uint64_t number) {
        return is_document ? number + 1 : 2 * (number / EPOCHS + 1);
}

static uint64_t load_seq(const struct spanprof_station *station, uint64_t number) {
        return __atomic_load_n(&station->epochs[epoch_of(number)].seq, __ATOMIC_ACQUIRE);
}

/* Events that were written up to now, event @next being one of them. */
static uint64_t count_written(const struct spanprof_station *station, uint64_t next) {
        uint64_t most = next;

        for (uint64_t i = next; i < next + EPOCHS; i++) {
                uint64_t seq = load_seq(station, i),
                         written = is_document ? seq : i + 1 + EPOCHS * (seq / 2 - 1 - i / EPOCHS);

                most = seq >= seq_of(i) ? MAX(most, written) : most;
        }
        return most;
}

static bool copy(const struct spanprof_station *station, uint64_t number) {
        const volatile struct spanprof_epoch *from = &station->epochs[epoch_of(number)];

        if (load_seq(station, number) != seq_of(number))
                return false;
        copies[n_read % KEPT] = *from;
        __atomic_thread_fence(__ATOMIC_ACQUIRE);
        /* of the document's dialect: the write of event n + 8 may have begun when event n + 7 is there */
        return load_seq(station, number) == seq_of(number) &&
               (!is_document || load_seq(station, number + EPOCHS - 1) < seq_of(number + EPOCHS - 1));
}

static bool read_station(const struct spanprof_station *station, uint64_t *next) {
        uint64_t written, oldest;

        if (load_seq(station, *next) < seq_of(*next))
                return false;
        written = count_written(station, *next);
        oldest = written > EPOCHS ? written - EPOCHS : 0;
        n_lost += oldest > *next ? oldest - *next : 0;
        for (*next = MAX(*next, oldest); *next < written; ++*next)
                if (copy(station, *next))
                        n_read++;
                else
                        n_lost++;
        return true;
}

static bool scan(const Region *region, uint64_t *next) {
        uint32_t without, n = region_allocated(region, &without);
        bool found = false;

        for (uint32_t i = 0; i < n; i++)
                found |= read_station(&region->stations[i], &next[i]);
        return found;
}

static void sleep_until_woken(Region *region, uint64_t *next, struct pollfd *fds) {
        uint32_t *flag = &region->header->tracer_sleeping;
        char bytes[256];

        __atomic_store_n(flag, 1, __ATOMIC_SEQ_CST);
        if (!scan(region, next)) {
                n_sleeps++;
                poll(fds, 2, DEADLINE_MS);
                if (fds[0].revents && fds[1].fd < 0)
                        fds[1].fd = accept4(fds[0].fd, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);
                if (fds[1].revents && read(fds[1].fd, bytes, sizeof(bytes)) == 0)
                        fds[1].events = 0;
        }
        __atomic_store_n(flag, 0, __ATOMIC_SEQ_CST);
}

static void read_all(Region *region, pid_t child, uint64_t *next, int listener) {
        struct pollfd fds[2] = { { .fd = listener, .events = POLLIN }, { .fd = -1, .events = POLLIN } };
        unsigned n_empty = 0;

        for (uint64_t i = 1; i % 1024 || !waitpid(child, NULL, WNOHANG); i++) {
                n_empty = scan(region, next) ? 0 : n_empty + 1;
                if (n_empty < EMPTY)
                        continue;
                sleep_until_woken(region, next, fds);
                n_empty = 0;
                if (waitpid(child, NULL, WNOHANG))
                        break;
        }
        scan(region, next);
}

static int listen_at(const char *path) {
        struct sockaddr_un address = { .sun_family = AF_UNIX };
        int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);

        strncpy(address.sun_path, path, sizeof(address.sun_path) - 1);
        return bind(fd, (struct sockaddr *)&address, sizeof(address)) || listen(fd, 8) ? -1 : fd;
}

int main(int argc, char **argv) {
        _cleanup_(region_freep) Region *region = NULL;
        uint64_t *next = argc > 3 ? calloc((size_t)atol(argv[1]), sizeof(*next)) : NULL;
        char path[64], socket_path[64];
        int listener;
        pid_t child;

        if (!next || !mkdtemp(directory))
                return 2;
        is_document = !strcmp(argv[2], "document");
        snprintf(path, sizeof(path), "%s/region", directory);
        snprintf(socket_path, sizeof(socket_path), "%s/socket", directory);
        listener = listen_at(socket_path);
        if (listener < 0 || region_create(&region, path, (uint32_t)atol(argv[1]), 0600))
                return 2;
        setenv(SPANPROF_STATION_ENV_REGION, path, 1);
        setenv(SPANPROF_STATION_ENV_SOCKET, socket_path, 1);
        setenv(SPANPROF_STATION_ENV_MAX, argv[1], 1);
        child = fork();
        if (child == 0) {
                execvp(argv[3], argv + 3);
                _exit(127);
        }
        read_all(region, child, next, listener);
        unlink(path);
        unlink(socket_path);
        rmdir(directory);
        printf("straight %" PRIu64 " %" PRIu64 " %" PRIu64 "\n", n_read, n_lost, n_sleeps);
        free(next);
        return 0;
}

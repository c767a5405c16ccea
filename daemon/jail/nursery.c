/* SPDX-License-Identifier: Apache-2.0 */
#include "jail/nursery-private.h"

#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>

#include "jail/channel.h"
#include "util/error.h"

enum { REAP_MS = 500 };

int nursery_new(Nursery **nurseryp) {
        _cleanup_(nursery_freep) Nursery *nursery = calloc(1, sizeof(*nursery));
        int r;

        if (!nursery)
                return error_origin(-ENOMEM);
        pthread_mutex_init(&nursery->mutex, NULL);
        nursery->n_refs = 1;
        for (int i = 0; i < N_RAISERS; i++)
                nursery->raisers[i].socket = -1;
        nursery->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
        if (nursery->epoll_fd < 0)
                return error_origin(-errno);
        r = raiser_start(&nursery->raisers[0]);
        if (r)
                return error_fold(r);
        raisers_watch(nursery, &nursery->raisers[0]);
        *nurseryp = take(nursery);
        return 0;
}

/*
 * Those that were forked last may not have been told of: they end with their socket, and we have no other
 * children. Who does not come soon is left to the init process.
 */
static void reap_all(void) {
        const struct timespec pause = { .tv_nsec = NS_PER_MS };

        for (int i = 0; i < REAP_MS; i++) {
                pid_t pid = waitpid(-1, NULL, WNOHANG);

                if (pid < 0)
                        return;
                if (pid == 0)
                        nanosleep(&pause, NULL);
        }
}

Nursery *nursery_ref(Nursery *nursery) {
        LOCKED(nursery);

        nursery->n_refs++;
        return nursery;
}

Nursery *nursery_unref(Nursery *nursery) {
        uint32_t n_left;

        if (!nursery)
                return NULL;
        pthread_mutex_lock(&nursery->mutex);
        n_left = --nursery->n_refs;
        pthread_mutex_unlock(&nursery->mutex);
        if (n_left)
                return NULL;
        pthread_mutex_destroy(&nursery->mutex);
        closep(&nursery->epoll_fd);
        free(nursery);
        return NULL;
}

/* Whoever has another reference finds that it is gone. */
static void end_all(Nursery *nursery) {
        LOCKED(nursery);

        if (nursery->raisers[0].is_up)
                nursery_tend_locked(nursery);
        workers_kill(nursery);
        if (raisers_kill(nursery) || nursery->last_serial)
                reap_all();
}

Nursery *nursery_free(Nursery *nursery) {
        if (nursery)
                end_all(nursery);
        return nursery_unref(nursery);
}

/* Until it is there, nobody could take the first one's place. Who has to wait too long for it goes on. */
static void wait_successor(Nursery *nursery, int timeout_ms) {
        const struct timespec pause = { .tv_nsec = NS_PER_MS };

        nursery_tend_locked(nursery);
        for (int i = 0; i < timeout_ms && !nursery->raisers[1].is_up; i++) {
                nanosleep(&pause, NULL);
                nursery_tend_locked(nursery);
        }
}

int nursery_wait(Nursery *nursery, int timeout_ms) {
        Raiser *raiser = &nursery->raisers[0];
        struct pollfd fd = { .fd = raiser->socket, .events = POLLIN };
        NurseryReply hello = { .serial = 1 };
        LOCKED(nursery);

        if (raiser->socket < 0)
                return -ESRCH;
        if (poll(&fd, 1, timeout_ms) != 1)
                return -ETIMEDOUT;
        if (channel_receive(raiser->socket, &hello, sizeof(hello), NULL, MSG_DONTWAIT) != sizeof(hello) || hello.serial != NURSERY_HELLO)
                return -ESRCH;
        if (hello.pid < 0)
                return hello.pid;
        raiser->is_up = true;
        wait_successor(nursery, timeout_ms);
        return 0;
}

bool nursery_tend_locked(Nursery *nursery) {
        bool is_coming = raisers_tend(nursery), is_left = workers_reap(nursery);

        return is_coming || is_left;
}

bool nursery_tend(Nursery *nursery) {
        LOCKED(nursery);

        return nursery_tend_locked(nursery);
}

int nursery_fd(const Nursery *nursery) {
        return nursery->epoll_fd;
}

bool nursery_is_there(const Nursery *nursery) {
        LOCKED(nursery);

        return raisers_find(nursery);
}

uint32_t nursery_take_replaced(Nursery *nursery) {
        uint32_t n;
        LOCKED(nursery);

        n = nursery->n_replaced;
        nursery->n_replaced = 0;
        return n;
}

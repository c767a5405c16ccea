/* SPDX-License-Identifier: Apache-2.0 */
#include "base/sandbox/zygotes-private.h"

#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>

#include "base/sandbox/channel.h"
#include "base/util/error.h"

enum { REAP_MS = 500 };

int zygotes_new(Zygotes **zygotesp) {
        _cleanup_(zygotes_freep) Zygotes *zygotes = calloc(1, sizeof(*zygotes));
        int r;

        if (!zygotes)
                return error_origin(-ENOMEM);
        pthread_mutex_init(&zygotes->mutex, NULL);
        zygotes->n_refs = 1;
        for (int i = 0; i < N_ZYGOTES; i++)
                zygotes->zygotes[i].socket = -1;
        zygotes->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
        if (zygotes->epoll_fd < 0)
                return error_origin(-errno);
        r = zygote_start(&zygotes->zygotes[0]);
        if (r)
                return error_fold(r);
        pair_watch(zygotes, &zygotes->zygotes[0]);
        *zygotesp = take(zygotes);
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

Zygotes *zygotes_ref(Zygotes *zygotes) {
        LOCKED(zygotes);

        zygotes->n_refs++;
        return zygotes;
}

Zygotes *zygotes_unref(Zygotes *zygotes) {
        uint32_t n_left;

        if (!zygotes)
                return NULL;
        pthread_mutex_lock(&zygotes->mutex);
        n_left = --zygotes->n_refs;
        pthread_mutex_unlock(&zygotes->mutex);
        if (n_left)
                return NULL;
        pthread_mutex_destroy(&zygotes->mutex);
        closep(&zygotes->epoll_fd);
        free(zygotes);
        return NULL;
}

/* Whoever has another reference finds that it is gone. */
static void end_all(Zygotes *zygotes) {
        LOCKED(zygotes);

        if (zygotes->zygotes[0].is_up)
                zygotes_tend_locked(zygotes);
        workers_kill(zygotes);
        if (pair_kill(zygotes) || zygotes->last_serial)
                reap_all();
}

Zygotes *zygotes_free(Zygotes *zygotes) {
        if (zygotes)
                end_all(zygotes);
        return zygotes_unref(zygotes);
}

/* Until it is there, nobody could take the first one's place. Who has to wait too long for it goes on. */
static void wait_successor(Zygotes *zygotes, int timeout_ms) {
        const struct timespec pause = { .tv_nsec = NS_PER_MS };

        zygotes_tend_locked(zygotes);
        for (int i = 0; i < timeout_ms && !zygotes->zygotes[1].is_up; i++) {
                nanosleep(&pause, NULL);
                zygotes_tend_locked(zygotes);
        }
}

int zygotes_wait(Zygotes *zygotes, int timeout_ms) {
        Zygote *zygote = &zygotes->zygotes[0];
        struct pollfd fd = { .fd = zygote->socket, .events = POLLIN };
        ZygoteReply hello = { .serial = 1 };
        LOCKED(zygotes);

        if (zygote->socket < 0)
                return -ESRCH;
        if (poll(&fd, 1, timeout_ms) != 1)
                return -ETIMEDOUT;
        if (channel_receive(zygote->socket, &hello, sizeof(hello), NULL, MSG_DONTWAIT) != sizeof(hello) ||
            hello.serial != ZYGOTE_HELLO)
                return -ESRCH;
        if (hello.pid < 0)
                return hello.pid;
        zygote->is_up = true;
        wait_successor(zygotes, timeout_ms);
        return 0;
}

bool zygotes_tend_locked(Zygotes *zygotes) {
        bool is_coming = pair_tend(zygotes), is_left = workers_reap(zygotes);

        return is_coming || is_left;
}

bool zygotes_tend(Zygotes *zygotes) {
        LOCKED(zygotes);

        return zygotes_tend_locked(zygotes);
}

int zygotes_fd(const Zygotes *zygotes) {
        return zygotes->epoll_fd;
}

bool zygotes_is_there(const Zygotes *zygotes) {
        LOCKED(zygotes);

        return pair_find(zygotes);
}

uint32_t zygotes_take_replaced(Zygotes *zygotes) {
        uint32_t n;
        LOCKED(zygotes);

        n = zygotes->n_replaced;
        zygotes->n_replaced = 0;
        return n;
}

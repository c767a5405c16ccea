/* SPDX-License-Identifier: Apache-2.0 */

/*
 * The workers of a zygotes: those that were asked for, those that came, and those whose end is still to be
 * taken note of.
 */

#include <fcntl.h>
#include <signal.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>

#include "base/sandbox/zygotes-private.h"

static void remember(Zygotes *zygotes, pid_t pid) {
        if (pid > 0)
                zygotes->past[zygotes->n_past++ % MAX_PAST] = (Past){ pid, clock_monotonic_ns() };
}

static uint32_t next_serial(Zygotes *zygotes) {
        zygotes->last_serial = zygotes->last_serial + 1 ?: 1;
        return zygotes->last_serial;
}

static Worker *find(const Zygotes *zygotes, uint32_t serial) {
        for (int i = 0; i < MAX_WORKERS; i++)
                if (zygotes->workers[i].serial == serial)
                        return (Worker *)&zygotes->workers[i];
        return NULL;
}

/* Whoever is gone, is found to be so now. Return: 0, ZYGOTE_E_GONE. */
static int order(Zygotes *zygotes, Worker *worker, int socket) {
        Zygote *zygote;

        while ((zygote = pair_find(zygotes))) {
                *worker = (Worker){ .serial = next_serial(zygotes),
                                    .zygote = zygote,
                                    .begin_ns = clock_monotonic_ns() };
                if (zygote_order(zygote, worker->serial, socket) == 0)
                        return 0;
                pair_lose(zygotes, zygote);
        }
        *worker = (Worker){ 0 };
        return ZYGOTE_E_GONE;
}

int zygotes_spawn(Zygotes *zygotes, int *socketp, uint32_t *serialp) {
        _cleanup_(closep) int near = -1, far = -1;
        int ends[2], r;
        Worker *worker;
        LOCKED(zygotes);

        worker = find(zygotes, 0);
        if (!pair_find(zygotes))
                return ZYGOTE_E_GONE;
        if (!worker)
                return ZYGOTE_E_FULL;
        if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) < 0)
                return ZYGOTE_E_FAILED;
        near = ends[0];
        far = ends[1];
        if (fcntl(near, F_SETFL, O_NONBLOCK) < 0)
                return ZYGOTE_E_FAILED;
        r = order(zygotes, worker, far);
        if (r)
                return r;
        *socketp = take_fd(near);
        *serialp = worker->serial;
        return 0;
}

bool zygotes_never_came(const Zygotes *zygotes, uint32_t serial, bool *is_openp) {
        const Worker *worker;
        LOCKED(zygotes);

        worker = serial ? find(zygotes, serial) : NULL;
        *is_openp = worker && !worker->pid && worker->zygote;
        return worker && !worker->pid;
}

void zygotes_end(Zygotes *zygotes, uint32_t serial) {
        Worker *worker;
        LOCKED(zygotes);

        worker = serial ? find(zygotes, serial) : NULL;
        if (!worker || worker->is_ended)
                return;
        worker->is_ended = true;
        if (worker->pid > 0)
                kill(worker->pid, SIGKILL);
        zygotes_tend_locked(zygotes);
}

int32_t zygotes_pid(const Zygotes *zygotes, uint32_t serial) {
        const Worker *worker;
        const Zygote *zygote;
        LOCKED(zygotes);

        worker = serial ? find(zygotes, serial) : NULL;
        zygote = pair_find(zygotes);
        if (!serial)
                return zygote ? zygote->pid : 0;
        return worker ? worker->pid : 0;
}

/* Is it told the truth? Only a child of ours is killed, and no other child is among those that run has. */
void workers_note(Zygotes *zygotes, const ZygoteReply *reply) {
        Worker *worker = reply->serial ? find(zygotes, reply->serial) : NULL;

        if (!worker || worker->pid)
                return;
        if (reply->pid <= 1 || pair_have(zygotes, reply->pid) || waitpid(reply->pid, NULL, WNOHANG) != 0) {
                remember(zygotes, reply->pid > 1 ? reply->pid : 0);
                *worker = (Worker){ 0 };
                return;
        }
        worker->pid = reply->pid;
        if (worker->is_ended)
                kill(worker->pid, SIGKILL);
}

void workers_lose_zygote(Zygotes *zygotes, const Zygote *zygote) {
        Worker *place = find(zygotes, 0);

        for (int i = 0; i < MAX_WORKERS; i++)
                if (zygotes->workers[i].zygote == zygote)
                        zygotes->workers[i].zygote = NULL;
        if (zygote->pid > 0 && place)
                *place = (Worker){ .serial = next_serial(zygotes), .pid = zygote->pid, .is_ended = true };
}

bool workers_wait_since(const Zygotes *zygotes, const Zygote *zygote, uint64_t time_ns) {
        for (int i = 0; i < MAX_WORKERS; i++)
                if (zygotes->workers[i].zygote == zygote && !zygotes->workers[i].pid &&
                    zygotes->workers[i].begin_ns < time_ns)
                        return true;
        return false;
}

bool workers_reap(Zygotes *zygotes) {
        bool is_left = false;

        for (int i = 0; i < MAX_WORKERS; i++) {
                Worker *worker = &zygotes->workers[i];

                if (worker->is_ended &&
                    (worker->pid ? waitpid(worker->pid, NULL, WNOHANG) != 0 : !worker->zygote)) {
                        remember(zygotes, worker->pid);
                        *worker = (Worker){ 0 };
                }
                is_left |= worker->is_ended;
        }
        return is_left;
}

void workers_kill(Zygotes *zygotes) {
        for (int i = 0; i < MAX_WORKERS; i++)
                if (zygotes->workers[i].pid > 0)
                        kill(zygotes->workers[i].pid, SIGKILL);
        memset(zygotes->workers, 0, sizeof(zygotes->workers));
}

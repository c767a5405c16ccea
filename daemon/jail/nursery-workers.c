/* SPDX-License-Identifier: Apache-2.0 */

/* The workers of a nursery: those that were asked for, those that came, and those whose end is still to be taken note of. */

#include <fcntl.h>
#include <signal.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>

#include "jail/nursery-private.h"

static void remember(Nursery *nursery, pid_t pid) {
        if (pid > 0)
                nursery->past[nursery->n_past++ % MAX_PAST] = (Past){ pid, clock_monotonic_ns() };
}

static uint32_t next_serial(Nursery *nursery) {
        nursery->last_serial = nursery->last_serial + 1 ?: 1;
        return nursery->last_serial;
}

static Worker *find(const Nursery *nursery, uint32_t serial) {
        for (int i = 0; i < MAX_WORKERS; i++)
                if (nursery->workers[i].serial == serial)
                        return (Worker *)&nursery->workers[i];
        return NULL;
}

/* Whoever is gone, is found to be so now. Return: 0, NURSERY_E_GONE. */
static int order(Nursery *nursery, Worker *worker, int socket) {
        Raiser *raiser;

        while ((raiser = raisers_find(nursery))) {
                *worker = (Worker){ .serial = next_serial(nursery), .raiser = raiser, .begin_ns = clock_monotonic_ns() };
                if (raiser_order(raiser, worker->serial, socket) == 0)
                        return 0;
                raisers_lose(nursery, raiser);
        }
        *worker = (Worker){ 0 };
        return NURSERY_E_GONE;
}

int nursery_spawn(Nursery *nursery, int *socketp, uint32_t *serialp) {
        _cleanup_(closep) int near = -1, far = -1;
        int ends[2], r;
        Worker *worker;
        LOCKED(nursery);

        worker = find(nursery, 0);
        if (!raisers_find(nursery))
                return NURSERY_E_GONE;
        if (!worker)
                return NURSERY_E_FULL;
        if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) < 0)
                return NURSERY_E_FAILED;
        near = ends[0];
        far = ends[1];
        if (fcntl(near, F_SETFL, O_NONBLOCK) < 0)
                return NURSERY_E_FAILED;
        r = order(nursery, worker, far);
        if (r)
                return r;
        *socketp = take_fd(near);
        *serialp = worker->serial;
        return 0;
}

bool nursery_never_came(const Nursery *nursery, uint32_t serial, bool *is_openp) {
        const Worker *worker;
        LOCKED(nursery);

        worker = serial ? find(nursery, serial) : NULL;
        *is_openp = worker && !worker->pid && worker->raiser;
        return worker && !worker->pid;
}

void nursery_end(Nursery *nursery, uint32_t serial) {
        Worker *worker;
        LOCKED(nursery);

        worker = serial ? find(nursery, serial) : NULL;
        if (!worker || worker->is_ended)
                return;
        worker->is_ended = true;
        if (worker->pid > 0)
                kill(worker->pid, SIGKILL);
        nursery_tend_locked(nursery);
}

int32_t nursery_pid(const Nursery *nursery, uint32_t serial) {
        const Worker *worker;
        const Raiser *raiser;
        LOCKED(nursery);

        worker = serial ? find(nursery, serial) : NULL;
        raiser = raisers_find(nursery);
        if (!serial)
                return raiser ? raiser->pid : 0;
        return worker ? worker->pid : 0;
}

/* Is it told the truth? Only a child of ours is killed, and no other child is among those that run has. */
void workers_note(Nursery *nursery, const NurseryReply *reply) {
        Worker *worker = reply->serial ? find(nursery, reply->serial) : NULL;

        if (!worker || worker->pid)
                return;
        if (reply->pid <= 1 || raisers_have(nursery, reply->pid) || waitpid(reply->pid, NULL, WNOHANG) != 0) {
                remember(nursery, reply->pid > 1 ? reply->pid : 0);
                *worker = (Worker){ 0 };
                return;
        }
        worker->pid = reply->pid;
        if (worker->is_ended)
                kill(worker->pid, SIGKILL);
}

void workers_lose_raiser(Nursery *nursery, const Raiser *raiser) {
        Worker *place = find(nursery, 0);

        for (int i = 0; i < MAX_WORKERS; i++)
                if (nursery->workers[i].raiser == raiser)
                        nursery->workers[i].raiser = NULL;
        if (raiser->pid > 0 && place)
                *place = (Worker){ .serial = next_serial(nursery), .pid = raiser->pid, .is_ended = true };
}

bool workers_wait_since(const Nursery *nursery, const Raiser *raiser, uint64_t time_ns) {
        for (int i = 0; i < MAX_WORKERS; i++)
                if (nursery->workers[i].raiser == raiser && !nursery->workers[i].pid && nursery->workers[i].begin_ns < time_ns)
                        return true;
        return false;
}

bool workers_reap(Nursery *nursery) {
        bool is_left = false;

        for (int i = 0; i < MAX_WORKERS; i++) {
                Worker *worker = &nursery->workers[i];

                if (worker->is_ended && (worker->pid ? waitpid(worker->pid, NULL, WNOHANG) != 0 : !worker->raiser)) {
                        remember(nursery, worker->pid);
                        *worker = (Worker){ 0 };
                }
                is_left |= worker->is_ended;
        }
        return is_left;
}

void workers_kill(Nursery *nursery) {
        for (int i = 0; i < MAX_WORKERS; i++)
                if (nursery->workers[i].pid > 0)
                        kill(nursery->workers[i].pid, SIGKILL);
        memset(nursery->workers, 0, sizeof(nursery->workers));
}

/* SPDX-License-Identifier: Apache-2.0 */
#include "jail/nursery-private.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "jail/channel.h"
#include "util/error.h"
#include "util/file.h"

enum { REAP_MS = 500 };

#define STALL_NS (5 * NS_PER_SEC)       /* one that has not answered for so long is as good as gone */
#define FIRST_PAUSE_NS (10 * NS_PER_MS) /* after the second one in a row; doubled with each */
#define LONGEST_PAUSE_NS NS_PER_SEC
#define LOG_NS (60 * NS_PER_SEC)

/* Nothing but its end. */
static void watch(Nursery *nursery, const Raiser *raiser) {
        struct epoll_event event = { .events = 0 };     /* EPOLLHUP always is */

        epoll_ctl(nursery->epoll_fd, EPOLL_CTL_ADD, raiser->socket, &event);
}

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
        watch(nursery, &nursery->raisers[0]);
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

/* Whether there was any. */
static bool kill_raisers(Nursery *nursery) {
        bool were_there = false;

        for (int i = 0; i < N_RAISERS; i++) {
                were_there |= nursery->raisers[i].socket >= 0;
                if (nursery->raisers[i].pid > 0)
                        kill(nursery->raisers[i].pid, SIGKILL);
                raiser_close(&nursery->raisers[i]);
        }
        return were_there;
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

static bool tend(Nursery *nursery);

/* Whoever has another reference finds that it is gone. */
static void end_all(Nursery *nursery) {
        LOCKED(nursery);

        if (nursery->raisers[0].is_up)
                tend(nursery);
        for (int i = 0; i < MAX_WORKERS; i++)
                if (nursery->workers[i].pid > 0)
                        kill(nursery->workers[i].pid, SIGKILL);
        if (kill_raisers(nursery) || nursery->last_serial)
                reap_all();
        memset(nursery->workers, 0, sizeof(nursery->workers));
}

Nursery *nursery_free(Nursery *nursery) {
        if (nursery)
                end_all(nursery);
        return nursery_unref(nursery);
}

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

/* Whoever has lived longest: it is up, if any is. */
static Raiser *find_raiser(const Nursery *nursery) {
        const Raiser *best = NULL;

        for (int i = 0; i < N_RAISERS; i++) {
                const Raiser *raiser = &nursery->raisers[i];

                if (raiser->socket >= 0 && (!best || raiser->begin_ns < best->begin_ns))
                        best = raiser;
        }
        return (Raiser *)best;
}

static void tell_of_loss(Nursery *nursery) {
        uint64_t n_skipped;

        if (!find_raiser(nursery))
                log_error("both processes that start those without rights are gone: files that are new get no unwind rows until the daemon is started again");
        else if (log_limit(&nursery->limit, LOG_NS, &n_skipped))
                log_warning("a process that starts those without rights is gone: the other one takes its place");
}

/* The first one to be lost is replaced at once; those that are lost in a row, later and later. */
static void plan_successor(Nursery *nursery, uint64_t now_ns) {
        if (now_ns - nursery->lost_ns > STALL_NS)
                nursery->n_losses = 0;
        nursery->next_ns = now_ns;
        if (nursery->n_losses > 0)
                nursery->next_ns += MIN(FIRST_PAUSE_NS << MIN(nursery->n_losses - 1, 16U), LONGEST_PAUSE_NS);
        nursery->n_losses++;
        nursery->lost_ns = now_ns;
}

/* Its end is taken note of as that of a worker. */
static void lose(Nursery *nursery, Raiser *raiser) {
        Worker *place = find(nursery, 0);
        uint64_t now_ns = clock_monotonic_ns();

        for (int i = 0; i < MAX_WORKERS; i++)
                if (nursery->workers[i].raiser == raiser)
                        nursery->workers[i].raiser = NULL;
        if (raiser->pid > 0)
                kill(raiser->pid, SIGKILL);
        if (raiser->pid > 0 && place)
                *place = (Worker){ .serial = next_serial(nursery), .pid = raiser->pid, .is_ended = true };
        raiser_close(raiser);
        plan_successor(nursery, now_ns);
        tell_of_loss(nursery);
}

/* Until it is there, nobody could take the first one's place. Who has to wait too long for it goes on. */
static void wait_successor(Nursery *nursery, int timeout_ms) {
        const struct timespec pause = { .tv_nsec = NS_PER_MS };

        tend(nursery);
        for (int i = 0; i < timeout_ms && !nursery->raisers[1].is_up; i++) {
                nanosleep(&pause, NULL);
                tend(nursery);
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

/* Whoever is gone, is found to be so now. Return: 0, NURSERY_E_GONE. */
static int order(Nursery *nursery, Worker *worker, int socket) {
        Raiser *raiser;

        while ((raiser = find_raiser(nursery))) {
                *worker = (Worker){ .serial = next_serial(nursery), .raiser = raiser, .begin_ns = clock_monotonic_ns() };
                if (raiser_order(raiser, worker->serial, socket) == 0)
                        return 0;
                lose(nursery, raiser);
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
        if (!find_raiser(nursery))
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
        tend(nursery);
}

bool nursery_is_raiser(const Nursery *nursery, pid_t pid) {
        for (int i = 0; i < N_RAISERS; i++)
                if (nursery->raisers[i].pid == pid)
                        return true;
        return false;
}

/* Is it told the truth? Only a child of ours is killed, and no other child is among those that run has. */
static void note(Nursery *nursery, const NurseryReply *reply) {
        Worker *worker = reply->serial ? find(nursery, reply->serial) : NULL;

        if (!worker || worker->pid)
                return;
        if (reply->pid <= 1 || nursery_is_raiser(nursery, reply->pid) || waitpid(reply->pid, NULL, WNOHANG) != 0) {
                remember(nursery, reply->pid > 1 ? reply->pid : 0);
                *worker = (Worker){ 0 };
                return;
        }
        worker->pid = reply->pid;
        if (worker->is_ended)
                kill(worker->pid, SIGKILL);
}

static void read_replies(Nursery *nursery, Raiser *raiser) {
        bool was_up = raiser->is_up;
        NurseryReply reply;
        int r;

        while ((r = raiser_receive(raiser, &reply)) == 0)
                note(nursery, &reply);
        if (!was_up && raiser->is_up)
                nursery->n_replaced += nursery->n_forked++ > 0;         /* the first one took nobody's place */
        if (r == RAISER_E_GONE)
                lose(nursery, raiser);
}

static bool has_other(const Nursery *nursery, const Raiser *raiser) {
        for (int i = 0; i < N_RAISERS; i++)
                if (&nursery->raisers[i] != raiser && nursery->raisers[i].is_up)
                        return true;
        return false;
}

/* Somebody may have stopped it, or the machine has no time for it: then the last one is not to be lost. */
static bool is_stalled(const Nursery *nursery, const Raiser *raiser, uint64_t now_ns) {
        if (!has_other(nursery, raiser))
                return false;
        if (!raiser->is_up)
                return now_ns - raiser->begin_ns > STALL_NS;
        for (int i = 0; i < MAX_WORKERS; i++)
                if (nursery->workers[i].raiser == raiser && !nursery->workers[i].pid && now_ns - nursery->workers[i].begin_ns > STALL_NS)
                        return true;
        return false;
}

static void tend_raisers(Nursery *nursery, uint64_t now_ns) {
        for (int i = 0; i < N_RAISERS; i++) {
                Raiser *raiser = &nursery->raisers[i];

                if (raiser->socket >= 0)
                        read_replies(nursery, raiser);
                if (raiser->socket >= 0 && is_stalled(nursery, raiser, now_ns))
                        lose(nursery, raiser);
        }
}

/* Return: whether one is on its way. */
static bool raise_successor(Nursery *nursery, uint64_t now_ns) {
        Raiser *parent = find_raiser(nursery);
        bool is_coming = false;

        for (int i = 0; i < N_RAISERS && parent; i++) {
                Raiser *raiser = &nursery->raisers[i];

                is_coming |= !raiser->is_up;
                if (raiser->socket >= 0 || now_ns < nursery->next_ns)
                        continue;
                if (raiser_start_successor(raiser, parent) == 0)
                        watch(nursery, raiser);
                else
                        nursery->next_ns = now_ns + FIRST_PAUSE_NS;
        }
        return is_coming;
}

/* Return: whether there is one whose end is not seen yet. */
static bool reap(Nursery *nursery) {
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

static bool tend(Nursery *nursery) {
        uint64_t now_ns = clock_monotonic_ns();
        bool is_coming, is_left;

        tend_raisers(nursery, now_ns);
        is_coming = raise_successor(nursery, now_ns);
        is_left = reap(nursery);
        return is_coming || is_left;
}

bool nursery_tend(Nursery *nursery) {
        LOCKED(nursery);

        return tend(nursery);
}

int nursery_fd(const Nursery *nursery) {
        return nursery->epoll_fd;
}

bool nursery_is_there(const Nursery *nursery) {
        LOCKED(nursery);

        return find_raiser(nursery);
}

uint32_t nursery_take_replaced(Nursery *nursery) {
        uint32_t n;
        LOCKED(nursery);

        n = nursery->n_replaced;
        nursery->n_replaced = 0;
        return n;
}

int32_t nursery_pid(const Nursery *nursery, uint32_t serial) {
        const Worker *worker;
        const Raiser *raiser;
        LOCKED(nursery);

        worker = serial ? find(nursery, serial) : NULL;
        raiser = find_raiser(nursery);
        if (!serial)
                return raiser ? raiser->pid : 0;
        return worker ? worker->pid : 0;
}

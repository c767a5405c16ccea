/* SPDX-License-Identifier: Apache-2.0 */
#include "jail/nursery.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "jail/channel.h"
#include "jail/raiser.h"
#include "util/clock.h"
#include "util/error.h"
#include "util/file.h"
#include "util/log.h"

enum {
        MAX_WORKERS = 32,               /* those that were ended and are still there included */
        N_RAISERS = 2,
        SMALL_FILE_MAX = 4096,
        MAX_PAST = 2048,                /* those that read what compilers at run time write come and go ten times a second */
        REAP_MS = 500,
};

#define PAST_NS (10 * NS_PER_SEC)       /* then an id may be somebody else's */
#define STALL_NS (5 * NS_PER_SEC)       /* one that has not answered for so long is as good as gone */
#define FIRST_PAUSE_NS (10 * NS_PER_MS) /* after the second one in a row; doubled with each */
#define LONGEST_PAUSE_NS NS_PER_SEC
#define LOG_NS (60 * NS_PER_SEC)

typedef struct Worker {
        uint32_t serial;                /* 0 = none here */
        int32_t pid;                    /* 0 = not told yet */
        uint64_t begin_ns;
        Raiser *raiser;                 /* that was asked for it; NULL = gone: of its id nothing more will be known */
        bool is_ended;
} Worker;

typedef struct Past {
        pid_t pid;
        uint64_t end_ns;
} Past;

struct Nursery {
        pthread_mutex_t mutex;          /* held by all that is in the header, for some system calls at most */
        uint32_t n_refs;
        Raiser raisers[N_RAISERS];
        int epoll_fd;                   /* of their ends, which nobody else looks for */
        uint64_t next_ns, lost_ns;      /* no new one before that; when one was lost last */
        unsigned n_losses;              /* in a row */
        uint32_t n_forked, n_replaced;  /* in all; of them those that were not told of yet */
        LogLimit limit;
        uint32_t last_serial;
        Worker workers[MAX_WORKERS];
        Past past[MAX_PAST];            /* a ring: whose end we took note of */
        uint32_t n_past;
};

static void unlock(pthread_mutex_t **mutexp) {
        pthread_mutex_unlock(*mutexp);
}

/* Until the end of the function. */
#define LOCKED(_nursery)                                                                                       \
        _unused_ _cleanup_(unlock) pthread_mutex_t *_mutex = (pthread_mutex_t *)&(_nursery)->mutex;           \
        pthread_mutex_lock(_mutex)

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

static bool is_raiser(const Nursery *nursery, pid_t pid) {
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
        if (reply->pid <= 1 || is_raiser(nursery, reply->pid) || waitpid(reply->pid, NULL, WNOHANG) != 0) {
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

/* One that we have not been told of yet. Other children are not ours: a shell may have started some before it became us. */
static bool is_new_worker(uint32_t pid) {
        _cleanup_(freep) char *comm = NULL;
        siginfo_t info;
        char path[32];
        size_t size;

        if (waitid(P_PID, pid, &info, WEXITED | WNOHANG | WNOWAIT) < 0)
                return false;
        snprintf(path, sizeof(path), "/proc/%u/comm", pid);
        return !file_read(path, SMALL_FILE_MAX, &comm, &size) && !strcmp(comm, NURSERY_COMM "\n");
}

bool nursery_is_ours(const void *userdata, uint32_t pid) {
        uint64_t now_ns = clock_monotonic_ns();
        const Nursery *nursery = userdata;
        LOCKED(nursery);

        if (is_new_worker(pid))
                return true;
        if (is_raiser(nursery, (pid_t)pid))
                return true;
        for (int i = 0; i < MAX_WORKERS; i++)
                if (nursery->workers[i].pid == (int32_t)pid)
                        return true;
        for (uint32_t i = 0; i < MIN(nursery->n_past, (uint32_t)MAX_PAST); i++)
                if (nursery->past[i].pid == (pid_t)pid && now_ns - nursery->past[i].end_ns < PAST_NS)
                        return true;
        return false;
}

static uint64_t cpu_ns_of(pid_t pid) {
        clockid_t id;

        return pid > 0 && !clock_getcpuclockid(pid, &id) ? clock_read_ns(id) : 0;
}

uint64_t nursery_cpu_ns(const Nursery *nursery) {
        struct rusage dead = { 0 };
        uint64_t sum;
        LOCKED(nursery);

        getrusage(RUSAGE_CHILDREN, &dead);
        sum = ((uint64_t)dead.ru_utime.tv_sec + (uint64_t)dead.ru_stime.tv_sec) * NS_PER_SEC +
              ((uint64_t)dead.ru_utime.tv_usec + (uint64_t)dead.ru_stime.tv_usec) * NS_PER_US;
        for (int i = 0; i < N_RAISERS; i++)
                sum += cpu_ns_of(nursery->raisers[i].pid);
        for (int i = 0; i < MAX_WORKERS; i++)
                sum += cpu_ns_of(nursery->workers[i].pid);
        return sum;
}

/* Resident and not shared: the rest is the program's own pages, which count with the daemon. */
static uint64_t own_bytes_of(pid_t pid) {
        _cleanup_(freep) char *text = NULL;
        uint64_t resident = 0, shared = 0;
        char path[32];
        size_t size;

        if (pid <= 0)
                return 0;
        snprintf(path, sizeof(path), "/proc/%d/statm", (int)pid);
        if (file_read(path, SMALL_FILE_MAX, &text, &size) ||
            sscanf(text, "%*u %" SCNu64 " %" SCNu64, &resident, &shared) != 2 || resident < shared)
                return 0;
        return (resident - shared) * (uint64_t)sysconf(_SC_PAGESIZE);
}

uint64_t nursery_resident_bytes(const Nursery *nursery) {
        uint64_t sum = 0;
        LOCKED(nursery);

        for (int i = 0; i < N_RAISERS; i++)
                sum += own_bytes_of(nursery->raisers[i].pid);
        for (int i = 0; i < MAX_WORKERS; i++)
                sum += own_bytes_of(nursery->workers[i].pid);
        return sum;
}

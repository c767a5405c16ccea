/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Why: `run` gives up starting programs before it looks at any target (confine.h). Yet each file that a
 * target chose is read by a fresh process without rights, all day. So another process is started first,
 * which can do one thing alone: fork. Such a process is called a zygote.
 *
 * How: the first zygote is this program executed again, with an empty environment and one socket. It gives
 * up all rights (sandbox.h), says hello, and forks the second. All have the daemon as their parent
 * (CLONE_PARENT):
 *
 *     spanprof run ──┬── zygote 1      asked for workers, since it has lived longest
 *                    ├── zygote 2      forked by zygote 1, waits
 *                    ├── worker        forked by zygote 1, reads one file, ends
 *                    └── worker
 *
 * An id of our own child stays its own until we have taken note of its end (waitpid), so we never kill
 * another process. What goes over a zygote's socket, one packet each (ZygoteReply, zygote.c,
 * zygote-main.c):
 *
 *     daemon ──▶ zygote 1     serial 7, one end of a socket        fork a worker, and give it this
 *     daemon ◀── zygote 1     serial 7, pid 4711                   it is 4711
 *     daemon ──▶ zygote 1     serial 0, one end of a socket        fork a zygote, and give it this
 *     daemon ◀── zygote 2     serial 0, pid 4712                   hello; on that other socket
 *
 * Why two: a zygote cannot be started again, since nothing can. With one, each death of it (the kernel out
 * of memory, a kill by name) would be a restart of the daemon: all unwind tables are read once more, and
 * samples are lost meanwhile. With two, the one that is left forks the next within milliseconds, and
 * nothing is lost. A zygote that has not answered for 5 s is as good as gone. When both die at once the
 * daemon ends, and is restarted: it must not read hostile files with rights of its own.
 *
 * Any thread may call; one mutex holds it all together, for some system calls at most.
 */
#include "core/base/sandbox/zygotes.h"

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

#include "core/base/file/file.h"
#include "core/base/sandbox/channel.h"
#include "core/base/sandbox/zygote.h"
#include "core/base/util/clock.h"
#include "core/base/util/error.h"
#include "core/base/util/log.h"

enum {
        /* ended workers that are still there count too, and may be most of them */
        MAX_WORKERS = 128,
        N_ZYGOTES = 2,
        /* workers that read what compilers at run time write come and go ten times a second */
        MAX_ENDED = 2048,
        REAP_MS = 500,
        SMALL_FILE_MAX = 4096,
};

#define STALL_NS (5 * NS_PER_SEC)       /* a zygote that has not answered for so long is as good as gone */
#define FIRST_PAUSE_NS (10 * NS_PER_MS) /* after the second loss in a row; doubled with each */
#define LONGEST_PAUSE_NS NS_PER_SEC
#define LOG_NS (60 * NS_PER_SEC)
#define REMEMBER_NS (10 * NS_PER_SEC)   /* then another process may have the id */

typedef struct Worker {
        uint32_t serial;                /* 0 = none here */
        int32_t pid;                    /* 0 = not told yet */
        uint64_t begin_ns;
        /* the one that was asked for it; NULL = that is gone, and the worker's id will not be known */
        Zygote *zygote;
        bool is_ended;                  /* the worker is not wanted any more, or has ended */
} Worker;

typedef struct EndedWorker {
        pid_t pid;
        uint64_t end_ns;
} EndedWorker;

struct Zygotes {
        pthread_mutex_t mutex;
        uint32_t n_refs;
        Zygote zygotes[N_ZYGOTES];
        int epoll_fd;                   /* descriptors that tell of their ends */
        uint64_t next_ns, lost_ns;      /* no new one before that; when one was lost last */
        unsigned n_losses;              /* in a row */
        uint32_t n_forked, n_replaced;  /* in all; of them those that were not told of yet */
        LogLimit limit;
        uint32_t last_serial;
        Worker workers[MAX_WORKERS];
        EndedWorker ended[MAX_ENDED];   /* a ring: whose end we took note of */
        uint32_t n_ended;               /* in all */
};

static inline void zygotes_unlock(pthread_mutex_t **mutexp) {
        pthread_mutex_unlock(*mutexp);
}

/* Until the end of the function. All that is static below is for those who hold the lock. */
#define LOCKED(_zygotes) \
        _unused_ _cleanup_(zygotes_unlock) pthread_mutex_t *_mutex = (pthread_mutex_t *)&(_zygotes)->mutex; \
        pthread_mutex_lock(_mutex)

/* ---- workers: which were asked for, which came, which have ended ---- */

/* For a while, an ended worker is still known as ours. */
static void remember_end(Zygotes *zygotes, pid_t pid) {
        if (pid > 0)
                zygotes->ended[zygotes->n_ended++ % MAX_ENDED] = (EndedWorker){ pid, clock_monotonic_ns() };
}

static uint32_t next_serial(Zygotes *zygotes) {
        zygotes->last_serial = zygotes->last_serial + 1 ?: 1;
        return zygotes->last_serial;
}

/* @serial: 0 = a free place. NULL = there is none. */
static Worker *find_worker(const Zygotes *zygotes, uint32_t serial) {
        for (int i = 0; i < MAX_WORKERS; i++)
                if (zygotes->workers[i].serial == serial)
                        return (Worker *)&zygotes->workers[i];
        return NULL;
}

/* The zygote that has lived longest: it is up, if any is. NULL = there is none. */
static Zygote *find_zygote(const Zygotes *zygotes) {
        const Zygote *best = NULL;

        for (int i = 0; i < N_ZYGOTES; i++) {
                const Zygote *zygote = &zygotes->zygotes[i];

                if (zygote->socket >= 0 && (!best || zygote->begin_ns < best->begin_ns))
                        best = zygote;
        }
        return (Zygote *)best;
}

static bool is_zygote(const Zygotes *zygotes, pid_t pid) {
        for (int i = 0; i < N_ZYGOTES; i++)
                if (zygotes->zygotes[i].pid == pid)
                        return true;
        return false;
}

/*
 * A zygote says what it has forked. Only a living child of ours is believed, since it will be killed by
 * that id; other children of ours are none of the processes that `run` has.
 */
static void note_worker(Zygotes *zygotes, const ZygoteReply *reply) {
        Worker *worker = reply->serial ? find_worker(zygotes, reply->serial) : NULL;

        if (!worker || worker->pid)
                return;
        if (reply->pid <= 1 || is_zygote(zygotes, reply->pid) || waitpid(reply->pid, NULL, WNOHANG) != 0) {
                remember_end(zygotes, reply->pid > 1 ? reply->pid : 0);
                *worker = (Worker){ 0 };
                return;
        }
        worker->pid = reply->pid;
        if (worker->is_ended)
                kill(worker->pid, SIGKILL);
}

/*
 * A lost zygote tells nothing more: workers that it was asked for have no id. Its own end is awaited as
 * that of a worker.
 */
static void forget_zygote(Zygotes *zygotes, const Zygote *zygote) {
        Worker *place = find_worker(zygotes, 0);

        for (int i = 0; i < MAX_WORKERS; i++)
                if (zygotes->workers[i].zygote == zygote)
                        zygotes->workers[i].zygote = NULL;
        if (zygote->pid > 0 && place)
                *place = (Worker){ .serial = next_serial(zygotes), .pid = zygote->pid, .is_ended = true };
}

/* Whether @zygote was asked for a worker before @time_ns and has not answered. */
static bool is_awaited_since(const Zygotes *zygotes, const Zygote *zygote, uint64_t time_ns) {
        for (int i = 0; i < MAX_WORKERS; i++)
                if (zygotes->workers[i].zygote == zygote && !zygotes->workers[i].pid &&
                    zygotes->workers[i].begin_ns < time_ns)
                        return true;
        return false;
}

/* Return: whether there is an ended worker whose id the kernel still keeps for us. */
static bool reap_workers(Zygotes *zygotes) {
        bool is_left = false;

        for (int i = 0; i < MAX_WORKERS; i++) {
                Worker *worker = &zygotes->workers[i];

                if (worker->is_ended &&
                    (worker->pid ? waitpid(worker->pid, NULL, WNOHANG) != 0 : !worker->zygote)) {
                        remember_end(zygotes, worker->pid);
                        *worker = (Worker){ 0 };
                }
                is_left |= worker->is_ended;
        }
        return is_left;
}

static void kill_workers(Zygotes *zygotes) {
        for (int i = 0; i < MAX_WORKERS; i++)
                if (zygotes->workers[i].pid > 0)
                        kill(zygotes->workers[i].pid, SIGKILL);
        memset(zygotes->workers, 0, sizeof(zygotes->workers));
}

/* ---- zygotes: which live, and which is replaced ---- */

/* For nothing but its end. */
static void watch_zygote(Zygotes *zygotes, const Zygote *zygote) {
        struct epoll_event event = { .events = 0 };     /* EPOLLHUP always is */

        epoll_ctl(zygotes->epoll_fd, EPOLL_CTL_ADD, zygote->socket, &event);
}

/* Return: whether there was any. */
static bool kill_zygotes(Zygotes *zygotes) {
        bool were_there = false;

        for (int i = 0; i < N_ZYGOTES; i++) {
                were_there |= zygotes->zygotes[i].socket >= 0;
                if (zygotes->zygotes[i].pid > 0)
                        kill(zygotes->zygotes[i].pid, SIGKILL);
                zygote_close(&zygotes->zygotes[i]);
        }
        return were_there;
}

static void tell_of_loss(Zygotes *zygotes) {
        uint64_t n_skipped;

        if (!find_zygote(zygotes))
                log_error(
                        "both processes that start those without rights are gone: none can be had any more");
        else if (log_limit(&zygotes->limit, LOG_NS, &n_skipped))
                log_warning(
                        "a process that starts those without rights is gone: the other one takes its place");
}

/* The first one to be lost is replaced at once; others that are lost in a row, later and later. */
static void plan_successor(Zygotes *zygotes, uint64_t now_ns) {
        if (now_ns - zygotes->lost_ns > STALL_NS)
                zygotes->n_losses = 0;
        zygotes->next_ns = now_ns;
        if (zygotes->n_losses > 0)
                zygotes->next_ns += MIN(FIRST_PAUSE_NS << MIN(zygotes->n_losses - 1, 16U), LONGEST_PAUSE_NS);
        zygotes->n_losses++;
        zygotes->lost_ns = now_ns;
}

static void lose_zygote(Zygotes *zygotes, Zygote *zygote) {
        uint64_t now_ns = clock_monotonic_ns();

        if (zygote->pid > 0)
                kill(zygote->pid, SIGKILL);
        forget_zygote(zygotes, zygote);
        zygote_close(zygote);
        plan_successor(zygotes, now_ns);
        tell_of_loss(zygotes);
}

static void read_replies(Zygotes *zygotes, Zygote *zygote) {
        bool was_up = zygote->is_up;
        ZygoteReply reply;
        int r;

        while ((r = zygote_receive(zygote, &reply)) == 0)
                note_worker(zygotes, &reply);
        if (!was_up && zygote->is_up)
                /* the first one that was forked has replaced none */
                zygotes->n_replaced += zygotes->n_forked++ > 0;
        if (r == ZYGOTE_SOCKET_E_GONE)
                lose_zygote(zygotes, zygote);
}

static bool has_other(const Zygotes *zygotes, const Zygote *zygote) {
        for (int i = 0; i < N_ZYGOTES; i++)
                if (&zygotes->zygotes[i] != zygote && zygotes->zygotes[i].is_up)
                        return true;
        return false;
}

/* A stalled zygote was stopped, or the machine has no time for it. The last one is kept all the same. */
static bool is_stalled(const Zygotes *zygotes, const Zygote *zygote, uint64_t now_ns) {
        if (!has_other(zygotes, zygote))
                return false;
        if (!zygote->is_up)
                return now_ns - zygote->begin_ns > STALL_NS;
        return is_awaited_since(zygotes, zygote, now_ns - STALL_NS);
}

/* Return: whether one is on its way. */
static bool fork_successor(Zygotes *zygotes, uint64_t now_ns) {
        Zygote *parent = find_zygote(zygotes);
        bool is_coming = false;

        for (int i = 0; i < N_ZYGOTES && parent; i++) {
                Zygote *zygote = &zygotes->zygotes[i];

                is_coming |= !zygote->is_up;
                if (zygote->socket >= 0 || now_ns < zygotes->next_ns)
                        continue;
                if (zygote_start_successor(zygote, parent) == 0)
                        watch_zygote(zygotes, zygote);
                else
                        zygotes->next_ns = now_ns + FIRST_PAUSE_NS;
        }
        return is_coming;
}

/*
 * Reads what zygotes say, loses those that are gone or stalled, and has others forked. Return: whether one
 * is on its way.
 */
static bool tend_zygotes(Zygotes *zygotes) {
        uint64_t now_ns = clock_monotonic_ns();

        for (int i = 0; i < N_ZYGOTES; i++) {
                Zygote *zygote = &zygotes->zygotes[i];

                if (zygote->socket >= 0)
                        read_replies(zygotes, zygote);
                if (zygote->socket >= 0 && is_stalled(zygotes, zygote, now_ns))
                        lose_zygote(zygotes, zygote);
        }
        return fork_successor(zygotes, now_ns);
}

static bool tend(Zygotes *zygotes) {
        bool is_coming = tend_zygotes(zygotes), is_left = reap_workers(zygotes);

        return is_coming || is_left;
}

/* ---- the beginning and the end ---- */

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
        watch_zygote(zygotes, &zygotes->zygotes[0]);
        *zygotesp = take(zygotes);
        return 0;
}

/*
 * Workers that were forked last may not have been told of. They end with their socket, and we have no other
 * children. Those that do not end soon are left to the init process.
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

/* Holders of other references find that there are no zygotes any more. */
static void end_all(Zygotes *zygotes) {
        LOCKED(zygotes);

        if (zygotes->zygotes[0].is_up)
                tend(zygotes);
        kill_workers(zygotes);
        if (kill_zygotes(zygotes) || zygotes->last_serial)
                reap_all();
}

Zygotes *zygotes_free(Zygotes *zygotes) {
        if (zygotes)
                end_all(zygotes);
        return zygotes_unref(zygotes);
}

/* Until the second one is up, none could replace the first. When that takes too long, we go on. */
static void wait_successor(Zygotes *zygotes, int timeout_ms) {
        const struct timespec pause = { .tv_nsec = NS_PER_MS };

        tend(zygotes);
        for (int i = 0; i < timeout_ms && !zygotes->zygotes[1].is_up; i++) {
                nanosleep(&pause, NULL);
                tend(zygotes);
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

bool zygotes_tend(Zygotes *zygotes) {
        LOCKED(zygotes);

        return tend(zygotes);
}

int zygotes_fd(const Zygotes *zygotes) {
        return zygotes->epoll_fd;
}

bool zygotes_is_there(const Zygotes *zygotes) {
        LOCKED(zygotes);

        return find_zygote(zygotes);
}

uint32_t zygotes_take_replaced(Zygotes *zygotes) {
        uint32_t n;
        LOCKED(zygotes);

        n = zygotes->n_replaced;
        zygotes->n_replaced = 0;
        return n;
}

/* ---- workers, for their users ---- */

/* A zygote that is gone is found out here. Return: 0, ZYGOTE_E_GONE. */
static int order_worker(Zygotes *zygotes, Worker *worker, int socket) {
        Zygote *zygote;

        while ((zygote = find_zygote(zygotes))) {
                *worker = (Worker){ .serial = next_serial(zygotes),
                                    .zygote = zygote,
                                    .begin_ns = clock_monotonic_ns() };
                if (zygote_order(zygote, worker->serial, socket) == 0)
                        return 0;
                lose_zygote(zygotes, zygote);
        }
        *worker = (Worker){ 0 };
        return ZYGOTE_E_GONE;
}

int zygotes_spawn(Zygotes *zygotes, int *socketp, uint32_t *serialp) {
        _cleanup_(closep) int near = -1, far = -1;
        int ends[2], r;
        Worker *worker;
        LOCKED(zygotes);

        worker = find_worker(zygotes, 0);
        if (!find_zygote(zygotes))
                return ZYGOTE_E_GONE;
        if (!worker)
                return ZYGOTE_E_FULL;
        if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) < 0)
                return ZYGOTE_E_FAILED;
        near = ends[0];
        far = ends[1];
        if (fcntl(near, F_SETFL, O_NONBLOCK) < 0)
                return ZYGOTE_E_FAILED;
        r = order_worker(zygotes, worker, far);
        if (r)
                return r;
        *socketp = take_fd(near);
        *serialp = worker->serial;
        return 0;
}

bool zygotes_never_came(const Zygotes *zygotes, uint32_t serial, bool *is_openp) {
        const Worker *worker;
        LOCKED(zygotes);

        worker = serial ? find_worker(zygotes, serial) : NULL;
        *is_openp = worker && !worker->pid && worker->zygote;
        return worker && !worker->pid;
}

void zygotes_end(Zygotes *zygotes, uint32_t serial) {
        Worker *worker;
        LOCKED(zygotes);

        worker = serial ? find_worker(zygotes, serial) : NULL;
        if (!worker || worker->is_ended)
                return;
        worker->is_ended = true;
        if (worker->pid > 0)
                kill(worker->pid, SIGKILL);
        tend(zygotes);
}

bool zygotes_has(const Zygotes *zygotes, uint32_t serial) {
        LOCKED(zygotes);

        return serial && find_worker(zygotes, serial);
}

int32_t zygotes_pid(const Zygotes *zygotes, uint32_t serial) {
        const Worker *worker;
        const Zygote *zygote;
        LOCKED(zygotes);

        worker = serial ? find_worker(zygotes, serial) : NULL;
        zygote = find_zygote(zygotes);
        if (!serial)
                return zygote ? zygote->pid : 0;
        return worker ? worker->pid : 0;
}

/* ---- which processes of the machine are ours, and what they take ---- */

/*
 * A worker that we have not been told of yet. Other children are not ours: a shell may have started some
 * before it became us.
 */
static bool is_new_worker(uint32_t pid) {
        _cleanup_(freep) char *comm = NULL;
        siginfo_t info;
        char path[32];
        size_t size;

        if (waitid(P_PID, pid, &info, WEXITED | WNOHANG | WNOWAIT) < 0)
                return false;
        snprintf(path, sizeof(path), "/proc/%u/comm", pid);
        return !file_read(path, SMALL_FILE_MAX, &comm, &size) && !strcmp(comm, ZYGOTE_COMM "\n");
}

bool zygotes_is_ours(const void *userdata, uint32_t pid, const char *comm) {
        uint64_t now_ns = clock_monotonic_ns();
        const Zygotes *zygotes = userdata;
        LOCKED(zygotes);

        if ((!comm || !strcmp(comm, ZYGOTE_COMM)) && is_new_worker(pid))
                return true;
        if (is_zygote(zygotes, (pid_t)pid))
                return true;
        for (int i = 0; i < MAX_WORKERS; i++)
                if (zygotes->workers[i].pid == (int32_t)pid)
                        return true;
        for (uint32_t i = 0; i < MIN(zygotes->n_ended, (uint32_t)MAX_ENDED); i++)
                if (zygotes->ended[i].pid == (pid_t)pid && now_ns - zygotes->ended[i].end_ns < REMEMBER_NS)
                        return true;
        return false;
}

static uint64_t cpu_ns_of(pid_t pid) {
        clockid_t id;

        return pid > 0 && !clock_getcpuclockid(pid, &id) ? clock_read_ns(id) : 0;
}

uint64_t zygotes_worker_cpu_ns(const Zygotes *zygotes, uint32_t serial) {
        const Worker *worker;
        LOCKED(zygotes);

        worker = serial ? find_worker(zygotes, serial) : NULL;
        return worker ? cpu_ns_of(worker->pid) : 0;
}

uint64_t zygotes_cpu_ns(const Zygotes *zygotes) {
        struct rusage dead = { 0 };
        uint64_t sum;
        LOCKED(zygotes);

        getrusage(RUSAGE_CHILDREN, &dead);
        sum = ((uint64_t)dead.ru_utime.tv_sec + (uint64_t)dead.ru_stime.tv_sec) * NS_PER_SEC +
              ((uint64_t)dead.ru_utime.tv_usec + (uint64_t)dead.ru_stime.tv_usec) * NS_PER_US;
        for (int i = 0; i < N_ZYGOTES; i++)
                sum += cpu_ns_of(zygotes->zygotes[i].pid);
        for (int i = 0; i < MAX_WORKERS; i++)
                sum += cpu_ns_of(zygotes->workers[i].pid);
        return sum;
}

/* Resident bytes that are not shared: shared ones are the program itself, and count with the daemon. */
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

uint64_t zygotes_resident_bytes(const Zygotes *zygotes) {
        uint64_t sum = 0;
        LOCKED(zygotes);

        for (int i = 0; i < N_ZYGOTES; i++)
                sum += own_bytes_of(zygotes->zygotes[i].pid);
        for (int i = 0; i < MAX_WORKERS; i++)
                sum += own_bytes_of(zygotes->workers[i].pid);
        return sum;
}

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
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "jail/channel.h"
#include "util/clock.h"
#include "util/error.h"
#include "util/file.h"
#include "util/log.h"

enum {
        MAX_WORKERS = 32,               /* those that were ended and are still there included */
        SOCKET_FD = 3,                  /* in the other process */
        SMALL_FILE_MAX = 4096,
        MAX_PAST = 256,
        REAP_MS = 500,
};

#define PAST_NS (10 * NS_PER_SEC)       /* then an id may be somebody else's */

typedef struct Worker {
        uint32_t serial;                /* 0 = none here */
        int32_t pid;                    /* 0 = not told yet */
        bool is_ended;
} Worker;

typedef struct Past {
        pid_t pid;
        uint64_t end_ns;
} Past;

struct Nursery {
        pthread_mutex_t mutex;          /* held by all that is in the header, for some system calls at most */
        uint32_t n_refs;
        int socket;                     /* -1 = it is gone */
        pid_t pid;
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

/*
 * Between fork() and exec(): only what is safe in a signal handler. No descriptor but the socket, no environment: the
 * daemon's may hold what a collector wants to see.
 */
static _Noreturn void become_nursery(int socket) {
        static char *const arguments[] = { (char *)NURSERY_NAME, NULL }, *const environment[] = { NULL };
        int null = open("/dev/null", O_RDWR | O_CLOEXEC), moved = fcntl(socket, F_DUPFD_CLOEXEC, SOCKET_FD + 1);

        for (int fd = 0; fd < SOCKET_FD; fd++)
                if (dup2(null, fd) < 0)         /* there is no such device */
                        close(fd);
        if (dup2(moved, SOCKET_FD) == SOCKET_FD && syscall(SYS_close_range, SOCKET_FD + 1, ~0u, 0) == 0)
                execve("/proc/self/exe", arguments, environment);
        _exit(1);
}

int nursery_new(Nursery **nurseryp) {
        _cleanup_(nursery_freep) Nursery *nursery = calloc(1, sizeof(*nursery));
        int ends[2];

        if (!nursery)
                return error_origin(-ENOMEM);
        pthread_mutex_init(&nursery->mutex, NULL);
        nursery->n_refs = 1;
        nursery->socket = -1;
        if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) < 0)
                return error_origin(-errno);
        nursery->socket = ends[0];
        nursery->pid = fork();
        if (nursery->pid == 0)
                become_nursery(ends[1]);
        close(ends[1]);
        if (nursery->pid < 0)
                return error_origin(-errno);
        *nurseryp = take(nursery);
        return 0;
}

/*
 * Those that the nursery forked last may not have been told of: they end with their socket, and we have no other
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
        free(nursery);
        return NULL;
}

static bool tend(Nursery *nursery);

/* Whoever has another reference finds that it is gone. */
static void end_all(Nursery *nursery) {
        LOCKED(nursery);

        tend(nursery);
        closep(&nursery->socket);
        nursery->socket = -1;
        for (int i = 0; i < MAX_WORKERS; i++)
                if (nursery->workers[i].pid > 0)
                        kill(nursery->workers[i].pid, SIGKILL);
        if (nursery->pid > 0) {
                kill(nursery->pid, SIGKILL);
                reap_all();
        }
        nursery->pid = 0;
        memset(nursery->workers, 0, sizeof(nursery->workers));
}

Nursery *nursery_free(Nursery *nursery) {
        if (nursery)
                end_all(nursery);
        return nursery_unref(nursery);
}

static void remember(Nursery *nursery, pid_t pid) {
        nursery->past[nursery->n_past++ % MAX_PAST] = (Past){ pid, clock_monotonic_ns() };
}

static void lose(Nursery *nursery) {
        log_error("the process that starts those without rights is gone: files that are new get no unwind rows until the daemon is started again");
        closep(&nursery->socket);
        nursery->socket = -1;
}

int nursery_wait(Nursery *nursery, int timeout_ms) {
        struct pollfd fd = { .fd = nursery->socket, .events = POLLIN };
        NurseryReply hello = { .serial = 1 };

        if (nursery->socket < 0)
                return -ESRCH;
        if (poll(&fd, 1, timeout_ms) != 1)
                return -ETIMEDOUT;
        if (channel_receive(nursery->socket, &hello, sizeof(hello), NULL, MSG_DONTWAIT) != sizeof(hello) || hello.serial)
                return -ESRCH;
        return hello.pid;
}

static Worker *find(const Nursery *nursery, uint32_t serial) {
        for (int i = 0; i < MAX_WORKERS; i++)
                if (nursery->workers[i].serial == serial)
                        return (Worker *)&nursery->workers[i];
        return NULL;
}

int nursery_spawn(Nursery *nursery, int *socketp, uint32_t *serialp) {
        _cleanup_(closep) int near = -1, far = -1;
        int ends[2], r;
        Worker *worker;
        LOCKED(nursery);

        worker = find(nursery, 0);
        if (nursery->socket < 0)
                return NURSERY_E_GONE;
        if (!worker)
                return NURSERY_E_FULL;
        if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) < 0)
                return NURSERY_E_FAILED;
        near = ends[0];
        far = ends[1];
        if (fcntl(near, F_SETFL, O_NONBLOCK) < 0)
                return NURSERY_E_FAILED;
        nursery->last_serial = nursery->last_serial + 1 ?: 1;
        r = channel_send(nursery->socket, &nursery->last_serial, sizeof(nursery->last_serial), far);
        if (r) {
                lose(nursery);
                return NURSERY_E_GONE;
        }
        *worker = (Worker){ .serial = nursery->last_serial };
        *socketp = take_fd(near);
        *serialp = worker->serial;
        return 0;
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

/* Is it told the truth? Only a child of ours is killed, and no other child is among those that run has. */
static void note(Nursery *nursery, const NurseryReply *reply) {
        Worker *worker = reply->serial ? find(nursery, reply->serial) : NULL;

        if (!worker || worker->pid)
                return;
        if (reply->pid <= 1 || reply->pid == nursery->pid || waitpid(reply->pid, NULL, WNOHANG) != 0) {
                if (reply->pid > 1)
                        remember(nursery, reply->pid);
                *worker = (Worker){ 0 };
                return;
        }
        worker->pid = reply->pid;
        if (worker->is_ended)
                kill(worker->pid, SIGKILL);
}

static void read_replies(Nursery *nursery) {
        NurseryReply reply;
        ssize_t n;

        while (nursery->socket >= 0) {
                n = channel_receive(nursery->socket, &reply, sizeof(reply), NULL, MSG_DONTWAIT);
                if (n == -EAGAIN)
                        return;
                if (n == sizeof(reply))
                        note(nursery, &reply);
                else
                        lose(nursery);
        }
}

static bool tend(Nursery *nursery) {
        bool is_left = false;

        read_replies(nursery);
        for (int i = 0; i < MAX_WORKERS; i++) {
                Worker *worker = &nursery->workers[i];

                /* Of one that the nursery did not tell of before it went, nothing will be known. */
                if (worker->is_ended && (worker->pid ? waitpid(worker->pid, NULL, WNOHANG) != 0 : nursery->socket < 0)) {
                        remember(nursery, worker->pid);
                        *worker = (Worker){ 0 };
                }
                is_left |= worker->is_ended;
        }
        return is_left;
}

bool nursery_tend(Nursery *nursery) {
        LOCKED(nursery);

        return tend(nursery);
}

int32_t nursery_pid(const Nursery *nursery, uint32_t serial) {
        const Worker *worker;
        LOCKED(nursery);

        worker = serial ? find(nursery, serial) : NULL;
        if (!serial)
                return nursery->socket >= 0 ? nursery->pid : 0;
        return worker ? worker->pid : 0;
}

/* One that the nursery has not told of yet. Other children are not ours: a shell may have started some before it became us. */
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
        if ((pid_t)pid == nursery->pid)
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
              ((uint64_t)dead.ru_utime.tv_usec + (uint64_t)dead.ru_stime.tv_usec) * NS_PER_US + cpu_ns_of(nursery->pid);
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
        uint64_t sum;
        LOCKED(nursery);

        sum = own_bytes_of(nursery->pid);
        for (int i = 0; i < MAX_WORKERS; i++)
                sum += own_bytes_of(nursery->workers[i].pid);
        return sum;
}

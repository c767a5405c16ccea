/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Each call on a file in FUSE may wait for a server for ever, close() included, since that sends what was
 * written. Neither a thread nor a descriptor of ours may be in such a call: a thread that hangs keeps its
 * process from ending. So the calls are made by processes that nobody waits for:
 *
 *     daemon ──▶ reader       a request with a descriptor by O_PATH, which asks no server
 *                  └ fork ──▶ copier: open, read, write into a memfd of the reader's, close
 *     daemon ◀─────────────── bytes so far, at the end the memfd, sealed
 *
 * A copier that is not wanted any more is killed. One whose request the server has taken ends only with that
 * server or its mount. It keeps this one file, and one of a few places, but no bytes: the reader empties its
 * memfd and seals that against growth.
 */
#include "core/base/sandbox/remote-reader.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "core/base/file/file.h"
#include "core/base/sandbox/channel.h"
#include "core/base/sandbox/sandbox.h"
#include "core/base/util/clock.h"
#include "core/base/util/error.h"

enum {
        SOCKET = 0,                     /* descriptor of the reader, which has no other for long */
        PIECE = 128 << 10,              /* bytes after which progress is told */
        NICE = 5,                       /* as workers have it */
};

struct RemoteReader {
        pid_t pid;
        int socket;                     /* keeps messages apart: copiers answer by the same one */
};

/* ---- a copier ---- */

/* A server may give a byte at a time. */
static int read_piece(int from, char *piece, size_t size, uint64_t offset) {
        for (size_t at = 0; at < size;) {
                ssize_t n = pread(from, piece + at, size - at, (off_t)(offset + at));

                if (n <= 0)
                        return n < 0 ? -errno : -EIO;   /* the file has become shorter */
                at += (size_t)n;
        }
        return 0;
}

static int copy_pieces(const RemoteRequest *request, int from, int to, uint64_t size) {
        static char piece[PIECE];
        RemoteReply reply = { .serial = request->serial, .result = REMOTE_READER_GOES_ON };

        while (reply.size < size) {
                size_t n = MIN(sizeof(piece), size - reply.size);
                int r = read_piece(from, piece, n, reply.size);

                if (!r)
                        r = file_write(to, piece, n);
                reply.size += n;
                if (!r)
                        r = channel_send(SOCKET, &reply, sizeof(reply), -1);
                if (r)
                        return r;
        }
        return 0;
}

/* As that user alone if it has one, since a FUSE need not let even root in. */
static int open_file(const RemoteRequest *request, int path_fd) {
        char link[32];
        int fd;

        snprintf(link, sizeof(link), "/proc/self/fd/%d", path_fd);
        fd = open(link, O_RDONLY | O_NONBLOCK | O_CLOEXEC);
        if (fd >= 0 || errno != EACCES || !request->has_user)
                return fd < 0 ? -errno : fd;
        if (syscall(SYS_setresgid, request->group, request->group, request->group) < 0 ||
            syscall(SYS_setresuid, request->user, request->user, request->user) < 0)
                return -EACCES;
        prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0);      /* the change of user has taken it back */
        fd = open(link, O_RDONLY | O_NONBLOCK | O_CLOEXEC);
        return fd < 0 ? -errno : fd;
}

static int64_t time_ns(const struct timespec *time) {
        return time->tv_sec * (int64_t)NS_PER_SEC + time->tv_nsec;
}

static int copy_file(const RemoteRequest *request, int path_fd, int to, RemoteReply *reply) {
        _cleanup_(closep) int from = open_file(request, path_fd);
        struct stat st;

        if (from < 0)
                return from;
        if (fstat(from, &st) < 0)
                return -errno;
        if (!S_ISREG(st.st_mode) || st.st_size <= 0 || (uint64_t)st.st_size > request->max_bytes)
                return -EFBIG;
        reply->size = (uint64_t)st.st_size;
        reply->mtime_ns = time_ns(&st.st_mtim);
        reply->ctime_ns = time_ns(&st.st_ctim);
        reply->owner = st.st_uid;
        return copy_pieces(request, from, to, reply->size);
}

/* The server has no say any more when the copy is sealed: the file is closed, and what is left is the end. */
static _Noreturn void copy(const RemoteRequest *request, int path_fd, int to) {
        RemoteReply reply = { .serial = request->serial };

        reply.result = copy_file(request, path_fd, to, &reply);
        if (!reply.result &&
            fcntl(to, F_ADD_SEALS, F_SEAL_WRITE | F_SEAL_GROW | F_SEAL_SHRINK | F_SEAL_SEAL) < 0)
                reply.result = -errno;
        channel_send(SOCKET, &reply, sizeof(reply), reply.result ? -1 : to);
        _exit(0);
}

/* ---- the reader ---- */

typedef struct Copier {
        pid_t pid;                      /* 0 = the place is free */
        RemoteRequest request;
        int fd;                         /* the memfd; 0 = none, since SOCKET has that number */
} Copier;

static void close_copy(Copier *copier) {
        if (copier->fd)
                close(copier->fd);
        copier->fd = 0;
}

/* Return: whether there are others still. */
static bool reap(Copier copiers[static REMOTE_READER_MAX_COPIERS]) {
        bool has_more = false;

        for (int i = 0; i < REMOTE_READER_MAX_COPIERS; i++) {
                if (copiers[i].pid && waitpid(copiers[i].pid, NULL, WNOHANG) == copiers[i].pid) {
                        close_copy(&copiers[i]);
                        copiers[i].pid = 0;
                }
                has_more |= copiers[i].pid != 0;
        }
        return has_more;
}

/* Copiers that have ended are gone a second later, also if nobody asks. */
static void await_request(Copier copiers[static REMOTE_READER_MAX_COPIERS]) {
        struct pollfd ready = { .fd = SOCKET, .events = POLLIN };

        while (reap(copiers) && poll(&ready, 1, 1000) == 0)
                ;
}

/* Empties the copy, too. One that is whole is sealed against that, and its copier ends by itself. */
static void kill_copier(Copier copiers[static REMOTE_READER_MAX_COPIERS], uint32_t serial) {
        for (int i = 0; i < REMOTE_READER_MAX_COPIERS; i++) {
                Copier *copier = &copiers[i];

                if (!copier->pid || !copier->fd || copier->request.serial != serial)
                        continue;
                if (!fcntl(copier->fd, F_ADD_SEALS, F_SEAL_GROW) && !ftruncate(copier->fd, 0))
                        kill(copier->pid, SIGKILL);
                close_copy(copier);
        }
}

/* A free place, unless the request's mount or user has its share of them, or as many as are free. */
static Copier *find_place(Copier copiers[static REMOTE_READER_MAX_COPIERS], const RemoteRequest *request) {
        Copier *place = NULL;
        int n = 0, n_free = 0;

        for (int i = 0; i < REMOTE_READER_MAX_COPIERS; i++)
                if (!copiers[i].pid) {
                        place = &copiers[i];
                        n_free++;
                } else
                        n += remote_request_shares(&copiers[i].request, request);
        return n < MIN(REMOTE_READER_SHARE, n_free) ? place : NULL;
}

/* A copier that hangs keeps no bytes of others. */
static _Noreturn void be_copier(Copier copiers[static REMOTE_READER_MAX_COPIERS],
                                const RemoteRequest *request, int path_fd, int to) {
        prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0);
        for (int i = 0; i < REMOTE_READER_MAX_COPIERS; i++)
                close_copy(&copiers[i]);
        copy(request, path_fd, to);
}

/* Without the library's fork(), which has more to do than the filter allows. */
static int begin(Copier copiers[static REMOTE_READER_MAX_COPIERS], const RemoteRequest *request,
                 int path_fd) {
        Copier *copier = find_place(copiers, request);
        pid_t pid;
        int to;

        if (!copier)
                return -EBUSY;
        to = memfd_create("spanprof", MFD_CLOEXEC | MFD_ALLOW_SEALING);
        if (to < 0)
                return -errno;
        pid = (pid_t)syscall(SYS_clone, SIGCHLD, NULL, NULL, NULL, NULL);
        if (pid == 0)
                be_copier(copiers, request, path_fd, to);
        if (pid < 0) {
                close(to);
                return -EAGAIN;
        }
        *copier = (Copier){ pid, *request, to };
        return 0;
}

static void answer(void) {
        Copier copiers[REMOTE_READER_MAX_COPIERS] = { 0 };
        RemoteRequest request;
        int fd;

        for (;;) {
                RemoteReply reply = { 0 };

                await_request(copiers);
                if (channel_receive(SOCKET, &request, sizeof(request), &fd, 0) != sizeof(request))
                        return;
                reap(copiers);
                reply.serial = request.serial;
                if (fd < 0)
                        kill_copier(copiers, request.serial);
                else
                        reply.result = begin(copiers, &request, fd);
                closep(&fd);
                if (reply.result && channel_send(SOCKET, &reply, sizeof(reply), -1))
                        return;
        }
}

/* All other descriptors would stay open through it. */
static _Noreturn void serve(int socket) {
        sigset_t all;

        sigfillset(&all);
        sigprocmask(SIG_SETMASK, &all, NULL);
        signal(SIGCHLD, SIG_DFL);       /* ignored, a copier would end before its place is known to be free */
        prctl(PR_SET_NAME, REMOTE_READER_COMM, 0, 0, 0);
        setpriority(PRIO_PROCESS, 0, getpriority(PRIO_PROCESS, 0) + NICE);
        if ((socket != SOCKET && dup2(socket, SOCKET) < 0) || chdir("/") < 0)
                _exit(1);
        syscall(SYS_close_range, SOCKET + 1, ~0u, 0);
        if (sandbox_enter_remote_reader())
                _exit(1);
        answer();
        _exit(0);
}

int remote_reader_new(RemoteReader **readerp) {
        _cleanup_(remote_reader_freep) RemoteReader *reader = calloc(1, sizeof(*reader));
        int ends[2];

        if (!reader)
                return error_origin(-ENOMEM);
        reader->socket = -1;
        if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) < 0)
                return error_origin(-errno);
        reader->socket = ends[1];
        reader->pid = fork();
        if (reader->pid == 0)
                serve(ends[0]);
        close(ends[0]);
        if (reader->pid < 0)
                return error_origin(-errno);
        *readerp = take(reader);
        return 0;
}

/* The reader itself touches no such file, so it ends at once. */
RemoteReader *remote_reader_free(RemoteReader *reader) {
        if (!reader)
                return NULL;
        closep(&reader->socket);
        while (reader->pid > 0 && waitpid(reader->pid, NULL, 0) < 0 && errno == EINTR)
                ;
        free(reader);
        return NULL;
}

/* ---- who asks ---- */

int remote_reader_fd(const RemoteReader *reader) {
        return reader->socket;
}

int remote_reader_ask(RemoteReader *reader, const RemoteRequest *request, int path_fd) {
        return channel_send(reader->socket, request, sizeof(*request), path_fd);
}

void remote_reader_give_up(RemoteReader *reader, uint32_t serial) {
        const RemoteRequest request = { .serial = serial };

        channel_send(reader->socket, &request, sizeof(request), -1);
}

int remote_reader_hear(RemoteReader *reader, RemoteReply *reply, int *fdp) {
        ssize_t n = channel_receive(reader->socket, reply, sizeof(*reply), fdp, MSG_DONTWAIT);

        if (n == sizeof(*reply))
                return 0;
        closep(fdp);
        *fdp = -1;
        return n == -EAGAIN ? REMOTE_READER_E_NOTHING : REMOTE_READER_E_GONE;
}

void remote_reader_wait(RemoteReader *reader, uint64_t until_ns) {
        struct pollfd ready = { .fd = reader->socket, .events = POLLIN };
        uint64_t now_ns = clock_monotonic_ns();

        if (now_ns < until_ns)
                poll(&ready, 1, (int)((until_ns - now_ns) / NS_PER_MS) + 1);
}

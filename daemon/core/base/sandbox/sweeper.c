/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Forks a process that waits for its socket to end, then removes each socket of the daemon if device, inode
 * and time still are those of the beginning.
 */

#include "core/base/sandbox/sweeper.h"

#include <errno.h>
#include <fcntl.h>
#include <libgen.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "core/base/sandbox/sandbox.h"
#include "core/base/util/error.h"

enum {
        MAX_SOCKETS = 4,
        FINISH_MS = 5000,               /* a file system that takes longer hangs */
};

typedef struct Litter {
        int directory;
        char name[NAME_MAX + 1];
        struct stat st;
} Litter;

struct Sweeper {
        pid_t pid;
        int socket;                     /* the daemon's end */
};

/* State of the process that sweeps. */
typedef struct Work {
        Litter litter[MAX_SOCKETS];
        size_t n;
        Outfile file;
        int socket;
} Work;

/* Return: whether there is a socket. */
static bool look(Litter *litter, const char *path) {
        char copy[2][PATH_MAX];

        snprintf(copy[0], sizeof(copy[0]), "%s", path);
        snprintf(copy[1], sizeof(copy[1]), "%s", path);
        snprintf(litter->name, sizeof(litter->name), "%s", basename(copy[0]));
        if (lstat(path, &litter->st) || !S_ISSOCK(litter->st.st_mode))
                return false;
        litter->directory = open(dirname(copy[1]), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        return litter->directory >= 0;
}

/*
 * A filesystem may give the number of a file that is gone to the next one at once; a socket is never
 * written, so its time stays.
 */
static bool is_same(const struct stat *a, const struct stat *b) {
        return a->st_dev == b->st_dev && a->st_ino == b->st_ino && a->st_mtim.tv_sec == b->st_mtim.tv_sec &&
               a->st_mtim.tv_nsec == b->st_mtim.tv_nsec;
}

/*
 * Under the lock that core/http/listen.c takes, so that no other daemon puts its own there in between.
 */
static void sweep(const Litter *litter) {
        struct stat st;

        flock(litter->directory, LOCK_EX | LOCK_NB);
        if (!fstatat(litter->directory, litter->name, &st, AT_SYMLINK_NOFOLLOW) && is_same(&st, &litter->st))
                unlinkat(litter->directory, litter->name, 0);
}

/* Each byte that comes asks for the file, until the socket ends. */
static void answer(Work *work) {
        int32_t r;
        char byte;

        for (;;) {
                ssize_t n = read(work->socket, &byte, 1);

                if (n < 0 && errno == EINTR)
                        continue;
                if (n <= 0)
                        return;
                r = outfile_finish(&work->file);
                if (write(work->socket, &r, sizeof(r)) < 0)
                        return;
        }
}

/* Signals for a whole group of processes are not for it. */
static _Noreturn void serve(Work *work) {
        sigset_t all;

        sigfillset(&all);
        sigprocmask(SIG_SETMASK, &all, NULL);
        prctl(PR_SET_NAME, SWEEPER_COMM, 0, 0, 0);
        if (sandbox_enter_sweeper(work->file.fd >= 0))
                _exit(1);
        answer(work);
        for (size_t i = 0; i < work->n; i++)
                sweep(&work->litter[i]);
        _exit(0);
}

static bool is_kept(const Work *work, int fd) {
        bool kept = fd == work->socket || fd == work->file.fd || fd == work->file.directory ||
                    fd == work->file.there;

        for (size_t i = 0; i < work->n; i++)
                kept |= fd == work->litter[i].directory;
        return kept;
}

/* All others would hold open what ends with the daemon. */
static void close_all_but(const Work *work) {
        int limit = MAX(MAX(work->socket, work->file.fd), MAX(work->file.directory, work->file.there));

        for (size_t i = 0; i < work->n; i++)
                limit = MAX(limit, work->litter[i].directory);
        for (int fd = 0; fd <= limit; fd++)
                if (!is_kept(work, fd))
                        close(fd);
        syscall(SYS_close_range, limit + 1, ~0u, 0);
}

static int start(Sweeper *sweeper, Work *work) {
        int ends[2];

        if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) < 0)
                return error_origin(-errno);
        work->socket = ends[0];
        sweeper->pid = fork();
        if (sweeper->pid == 0) {
                close_all_but(work);
                serve(work);
        }
        close(ends[0]);
        sweeper->socket = ends[1];
        return sweeper->pid < 0 ? error_origin(-errno) : 0;
}

int sweeper_new(Sweeper **sweeperp, const char *const *paths, const Outfile *file) {
        Sweeper *sweeper = calloc(1, sizeof(*sweeper));
        Work work = { .file = file ? *file : OUTFILE_NONE };
        int r;

        if (!sweeper)
                return error_origin(-ENOMEM);
        sweeper->socket = -1;
        for (; *paths && work.n < MAX_SOCKETS; paths++)
                work.n += look(&work.litter[work.n], *paths);
        r = start(sweeper, &work);
        while (work.n)
                close(work.litter[--work.n].directory);
        if (r)
                sweeper = sweeper_free(sweeper);
        *sweeperp = sweeper;
        return r;
}

int sweeper_finish_file(Sweeper *sweeper) {
        struct pollfd ready = { .fd = sweeper->socket, .events = POLLIN };
        int32_t r;
        int n;

        if (send(sweeper->socket, "", 1, MSG_NOSIGNAL) < 0)
                return -errno;
        do
                n = poll(&ready, 1, FINISH_MS);
        while (n < 0 && errno == EINTR);
        if (n <= 0)
                return n < 0 ? -errno : -ETIMEDOUT;
        return read(sweeper->socket, &r, sizeof(r)) == sizeof(r) ? r : -EIO;
}

Sweeper *sweeper_free(Sweeper *sweeper) {
        if (!sweeper)
                return NULL;
        closep(&sweeper->socket);
        while (sweeper->pid > 0 && waitpid(sweeper->pid, NULL, 0) < 0 && errno == EINTR)
                ;
        free(sweeper);
        return NULL;
}

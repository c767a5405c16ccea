/* SPDX-License-Identifier: Apache-2.0 */
#include "base/sandbox/sweeper.h"

#include <errno.h>
#include <fcntl.h>
#include <libgen.h>
#include <limits.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/sandbox/sandbox.h"
#include "base/util/error.h"

enum { MAX_SOCKETS = 4 };

typedef struct Litter {
        int directory;
        char name[NAME_MAX + 1];
        struct stat st;
} Litter;

struct Sweeper {
        pid_t pid;
        int pipe;                       /* its end is ours */
};

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
 * A filesystem may give the number of a file that is gone to the next one at once; nobody writes a socket, so
 * its time stays.
 */
static bool is_same(const struct stat *a, const struct stat *b) {
        return a->st_dev == b->st_dev && a->st_ino == b->st_ino && a->st_mtim.tv_sec == b->st_mtim.tv_sec &&
               a->st_mtim.tv_nsec == b->st_mtim.tv_nsec;
}

/*
 * Under the lock that delivery/receive/listen.c takes, so that no other daemon puts its own there in between.
 */
static void sweep(const Litter *litter) {
        struct stat st;

        flock(litter->directory, LOCK_EX | LOCK_NB);
        if (!fstatat(litter->directory, litter->name, &st, AT_SYMLINK_NOFOLLOW) && is_same(&st, &litter->st))
                unlinkat(litter->directory, litter->name, 0);
}

/* Signals for a whole group of processes are not for it. */
static _Noreturn void serve(const Litter *litter, size_t n, int pipe) {
        sigset_t all;
        char byte;

        sigfillset(&all);
        sigprocmask(SIG_SETMASK, &all, NULL);
        prctl(PR_SET_NAME, SWEEPER_COMM, 0, 0, 0);
        if (sandbox_enter_sweeper())
                _exit(1);
        while (read(pipe, &byte, 1) < 0 && errno == EINTR)
                ;
        for (size_t i = 0; i < n; i++)
                sweep(&litter[i]);
        _exit(0);
}

/* All others would hold open what ends with the daemon. */
static void close_all_but(const Litter *litter, size_t n, int pipe) {
        int limit = pipe;

        for (size_t i = 0; i < n; i++)
                limit = MAX(limit, litter[i].directory);
        for (int fd = 0; fd <= limit; fd++) {
                bool kept = fd == pipe;

                for (size_t i = 0; i < n; i++)
                        kept |= fd == litter[i].directory;
                if (!kept)
                        close(fd);
        }
        syscall(SYS_close_range, limit + 1, ~0u, 0);
}

static int start(Sweeper *sweeper, const Litter *litter, size_t n) {
        int ends[2];

        if (pipe2(ends, O_CLOEXEC) < 0)
                return error_origin(-errno);
        sweeper->pid = fork();
        if (sweeper->pid == 0) {
                close_all_but(litter, n, ends[0]);
                serve(litter, n, ends[0]);
        }
        close(ends[0]);
        sweeper->pipe = ends[1];
        return sweeper->pid < 0 ? error_origin(-errno) : 0;
}

int sweeper_new(Sweeper **sweeperp, const char *const *paths) {
        Sweeper *sweeper = calloc(1, sizeof(*sweeper));
        Litter litter[MAX_SOCKETS];
        size_t n = 0;
        int r;

        if (!sweeper)
                return error_origin(-ENOMEM);
        for (; *paths && n < MAX_SOCKETS; paths++)
                n += look(&litter[n], *paths);
        r = start(sweeper, litter, n);
        while (n)
                close(litter[--n].directory);
        if (r)
                sweeper = sweeper_free(sweeper);
        *sweeperp = sweeper;
        return r;
}

Sweeper *sweeper_free(Sweeper *sweeper) {
        if (!sweeper)
                return NULL;
        close(sweeper->pipe);
        while (sweeper->pid > 0 && waitpid(sweeper->pid, NULL, 0) < 0 && errno == EINTR)
                ;
        free(sweeper);
        return NULL;
}

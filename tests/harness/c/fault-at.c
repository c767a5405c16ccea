/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Fault At (LD_PRELOAD)
 *
 * Counts the calls that change files below FAULT_DIR, and at number FAULT_AT (from 1) does what FAULT_KIND
 * says instead: `kill` (SIGKILL before the call), `half` (half of a write, then SIGKILL), `partial` (half of
 * a write, then ENOSPC), `hang` (until there is a file FAULT_GO), or an errno by name that this call and all
 * later ones get (ENOSPC, EIO, EROFS). With FAULT_LOG each counted call is a line there.
 */
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/types.h>
#include <unistd.h>

int fdatasync(int fd);

#define REAL(_name) ((__typeof__(&_name))dlsym(RTLD_NEXT, #_name))

static int is_below(int fd) {
        const char *top = getenv("FAULT_DIR");
        char link[64], path[PATH_MAX];
        ssize_t n;

        snprintf(link, sizeof(link), "/proc/self/fd/%d", fd);
        n = readlink(link, path, sizeof(path) - 1);
        if (!top || n < 0)
                return 0;
        path[n] = 0;
        return !strncmp(path, top, strlen(top));
}

static void note(const char *what) {
        const char *log = getenv("FAULT_LOG");
        FILE *file = log ? fopen(log, "ae") : NULL;

        if (!file)
                return;
        fprintf(file, "%s\n", what);
        fclose(file);
}

static int error_of(const char *kind) {
        return !strcmp(kind, "EIO") ? EIO : !strcmp(kind, "EROFS") ? EROFS : ENOSPC;
}

/* Return: 1 = the call shall fail with errno. *halfp: write half of it, then die. */
static int fault(int fd, const char *what, int *halfp) {
        static int n;
        const char *at = getenv("FAULT_AT"), *kind = getenv("FAULT_KIND");

        if (!is_below(fd))
                return 0;
        note(what);
        n++;
        if (!at || !kind || n < atoi(at))
                return 0;
        if (!strcmp(what, "write") &&
            (!strcmp(kind, "half") || (!strcmp(kind, "partial") && n == atoi(at)))) {
                *halfp = 1;
                return 0;
        }
        if (!strcmp(kind, "hang")) {
                while (access(getenv("FAULT_GO"), F_OK))
                        usleep(2000);
                return 0;
        }
        if (!strcmp(kind, "kill") || !strcmp(kind, "half"))
                kill(getpid(), SIGKILL);
        if (!strcmp(what, "unlinkat"))
                return 0;
        errno = error_of(kind);
        return 1;
}

static int fault_simple(int fd, const char *what) {
        int half;

        return fault(fd, what, &half);
}

ssize_t write(int fd, const void *data, size_t size) {
        int half = 0;
        ssize_t n;

        if (fault(fd, "write", &half))
                return -1;
        n = REAL(write)(fd, data, half ? size / 2 : size);
        if (half && !strcmp(getenv("FAULT_KIND"), "half"))
                kill(getpid(), SIGKILL);
        return n;
}

int openat(int fd, const char *path, int flags, ...) {
        va_list args;
        mode_t mode;

        va_start(args, flags);
        mode = flags & O_CREAT ? va_arg(args, mode_t) : 0;
        va_end(args);
        if (flags & O_CREAT && strcmp(path, "lock") && fault_simple(fd, "openat"))
                return -1;
        return REAL(openat)(fd, path, flags, mode);
}

int fdatasync(int fd) {
        return fault_simple(fd, "fdatasync") ? -1 : REAL(fdatasync)(fd);
}

int fsync(int fd) {
        return fault_simple(fd, "fsync") ? -1 : REAL(fsync)(fd);
}

int renameat2(int from, const char *old, int to, const char *new, unsigned flags) {
        return fault_simple(from, "renameat2") ? -1 : REAL(renameat2)(from, old, to, new, flags);
}

int unlinkat(int fd, const char *path, int flags) {
        return fault_simple(fd, "unlinkat") ? -1 : REAL(unlinkat)(fd, path, flags);
}

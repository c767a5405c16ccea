/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Opens a spool of its own below the spool for each letter; it may take an eighth of the bytes.
 */

#include "host/delivery/spool/dead-letters.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/file.h>
#include <unistd.h>

#include "core/base/file/file.h"
#include "core/base/util/error.h"

/* A receiver that refuses everything may not fill the disk, nor the directory. */
enum { SHARE = 8, MAX_LETTERS = 1024 };

int dead_letters_path(const char *spool, char **pathp) {
        return asprintf(pathp, "%s/" SPOOL_DEAD_LETTERS, spool) < 0 ? error_origin(-ENOMEM) : 0;
}

int dead_letters_put(const Spool *spool, const SpoolHeader *header, const void *request, size_t size,
                     uint64_t now_ns) {
        _cleanup_(spool_freep) Spool *letters = NULL;
        _cleanup_(freep) char *path = NULL;
        SpoolLimits limits = spool_limits(spool);
        SpoolProblem problem;
        SpoolEntry entry;
        int r;

        limits.max_bytes /= SHARE;
        limits.max_files = MAX_LETTERS;
        r = dead_letters_path(spool_path(spool), &path);
        if (r)
                return error_fold(r);
        r = spool_new(&letters, path, &limits, false, &problem);
        if (r > 0) {
                errno = r == SPOOL_E_LOCKED ? EBUSY : errno;
                return SPOOL_E_FAILED;
        }
        r = r ? r : spool_put(letters, header, request, size, now_ns, SPOOL_PUT_FLUSHED, &entry);
        return r < 0 ? error_fold(r) : r;
}

int dead_letters_open(Spool **lettersp, const char *spool, SpoolProblem *problem) {
        _cleanup_(freep) char *path = NULL;
        int r = dead_letters_path(spool, &path);

        if (r)
                return error_fold(r);
        if (access(path, F_OK) < 0 && errno == ENOENT)
                return SPOOL_E_EMPTY;
        r = spool_new(lettersp, path, NULL, true, problem);
        return r < 0 ? error_fold(r) : r;
}

int dead_letters_lock(const char *spool, int *fdp) {
        _cleanup_(freep) char *path = NULL;
        _cleanup_(closep) int fd = -1;

        if (asprintf(&path, "%s/" SPOOL_DEAD_LETTERS "/" SPOOL_RETRY_LOCK, spool) < 0)
                return error_origin(-ENOMEM);
        fd = open(path, O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK, 0600);
        if (fd < 0)
                return SPOOL_E_FAILED;
        if (flock(fd, LOCK_EX | LOCK_NB) < 0)
                return errno == EWOULDBLOCK ? SPOOL_E_LOCKED : SPOOL_E_FAILED;
        *fdp = take_fd(fd);
        return 0;
}

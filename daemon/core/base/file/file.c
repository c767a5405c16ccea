/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Reads and writes whole ranges over interruptions and short counts. A file is opened without blocking and
 * without a terminal, and its kind is checked at the descriptor, not at the path.
 */

#include "core/base/file/file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/uio.h>
#include <unistd.h>

#include "core/base/util/array.h"
#include "core/base/util/macro.h"

int file_read_fd(int fd, size_t max, char **datap, size_t *sizep) {
        _cleanup_(freep) char *data = NULL;
        size_t size = 0, room = 0;
        int r;

        for (;;) {
                ssize_t n;

                r = array_reserve(&data, &room, size + 2, 4096);
                if (r)
                        return r;
                n = read(fd, data + size, room - size - 1);
                if (n < 0 && errno == EINTR)
                        continue;
                if (n < 0)
                        return FILE_E_UNREADABLE;
                if (n == 0)
                        break;
                size += (size_t)n;
                if (size > max)
                        return FILE_E_TOO_LARGE;
        }
        data[size] = 0;
        *datap = take(data);
        *sizep = size;
        return 0;
}

int file_read_at(int dirfd, const char *path, size_t max, char **datap, size_t *sizep) {
        _cleanup_(closep) int fd = openat(dirfd, path, O_RDONLY | O_CLOEXEC | O_NOCTTY);

        if (fd < 0)
                return FILE_E_UNREADABLE;
        return file_read_fd(fd, max, datap, sizep);
}

int file_read(const char *path, size_t max, char **datap, size_t *sizep) {
        return file_read_at(AT_FDCWD, path, max, datap, sizep);
}

/* /dev/null is how people write `no file`. */
static bool is_plain(const struct stat *st) {
        return S_ISREG(st->st_mode) || (S_ISCHR(st->st_mode) && st->st_rdev == makedev(1, 3));
}

int file_open_regular_at(int dirfd, const char *path, int *fdp) {
        _cleanup_(closep) int fd = openat(dirfd, path, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);
        struct stat st;

        if (fd < 0 || fstat(fd, &st) < 0)
                return FILE_E_UNREADABLE;
        if (S_ISDIR(st.st_mode)) {
                errno = EISDIR;
                return FILE_E_UNREADABLE;
        }
        if (!is_plain(&st))
                return FILE_E_KIND;
        *fdp = take_fd(fd);
        return 0;
}

int file_read_regular(const char *path, size_t max, char **datap, size_t *sizep) {
        _cleanup_(closep) int fd = -1;
        int r = file_open_regular_at(AT_FDCWD, path, &fd);

        return r ? r : file_read_fd(fd, max, datap, sizep);
}

int file_check_regular(const char *path) {
        _cleanup_(closep) int fd = -1;

        return file_open_regular_at(AT_FDCWD, path, &fd);
}

int file_open_null(int mode) {
        int fd = open("/dev/null", mode | O_CLOEXEC | O_NOCTTY);

        if (fd >= 0)
                return fd;
        fd = memfd_create("null", MFD_CLOEXEC | MFD_ALLOW_SEALING);
        if (fd >= 0)
                (void)fcntl(fd, F_ADD_SEALS, F_SEAL_WRITE | F_SEAL_GROW | F_SEAL_SEAL);
        return fd;
}

int file_open_seen(int path_fd) {
        char name[32];

        snprintf(name, sizeof(name), "/proc/self/fd/%d", path_fd);
        return open(name, O_RDONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
}

ssize_t file_pread(int fd, void *data, size_t size, uint64_t offset) {
        return file_pread_flags(fd, data, size, offset, 0);
}

ssize_t file_pread_flags(int fd, void *data, size_t size, uint64_t offset, int flags) {
        size_t done = 0;

        while (done < size) {
                const struct iovec to = { (char *)data + done, size - done };
                off_t at = (off_t)(offset + done);
                ssize_t n = flags ? preadv2(fd, &to, 1, at, flags) : pread(fd, to.iov_base, to.iov_len, at);

                if (n < 0 && errno == EINTR)
                        continue;
                if (n < 0)
                        return -errno;
                if (n == 0)
                        break;
                done += (size_t)n;
        }
        return (ssize_t)done;
}

int file_write(int fd, const void *data, size_t size) {
        size_t done = 0;

        while (done < size) {
                ssize_t n = write(fd, (const char *)data + done, size - done);

                if (n < 0 && errno == EINTR)
                        continue;
                if (n < 0)
                        return -errno;
                done += (size_t)n;
        }
        return 0;
}

int file_replace_at(int directory, const char *name, const char *temporary, const void *data, size_t size) {
        _cleanup_(closep) int fd = openat(directory, temporary,
                                          O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW | O_CLOEXEC, 0600);
        int r;

        if (fd < 0)
                return -errno;
        r = file_write(fd, data, size);
        if (!r && renameat(directory, temporary, directory, name) < 0)
                r = -errno;
        if (r)
                unlinkat(directory, temporary, 0);      /* a part of it, on a disk that is full */
        return r;
}

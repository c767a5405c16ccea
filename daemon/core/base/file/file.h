/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Files
 *
 * Whole small files with a cap, and exact reads and writes over EINTR and short counts.
 */

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

enum {
        _FILE_E_SUCCESS,
        FILE_E_TOO_LARGE,               /* over the cap; nothing was returned */
        FILE_E_UNREADABLE,              /* open or read failed; errno says why */
        FILE_E_KIND,                    /* a pipe, a device …: to read it could take for ever */
};

/*
 * Reads a whole file, procfs included (its st_size is 0).
 * @dirfd, @path: as for openat(); @max: cap in bytes.
 * On success *datap is malloc()ed, owned by the caller, with a NUL behind *sizep bytes.
 * Return: 0, FILE_E_TOO_LARGE, FILE_E_UNREADABLE, -ENOMEM.
 */
int file_read_at(int dirfd, const char *path, size_t max, char **datap, size_t *sizep);
int file_read(const char *path, size_t max, char **datap, size_t *sizep);
int file_read_fd(int fd, size_t max, char **datap, size_t *sizep);

/* The same for regular files alone, and /dev/null. Return: also FILE_E_KIND. */
int file_read_regular(const char *path, size_t max, char **datap, size_t *sizep);

/* Opens such a file for reading; arguments as for openat(). Return: 0, FILE_E_UNREADABLE, FILE_E_KIND. */
int file_open_regular_at(int dirfd, const char *path, int *fdp);

/*
 * Whether it could be read that way, for files that a library will open. Return: 0, FILE_E_UNREADABLE,
 * FILE_E_KIND.
 */
int file_check_regular(const char *path);

/*
 * Opens for reading what @path_fd, from O_PATH, stands for. Who has looked at that first (statx()) knows that
 * it is no pipe and no device; another process's lease makes this fail and not wait. Return: a descriptor,
 * or -1.
 */
int file_open_seen(int path_fd);

/*
 * A descriptor that stands for nothing: /dev/null, or an empty file in memory that takes no byte where that
 * device cannot be opened (a root file system without it, another file in its place). Only what a signal
 * handler may call. @mode: O_RDONLY, O_WRONLY or O_RDWR. Return: a descriptor (close on exec), or -1.
 */
int file_open_null(int mode);

/* pread() until @size bytes or the end. Return: bytes read, or -errno. */
ssize_t file_pread(int fd, void *data, size_t size, uint64_t offset);

/* The same by preadv2(). @flags: RWF_*. */
ssize_t file_pread_flags(int fd, void *data, size_t size, uint64_t offset, int flags);

/* write() until all is written. Return: 0 or -errno. */
int file_write(int fd, const void *data, size_t size);

/*
 * Makes @name of a directory what is given, in one step, mode 0600; until then it is @temporary, of which
 * nothing stays where that fails. Return: 0, -errno.
 */
int file_replace_at(int directory, const char *name, const char *temporary, const void *data, size_t size);

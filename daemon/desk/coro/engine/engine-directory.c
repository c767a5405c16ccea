/* SPDX-License-Identifier: Apache-2.0 */

/*
 * A killed engine leaves this, with BASE /dev/shm in memory:
 *
 *      /dev/shm/spanprof-Ab12Cd/           locked (flock) by the engine and its socket holder
 *              region.shm                  up to 16 GiB of stations
 *              wake.sock
 *
 * The socket holder removes the two files when engine and command are gone. The directory is removed by the
 * next engine of the same user, with the files if the socket holder was killed as well. A directory without a
 * lock is a leftover, but it stays while any process has the region mapped: a program goes on writing without
 * its engine, and its children may open the file. A new directory gets its name only once it is locked, so
 * that no other engine takes it for a leftover. Files of other names are never removed, nor is the directory
 * with them.
 */

#include "desk/coro/engine/engine-directory.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/base/file/file.h"
#include "core/base/util/error.h"
#include "core/base/util/log.h"

enum { MAPS_TEXT = 32 << 20 };

static const char prefix[] = "spanprof-", region[] = "region.shm", wake[] = "wake.sock";

/* The directory has a hidden name until it is locked. */
int engine_directory_make(const char *base, char **directoryp, int *lockp) {
        _cleanup_(freep) char *hidden = NULL, *directory = NULL;
        _cleanup_(closep) int fd = -1;

        if (asprintf(&hidden, "%s/.%sXXXXXX", base, prefix) < 0) {
                hidden = NULL;
                return error_origin(-ENOMEM);
        }
        if (!mkdtemp(hidden))
                return 1;
        if (asprintf(&directory, "%s/%s", base, strrchr(hidden, '/') + 2) < 0) {
                directory = NULL;
                rmdir(hidden);
                return error_origin(-ENOMEM);
        }
        fd = open(hidden, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        if (fd >= 0)
                flock(fd, LOCK_SH);             /* without locks no directory is ever removed */
        if (fd < 0 || rename(hidden, directory)) {
                int error = errno;

                rmdir(hidden);
                errno = error;
                return 1;
        }
        *directoryp = take(directory);
        *lockp = take_fd(fd);
        return 0;
}

static bool is_mapped_by(const char *pid, const char *directory) {
        _cleanup_(freep) char *text = NULL;
        size_t size, n = strlen(directory);
        const char *at;
        char path[64];

        snprintf(path, sizeof(path), "/proc/%.20s/maps", pid);
        if (file_read(path, MAPS_TEXT, &text, &size))
                return false;
        at = memmem(text, size, directory, n);
        return at && at + n < text + size && at[n] == '/';
}

/* Whether any process has a file of the directory mapped. */
static bool is_mapped(const char *directory) {
        struct dirent *entry;
        bool found = false;
        DIR *proc = opendir("/proc");

        while (proc && !found && (entry = readdir(proc)))
                found = *entry->d_name >= '1' && *entry->d_name <= '9' &&
                        is_mapped_by(entry->d_name, directory);
        if (proc)
                closedir(proc);
        return found || !proc;
}

/*
 * Whether the name is free or of this type. The content of the region says nothing: its program may write
 * anything.
 */
static bool is_absent_or(mode_t type, int directory, const char *name) {
        struct stat st;

        if (fstatat(directory, name, &st, AT_SYMLINK_NOFOLLOW))
                return errno == ENOENT;
        return (st.st_mode & S_IFMT) == type;
}

/* Removes a directory of this user that is unlocked and unmapped; rmdir() keeps one with other files. */
static void remove_one(const char *path) {
        _cleanup_(closep) int fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
        struct stat st;

        if (fd < 0 || fstat(fd, &st) || st.st_uid != geteuid() || (st.st_mode & 077) ||
            flock(fd, LOCK_EX | LOCK_NB) || !is_absent_or(S_IFREG, fd, region) ||
            !is_absent_or(S_IFSOCK, fd, wake) || is_mapped(path))
                return;
        unlinkat(fd, region, 0);
        unlinkat(fd, wake, 0);
        if (!rmdir(path))
                log_notice("%s: removed; an engine that was killed had left it", path);
}

void engine_directory_remove_old(const char *base) {
        struct dirent *entry;
        DIR *directory = opendir(base);
        char path[512];

        while (directory && (entry = readdir(directory))) {
                if (strncmp(entry->d_name, prefix, strlen(prefix)) ||
                    strlen(entry->d_name) != strlen(prefix) + 6)
                        continue;
                snprintf(path, sizeof(path), "%s/%s", base, entry->d_name);
                remove_one(path);
        }
        if (directory)
                closedir(directory);
}

/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/desk/outfile.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/util/file.h"
#include "base/util/macro.h"
#include "base/util/text.h"

/* Where a link leads to, so that the link stays one. */
static int resolve(const char *path, char **resolvedp) {
        struct stat st;
        bool is_link = !lstat(path, &st) && S_ISLNK(st.st_mode);

        *resolvedp = is_link ? realpath(path, NULL) : strdup(path);
        return *resolvedp ? 0 : -errno;
}

/* Files are replaced; anything else is written into. */
static int is_replaced(const char *path, bool *replacedp) {
        struct stat st;

        *replacedp = true;
        if (stat(path, &st) < 0)
                return errno == ENOENT ? 0 : -errno;
        if (S_ISDIR(st.st_mode))
                return -EISDIR;
        *replacedp = S_ISREG(st.st_mode);
        return 0;
}

/* sudo(8) says who has called it: what root makes for somebody is theirs. */
static void give_to_caller(int fd) {
        const char *user = getenv("SUDO_UID"), *group = getenv("SUDO_GID");
        uint64_t uid, gid;

        if (geteuid() || !user || !group || text_u64(user, UINT32_MAX - 1, &uid) ||
            text_u64(group, UINT32_MAX - 1, &gid))
                return;
        if (fchown(fd, (uid_t)uid, (gid_t)gid) < 0)
                return;                 /* then it stays root's */
}

static int forget_beside(Outfile *file, int r) {
        free(file->beside);
        file->beside = NULL;
        return r;
}

static int make_beside(Outfile *file) {
        if (asprintf(&file->beside, "%s.XXXXXX", file->path) < 0) {
                file->beside = NULL;
                return -ENOMEM;
        }
        file->fd = mkostemp(file->beside, O_CLOEXEC);
        if (file->fd < 0)
                return forget_beside(file, -errno);
        if (!file->ordinary)
                give_to_caller(file->fd);
        return 0;
}

/* In the directory of @path, without a name: whatever ends us leaves nothing. Return: 0, -errno. */
static int make_nameless(Outfile *file) {
        const char *slash = strrchr(file->path, '/');
        size_t size = slash ? (size_t)(slash - file->path) + 1 : 2;
        _cleanup_(freep) char *directory = strndup(slash ? file->path : "./", size);

        if (!directory || asprintf(&file->beside, "%s.%d.new", file->path, (int)getpid()) < 0) {
                file->beside = NULL;
                return -ENOMEM;
        }
        file->fd = open(directory, O_TMPFILE | O_WRONLY | O_CLOEXEC, 0666);
        if (file->fd < 0)
                return forget_beside(file, -errno);
        file->nameless = true;
        return 0;
}

/* As open(2) would have made it. */
static void set_mode(int fd) {
        mode_t mask = umask(077);

        umask(mask);
        if (fchmod(fd, 0666 & ~mask) < 0)
                return;                 /* then its owner alone may read it */
}

static int open_as_it_is(Outfile *file, int flags) {
        file->fd = open(file->path, O_WRONLY | O_CLOEXEC | O_NOCTTY | flags);
        return file->fd < 0 ? -errno : 0;
}

/* A directory in which nothing can be made may hold a file that can be written. */
static int make_ordinary(Outfile *file) {
        int r = make_nameless(file);

        if (!r || r == -ENOMEM)
                return r;
        r = make_beside(file);
        if (!r)
                set_mode(file->fd);
        else if (!access(file->path, W_OK))
                r = open_as_it_is(file, O_TRUNC);
        return r;
}

static int open_file(Outfile *file, const char *path) {
        bool replaced;
        int r;

        if (!strcmp(path, "-")) {
                file->fd = STDOUT_FILENO;
                return 0;
        }
        r = resolve(path, &file->path);
        if (!r)
                r = is_replaced(file->path, &replaced);
        if (r)
                return r;
        if (!replaced)
                return open_as_it_is(file, 0);
        return file->ordinary ? make_ordinary(file) : make_beside(file);
}

int outfile_open(Outfile *file, const char *path) {
        *file = OUTFILE_NONE;
        return open_file(file, path);
}

int outfile_open_ordinary(Outfile *file, const char *path) {
        *file = OUTFILE_NONE;
        file->ordinary = true;
        return open_file(file, path);
}

void outfile_deinit(Outfile *file) {
        if (file->beside && !file->nameless)
                unlink(file->beside);
        if (file->path && file->fd >= 0)
                close(file->fd);
        free(file->beside);
        free(file->path);
        *file = OUTFILE_NONE;
}

/* A pipe is not opened only to look: its reader would take the close for the end. */
int outfile_check(const char *path) {
        _cleanup_(outfile_deinit) Outfile file = OUTFILE_NONE;
        bool replaced = false;

        if (!strcmp(path, "-"))
                return 0;
        if (!is_replaced(path, &replaced) && !replaced)
                return access(path, W_OK) < 0 ? -errno : 0;
        return outfile_open(&file, path);
}

int outfile_write(Outfile *file, const void *data, size_t size) {
        int r = file_write(file->fd, data, size);

        file->size += r ? 0 : size;
        return r;
}

/* What is there goes first, so that at no time both are gone. */
static int keep_old(const char *path) {
        _cleanup_(freep) char *old = NULL;
        struct stat st;

        if (lstat(path, &st) < 0)
                return errno == ENOENT ? 0 : -errno;
        if (asprintf(&old, "%s.old", path) < 0) {
                old = NULL;
                return -ENOMEM;
        }
        if (unlink(old) < 0 && errno != ENOENT)
                return -errno;
        /* a second name where the filesystem has them: then the first is replaced in one step */
        return !link(path, old) || !rename(path, old) ? 0 : -errno;
}

/* A name for what has none. One of the same name is left over from a process that is no more. */
static int give_name(Outfile *file) {
        char from[32];

        snprintf(from, sizeof(from), "/proc/self/fd/%d", file->fd);
        if (linkat(AT_FDCWD, from, AT_FDCWD, file->beside, AT_SYMLINK_FOLLOW) < 0) {
                if (errno != EEXIST || unlink(file->beside) < 0 ||
                    linkat(AT_FDCWD, from, AT_FDCWD, file->beside, AT_SYMLINK_FOLLOW) < 0)
                        return -errno;
        }
        file->nameless = false;
        return 0;
}

int outfile_finish(Outfile *file) {
        int fd = file->fd, r = 0;

        if (!file->path)
                return 0;
        if (file->nameless)
                r = give_name(file);
        if (r)
                return r;
        file->fd = -1;
        if (close(fd) < 0)              /* some filesystems tell only now that they are full */
                return -errno;
        if (!file->beside)
                return 0;
        r = file->ordinary ? 0 : keep_old(file->path);
        if (!r && rename(file->beside, file->path) < 0)
                r = -errno;
        return r ? r : forget_beside(file, 0);
}

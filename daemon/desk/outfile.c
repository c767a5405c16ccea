/* SPDX-License-Identifier: Apache-2.0 */
#include "desk/outfile.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "util/error.h"
#include "util/file.h"
#include "util/macro.h"
#include "util/text.h"

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

        if (geteuid() || !user || !group || text_u64(user, UINT32_MAX - 1, &uid) || text_u64(group, UINT32_MAX - 1, &gid))
                return;
        if (fchown(fd, (uid_t)uid, (gid_t)gid) < 0)
                return;                 /* then it stays root's */
}

static int make_beside(Outfile *file) {
        if (asprintf(&file->beside, "%s.XXXXXX", file->path) < 0) {
                file->beside = NULL;
                return -ENOMEM;
        }
        file->fd = mkostemp(file->beside, O_CLOEXEC);
        if (file->fd >= 0) {
                give_to_caller(file->fd);
                return 0;
        }
        free(file->beside);
        file->beside = NULL;
        return -errno;
}

int outfile_open(Outfile *file, const char *path) {
        bool replaced;
        int r;

        *file = OUTFILE_NONE;
        if (!strcmp(path, "-")) {
                file->fd = STDOUT_FILENO;
                return 0;
        }
        r = resolve(path, &file->path);
        if (!r)
                r = is_replaced(file->path, &replaced);
        if (r)
                return r;
        if (replaced)
                return make_beside(file);
        file->fd = open(file->path, O_WRONLY | O_CLOEXEC | O_NOCTTY);
        return file->fd < 0 ? -errno : 0;
}

void outfile_deinit(Outfile *file) {
        if (file->beside)
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

int outfile_finish(Outfile *file) {
        int fd = file->fd, r;

        if (!file->path)
                return 0;
        file->fd = -1;
        if (close(fd) < 0)              /* some filesystems tell only now that they are full */
                return -errno;
        if (!file->beside)
                return 0;
        r = keep_old(file->path);
        if (!r && rename(file->beside, file->path) < 0)
                r = -errno;
        if (r)
                return r;
        free(file->beside);
        file->beside = NULL;
        return 0;
}

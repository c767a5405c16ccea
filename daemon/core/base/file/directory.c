/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Lists the numbers of a procfs directory, and hands a directory of ours with its files to another user.
 */

#include "core/base/file/directory.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/base/util/macro.h"
#include "core/base/util/text.h"

bool directory_next_number(DIR *dir, uint32_t *numberp) {
        struct dirent *entry;
        uint64_t number;

        while ((entry = readdir(dir)))
                if (!text_u64(entry->d_name, INT32_MAX, &number)) {
                        *numberp = (uint32_t)number;
                        return true;
                }
        return false;
}

/* A file with two names may be another one's, too. */
static int check_ours(int fd, const char *name, bool (*is_ours)(const char *name, bool is_directory)) {
        struct stat st;

        if (fstatat(fd, name, &st, AT_SYMLINK_NOFOLLOW) < 0)
                return errno == ENOENT ? 0 : -errno;
        if (!S_ISDIR(st.st_mode) && (!S_ISREG(st.st_mode) || st.st_nlink != 1))
                return DIRECTORY_E_FOREIGN;
        return is_ours(name, S_ISDIR(st.st_mode)) ? 0 : DIRECTORY_E_FOREIGN;
}

static int give_file(int fd, const char *name, uid_t uid, gid_t gid) {
        return fchownat(fd, name, uid, gid, AT_SYMLINK_NOFOLLOW) < 0 && errno != ENOENT ? -errno : 0;
}

typedef struct Gift {
        int fd;
        uid_t uid;
        gid_t gid;
        bool (*is_ours)(const char *name, bool is_directory);
} Gift;

/* Looks at each file, or with @give gives it. */
static int each(const Gift *gift, bool give) {
        int fd = openat(gift->fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC), r = 0;
        _cleanup_(closedirp) DIR *dir = fd < 0 ? NULL : fdopendir(fd);
        struct dirent *entry;

        if (!dir)
                return -errno;
        while (!r && (entry = readdir(dir)))
                if (strcmp(entry->d_name, ".") && strcmp(entry->d_name, ".."))
                        r = give ? give_file(gift->fd, entry->d_name, gift->uid, gift->gid) :
                                   check_ours(gift->fd, entry->d_name, gift->is_ours);
        return r;
}

/* Return: a descriptor, or -1 = what is there is not given. */
static int open_given(const char *path) {
        _cleanup_(closep) int fd = open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
        struct stat st;

        return fd < 0 || fstat(fd, &st) < 0 || st.st_uid != 0 || st.st_mode & 022 ? -1 : take_fd(fd);
}

int directory_may_give(const char *path, bool (*is_ours)(const char *name, bool is_directory)) {
        _cleanup_(closep) int fd = open_given(path);

        return fd < 0 ? 0 : each(&(Gift){ .fd = fd, .is_ours = is_ours }, false);
}

int directory_give(const char *path, uid_t uid, gid_t gid,
                   bool (*is_ours)(const char *name, bool is_directory)) {
        _cleanup_(closep) int fd = -1;
        Gift gift = { .uid = uid, .gid = gid, .is_ours = is_ours };
        int r;

        if (mkdir(path, 0700) < 0 && errno != EEXIST)
                return 0;
        gift.fd = fd = open_given(path);
        if (fd < 0)
                return 0;
        r = each(&gift, false);
        if (!r && fchown(fd, uid, gid) < 0)
                r = -errno;
        return r ? r : each(&gift, true);
}

/* SPDX-License-Identifier: Apache-2.0 */

/* Is it a directory that we may trust, is it ours alone, what is in it, and is it there still? */

#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/util/directory.h"
#include "base/util/error.h"
#include "delivery/spool/spool-private.h"

enum { KEPT_ASIDE = 16 };

static _Thread_local char problem[160];

const char *spool_problem(void) {
        return problem;
}

_printf_(1, 2) static int unusable(const char *format, ...) {
        va_list args;

        va_start(args, format);
        vsnprintf(problem, sizeof(problem), format, args);
        va_end(args);
        return SPOOL_E_UNUSABLE;
}

/* The entry must print as the same name: what is not ours to the letter is not touched. */
static int parse_name(const char *name, SpoolEntry *entry) {
        char again[SPOOL_NAME_ROOM];

        *entry = (SpoolEntry){ 0 };
        if (sscanf(name, "%19" SCNu64 "-%" SCNu32 "-%" SCNu64, &entry->time_ns, &entry->sequence,
                   &entry->n_events) != 3)
                return 1;
        spool_entry_name(entry, again, sizeof(again));
        return strcmp(name, again) != 0;
}

typedef struct Aside {
        char names[KEPT_ASIDE][SPOOL_NAME_ROOM + 16];         /* the newest, in any order */
        size_t n;
} Aside;

static bool is_aside(const char *name) {
        size_t length = strlen(name);

        return length > strlen(SPOOL_SUFFIX ".corrupt") && length < SPOOL_NAME_ROOM + 16 &&
                isdigit((unsigned char)name[0]) &&
                !strcmp(name + length - strlen(SPOOL_SUFFIX ".corrupt"), SPOOL_SUFFIX ".corrupt");
}

/*
 * What was set aside is for a person, who may never come: names begin with the time, so the least is the
 * oldest.
 */
static void keep_newest_aside(Spool *spool, Aside *aside, const char *name) {
        size_t oldest = 0;

        if (aside->n < KEPT_ASIDE) {
                strcpy(aside->names[aside->n++], name);
                return;
        }
        for (size_t i = 1; i < aside->n; i++)
                if (strcmp(aside->names[i], aside->names[oldest]) < 0)
                        oldest = i;
        if (strcmp(name, aside->names[oldest]) < 0) {
                unlinkat(spool->fd, name, 0);
                return;
        }
        unlinkat(spool->fd, aside->names[oldest], 0);
        strcpy(aside->names[oldest], name);
}

/*
 * The first @n_known entries are in order. What a killed process was writing is nobody's: its samples went
 * with it.
 */
static int scan_entry(Spool *spool, const char *name, size_t n_known) {
        SpoolEntry entry;
        struct stat st;

        if (!strcmp(name, SPOOL_TEMPORARY) && !spool->read_only)
                unlinkat(spool->fd, name, 0);
        if (parse_name(name, &entry) || fstatat(spool->fd, name, &st, AT_SYMLINK_NOFOLLOW) ||
            !S_ISREG(st.st_mode))
                return 0;
        if (n_known && bsearch(&entry, spool->entries + spool->first, n_known, sizeof(entry), spool_by_age))
                return 0;
        entry.size = (uint64_t)st.st_size;
        entry.flushed = true;           /* or will be by the kernel, long before it is asked for */
        spool->sequence = MAX(spool->sequence, entry.sequence);
        return spool_append(spool, &entry);
}

static int scan(Spool *spool) {
        int fd = openat(spool->fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC), r = 0;
        DIR *dir = fd < 0 ? NULL : fdopendir(fd);
        size_t n_known = spool_n(spool);
        struct dirent *file;
        Aside aside = { 0 };

        if (!dir) {
                closep(&fd);
                return unusable("%s", strerror(errno));
        }
        while (!r && (file = readdir(dir)))
                if (is_aside(file->d_name) && !spool->read_only)
                        keep_newest_aside(spool, &aside, file->d_name);
                else
                        r = scan_entry(spool, file->d_name, n_known);
        closedir(dir);
        if (spool_n(spool))
                qsort(spool->entries + spool->first, spool_n(spool), sizeof(*spool->entries), spool_by_age);
        return r;
}

/* To look into what another user owns is no harm, and root may. */
static int check_directory(int fd, bool read_only) {
        bool may_look = read_only && geteuid() == 0;
        struct stat st;

        if (fstat(fd, &st) < 0)
                return unusable("%s", strerror(errno));
        errno = EPERM;
        if (st.st_uid != geteuid() && st.st_uid != 0 && !may_look)
                return unusable("it belongs to user %u", st.st_uid);
        if (st.st_mode & 022)
                return unusable("others may write there (mode %03o)", st.st_mode & 0777);
        return 0;
}

static int open_directory(Spool *spool, const char *path) {
        if (!spool->read_only && mkdir(path, 0700) < 0 && errno != EEXIST)
                return unusable("%s", strerror(errno));
        spool->fd = open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
        if (spool->fd < 0)
                return unusable("%s",
                                errno == ELOOP || errno == ENOTDIR ? "no directory, or a symbolic link"
                                                                   : strerror(errno));
        return check_directory(spool->fd, spool->read_only);
}

static int take_lock(Spool *spool) {
        spool->lock = openat(spool->fd, "lock", O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK, 0600);
        if (spool->lock < 0)
                return unusable("cannot lock it: %s", strerror(errno));
        if (flock(spool->lock, LOCK_EX | LOCK_NB) < 0)
                return errno == EWOULDBLOCK ? SPOOL_E_LOCKED
                                            : unusable("cannot lock it: %s", strerror(errno));
        return 0;
}

static bool is_elsewhere(const Spool *spool) {
        struct stat ours, there;

        if (fstat(spool->fd, &ours) < 0)
                return false;
        if (lstat(spool->path, &there) < 0)
                /* one that was only moved is as good as it was */
                return errno == ENOENT && !ours.st_nlink;
        return there.st_dev != ours.st_dev || there.st_ino != ours.st_ino;
}

/*
 * What was in the old one and is not in the new one stays in the index until it is read: one that is just
 * being sent is not lost.
 */
int spool_follow(Spool *spool) {
        Spool there = { .fd = -1, .lock = -1 };
        int r, error;

        if (!is_elsewhere(spool))
                return 0;
        r = open_directory(&there, spool->path);
        if (!r)
                r = take_lock(&there);
        if (r) {
                error = r == SPOOL_E_LOCKED ? EBUSY : errno;
                closep(&there.fd);
                closep(&there.lock);
                errno = error;
                return SPOOL_E_FAILED;
        }
        closep(&spool->fd);
        closep(&spool->lock);
        spool->fd = there.fd;
        spool->lock = there.lock;
        spool->counts.n_directories++;
        r = scan(spool);
        if (r == SPOOL_E_UNUSABLE)
                return SPOOL_E_FAILED;
        return r ? error_fold(r) : 0;
}

static bool is_ours(const char *name) {
        SpoolEntry entry;

        return !strcmp(name, "lock") || !strcmp(name, SPOOL_TEMPORARY) || is_aside(name) ||
                !parse_name(name, &entry);
}

int spool_give(const char *path, uint32_t uid, uint32_t gid) {
        return directory_give(path, uid, gid, is_ours);
}

int spool_new(Spool **spoolp, const char *path, const SpoolLimits *limits, bool read_only) {
        _cleanup_(spool_freep) Spool *spool = calloc(1, sizeof(*spool));
        int r;

        if (!spool)
                return error_origin(-ENOMEM);
        spool->fd = spool->lock = -1;
        spool->read_only = read_only;
        spool->limits = limits ? *limits : (SpoolLimits){ 0 };
        spool->path = strdup(path);
        if (!spool->path)
                return error_origin(-ENOMEM);
        r = open_directory(spool, path);
        if (!r && !read_only)
                r = take_lock(spool);
        if (!r)
                r = scan(spool);
        if (r)
                return r;
        *spoolp = take(spool);
        return 0;
}

Spool *spool_free(Spool *spool) {
        if (!spool)
                return NULL;
        closep(&spool->fd);
        closep(&spool->lock);
        free(spool->entries);
        free(spool->path);
        free(spool);
        return NULL;
}

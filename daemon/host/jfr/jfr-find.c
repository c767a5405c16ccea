/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Goes over /proc/PID/fd in a bounded call, since a file of FUSE may hang there. A regular file whose name
 * fits is opened, and no byte of it is looked at here.
 */
#include "host/jfr/jfr-find.h"

#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/base/file/directory.h"
#include "core/base/file/file.h"
#include "core/base/thread/bounded-call.h"
#include "core/base/util/error.h"
#include "host/sampling/process/process-directory.h"

enum {
        MAX_PATH = 4096,
        MAX_DESCRIPTORS = 1 << 12,      /* descriptors of a process that are looked at */
        N_DATE = 6,                     /* numbers of YYYY_MM_DD_HH_MM_SS */
};

/* ---- names ---- */

/* Passes over numbers with `_` between them. Return: how many. */
static unsigned pass_numbers(const char **atp) {
        const char *at = *atp;
        unsigned n = 0;

        while (isdigit((unsigned char)*at)) {
                at += strspn(at, "0123456789");
                n++;
                if (*at != '_' || !isdigit((unsigned char)at[1]))
                        break;
                at++;
        }
        *atp = at;
        return n;
}

/* The JVM adds a number where two chunks begin in one second, and the kernel that a file was removed. */
static bool is_chunk_name(const char *name) {
        unsigned n = pass_numbers(&name);

        return (n == N_DATE || n == N_DATE + 1) && (!strcmp(name, ".jfr") || !strcmp(name, ".jfr (deleted)"));
}

/* A date and the process' id, in a namespace of its own maybe; then what the JVM adds to be alone. */
static bool is_repository_name(const char *name, size_t size) {
        const char *end = name;
        unsigned n = pass_numbers(&end);

        return end == name + size && (n == N_DATE + 1 || n == N_DATE + 2);
}

bool jfr_find_is_chunk(const char *path) {
        const char *name = strrchr(path, '/'), *begin;

        if (!name || name == path || !is_chunk_name(name + 1))
                return false;
        for (begin = name; begin > path && begin[-1] != '/'; begin--)
                ;
        return is_repository_name(begin, (size_t)(name - begin));
}

/* ---- chunks that were left ---- */

static unsigned place_of(const JfrLefts *lefts, dev_t device, ino_t inode) {
        unsigned i = 0;

        while (i < lefts->n && (lefts->items[i].device != device || lefts->items[i].inode != inode))
                i++;
        return i;
}

static void remove_at(JfrLefts *lefts, unsigned i) {
        lefts->n--;
        memmove(&lefts->items[i], &lefts->items[i + 1], (lefts->n - i) * sizeof(lefts->items[0]));
}

void jfr_lefts_add(JfrLefts *lefts, const JfrLeft *left) {
        if (lefts->n == JFR_FIND_MAX_LEFT)
                remove_at(lefts, 0);
        lefts->items[lefts->n++] = *left;
}

bool jfr_lefts_take(JfrLefts *lefts, const JfrFile *file, JfrLeft *left) {
        unsigned i = place_of(lefts, file->device, file->inode);

        if (i == lefts->n)
                return false;
        *left = lefts->items[i];
        remove_at(lefts, i);
        return true;
}

/* ---- descriptors ---- */

/* Between them: 1 + place among those that were left. */
enum { RANK_NEW = 0, RANK_NONE = JFR_FIND_MAX_LEFT + 1 };

typedef struct Search {
        pid_t pid;
        uint64_t start_time_ns;
        JfrFile known, found;
        JfrLefts lefts;
        unsigned rank;                  /* of `found` */
} Search;

static bool is_known(const Search *search, const struct stat *stat) {
        return search->known.fd >= 0 && search->known.device == stat->st_dev &&
                search->known.inode == stat->st_ino;
}

/* The least one is wanted most. */
static unsigned rank_of(const Search *search, const struct stat *stat) {
        unsigned place = place_of(&search->lefts, stat->st_dev, stat->st_ino);

        if (is_known(search, stat))
                return RANK_NONE;
        return place < search->lefts.n ? 1 + place : RANK_NEW;
}

/* Descriptors that are open for writing: the JVM's own. Who reads another one's recording has none. */
static bool is_writers(int directory, const char *name) {
        struct stat link;

        return !fstatat(directory, name, &link, AT_SYMLINK_NOFOLLOW) && (link.st_mode & S_IWUSR);
}

/* Return: 0 with a better search->found, JFR_FIND_E_*. */
static int look_at(Search *search, int directory, const char *name) {
        char path[MAX_PATH + 1];
        ssize_t n = readlinkat(directory, name, path, MAX_PATH);
        struct stat stat;
        int fd;

        if (n <= 0 || n >= MAX_PATH)
                return JFR_FIND_E_NONE;
        path[n] = 0;
        if (!jfr_find_is_chunk(path) || !is_writers(directory, name) ||
            fstatat(directory, name, &stat, 0) || !S_ISREG(stat.st_mode) ||
            rank_of(search, &stat) >= search->rank)
                return JFR_FIND_E_NONE;
        fd = openat(directory, name, O_RDONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
        if (fd < 0)
                return errno == EACCES ? JFR_FIND_E_DENIED : JFR_FIND_E_NONE;
        if (fstat(fd, &stat) || !S_ISREG(stat.st_mode) || rank_of(search, &stat) >= search->rank) {
                closep(&fd);
                return JFR_FIND_E_NONE;
        }
        closep(&search->found.fd);
        search->rank = rank_of(search, &stat);
        search->found = (JfrFile){ fd, stat.st_dev, stat.st_ino };
        return 0;
}

static int search_all(Search *search, int proc) {
        _cleanup_(closedirp) DIR *dir = NULL;
        int r = JFR_FIND_E_NONE, fd = openat(proc, "fd", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        uint32_t number;

        if (fd < 0)
                return process_condition(errno) == PROCESS_E_DENIED ? JFR_FIND_E_DENIED : JFR_FIND_E_GONE;
        dir = fdopendir(fd);
        if (!dir) {
                closep(&fd);
                return JFR_FIND_E_NONE;
        }
        for (uint32_t i = 0; search->rank != RANK_NEW && r != JFR_FIND_E_DENIED && i < MAX_DESCRIPTORS; i++) {
                char name[16];

                if (!directory_next_number(dir, &number))
                        break;
                snprintf(name, sizeof(name), "%u", number);
                r = look_at(search, dirfd(dir), name);
        }
        return search->found.fd >= 0 ? 0 : r;
}

static ssize_t search_here(void *data) {
        Search *search = data;
        _cleanup_(closep) int proc = -1;
        int r = process_open(search->pid, search->start_time_ns, &proc);

        if (r)
                return r == PROCESS_E_DENIED ? JFR_FIND_E_DENIED : JFR_FIND_E_GONE;
        return search_all(search, proc);
}

static void drop(void *data) {
        Search *search = data;

        closep(&search->found.fd);
        free(search);
}

int jfr_find(pid_t pid, uint64_t start_time_ns, const JfrFile *known, const JfrLefts *lefts,
             JfrFile *file) {
        Search *search = malloc(sizeof(*search));
        void *data = search;
        ssize_t result = 0;
        int r;

        if (!search)
                return error_origin(-ENOMEM);
        *search = (Search){ pid, start_time_ns, *known, { .fd = -1 }, *lefts, RANK_NONE };
        r = bounded_hand_over(pid, search_here, drop, &data, &result);
        search = data;
        if (!r && !result)
                *file = search->found;
        else if (search)
                closep(&search->found.fd);
        free(search);
        return r < 0 ? error_fold(r) : r ? JFR_FIND_E_NONE : (int)result;
}

bool jfr_find_is_recording(pid_t pid) {
        Search search = { .pid = pid, .known.fd = -1, .found.fd = -1, .rank = RANK_NONE };
        int r = search_here(&search);

        closep(&search.found.fd);
        return !r;
}

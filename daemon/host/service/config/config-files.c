/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Finds configuration files, puts them in order (systemd's rules for drop-ins), and judges whether root
 * believes them.
 *
 * The daemon's user owns /run/spanprof, for its socket. So a daemon that was taken over can put another
 * directory, or a link, in the place of spanprof.conf.d there. The next start by root must not take that as
 * configuration. As root:
 *
 *     spanprof.conf.d     is root's, and no other user may write it; it may be a link only in a directory of
 *                         which the same is true
 *     a file in it        is root's, and no other user may write it
 *     spanprof.conf       the same, and so is its directory
 *
 * Each step is opened below the descriptor of the step before, and the descriptor is what is judged: nothing
 * can be exchanged between the look and the reading. A refusal is a mistake of the configuration like others.
 * Nothing tells that another user has moved a directory away (docs/SECURITY.md).
 */

#include "host/service/config/config-files.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statvfs.h>

#include "core/base/file/file.h"
#include "core/base/util/error.h"
#include "core/base/util/macro.h"

#define DROP_INS "spanprof.conf.d"

enum { PROBLEM_MAX = 160 };

/* Weakest first: of two drop-ins with the same name, the administrator's counts. */
static const char *const directories[] = { "/usr/lib/spanprof", "/run/spanprof", "/etc/spanprof" };

typedef struct DropIn {
        char *path;
        const char *name;               /* last part of `path` */
        size_t rank;                    /* index of its directory */
} DropIn;

typedef struct Search {
        const char *root;
        bool as_root;
        ConfigVisit visit;
        void *userdata;
        DropIn *items;
        size_t n_items;
        int fds[ARRAY_SIZE(directories)];       /* directories of drop-ins, -1 = none */
} Search;

static void search_deinit(Search *search) {
        for (size_t i = 0; i < search->n_items; i++)
                free(search->items[i].path);
        for (size_t i = 0; i < ARRAY_SIZE(directories); i++)
                closep(&search->fds[i]);
        free(search->items);
}

/* ---- whether root believes it ---- */

/* Modes on a read-only volume mean nothing: Kubernetes makes directories of ConfigMaps with mode 0777. */
static bool is_read_only(int fd) {
        struct statvfs volume;

        return !fstatvfs(fd, &volume) && volume.f_flag & ST_RDONLY;
}

/* Members of root's group count as root. /dev/null, which stands for no file, holds nothing to believe. */
static bool others_may_write(int fd, const struct stat *st) {
        bool by_mode = st->st_mode & S_IWOTH || (st->st_mode & S_IWGRP && st->st_gid != 0);

        return by_mode && !S_ISCHR(st->st_mode) && !is_read_only(fd);
}

/* Return: whether root believes what @fd is; if not, @problem says why. */
static bool is_trusted(int fd, char *problem) {
        struct stat st;

        if (fstat(fd, &st) < 0)
                snprintf(problem, PROBLEM_MAX, "%s", strerror(errno));
        else if (st.st_uid != 0)
                snprintf(problem, PROBLEM_MAX,
                         "belongs to user %u, and root reads configuration only from root: chown it to root, or remove it",
                         (unsigned)st.st_uid);
        else if (others_may_write(fd, &st))
                snprintf(problem, PROBLEM_MAX,
                         "other users may write it, so root does not read it as configuration: chmod go-w, or remove it");
        else
                return true;
        return false;
}

/* ---- finding them ---- */

static bool is_drop_in(const char *name) {
        size_t length = strlen(name);

        return name[0] != '.' && length > 5 && !strcmp(name + length - 5, ".conf");
}

static int add(Search *search, const char *directory, const char *name, size_t rank) {
        DropIn *items = reallocarray(search->items, search->n_items + 1, sizeof(*items));
        char *path;

        if (!items)
                return error_origin(-ENOMEM);
        search->items = items;
        if (asprintf(&path, "%s/%s", directory, name) < 0)
                return error_origin(-ENOMEM);
        items[search->n_items++] = (DropIn){ path, path + strlen(directory) + 1, rank };
        return 0;
}

/*
 * A path that does not exist configures nothing. One that exists and cannot be looked at (a link to nowhere,
 * no right, no descriptor) may.
 */
static bool is_absent(int error) {
        return error == ENOENT || error == ENOTDIR;
}

static int visit_problem(const Search *search, const char *path, const char *problem) {
        const ConfigFile file = { .path = path, .fd = -1, .problem = problem };

        return search->visit(&file, search->userdata);
}

static bool is_link(int directory, const char *name) {
        struct stat st;

        return !fstatat(directory, name, &st, AT_SYMLINK_NOFOLLOW) && S_ISLNK(st.st_mode);
}

/* Return: a descriptor; -1 = none is there, or @problem says what is wrong. */
static int open_drop_ins(const Search *search, size_t rank, char *problem) {
        _cleanup_(closep) int parent = -1, fd = -1;
        char path[PATH_MAX], ignored[PROBLEM_MAX];
        bool follow;
        int error;

        snprintf(path, sizeof(path), "%s%s", search->root, directories[rank]);
        parent = open(path, O_PATH | O_DIRECTORY | O_CLOEXEC);
        follow = parent >= 0 && (!search->as_root || is_trusted(parent, ignored));
        if (parent >= 0)
                fd = openat(parent, DROP_INS,
                            O_RDONLY | O_DIRECTORY | O_CLOEXEC | (follow ? 0 : O_NOFOLLOW));
        error = errno;
        if (fd < 0 && parent >= 0 && !follow && is_link(parent, DROP_INS))
                snprintf(problem, PROBLEM_MAX,
                         "is a link that another user than root can make, so root does not follow it: remove it");
        else if (fd < 0 && !is_absent(error))
                snprintf(problem, PROBLEM_MAX, "%s", strerror(error));
        if (fd >= 0 && search->as_root && !is_trusted(fd, problem))
                return -1;
        return fd >= 0 ? take_fd(fd) : -1;
}

static int list_drop_ins(Search *search, const char *directory, size_t rank) {
        int fd = fcntl(search->fds[rank], F_DUPFD_CLOEXEC, 0);
        DIR *dir = fd >= 0 ? fdopendir(fd) : NULL;
        struct dirent *entry;
        int r = 0;

        if (!dir) {
                r = visit_problem(search, directory, strerror(errno));
                closep(&fd);
                return r;
        }
        while (!r && (entry = readdir(dir)))
                if (is_drop_in(entry->d_name))
                        r = add(search, directory, entry->d_name, rank);
        closedir(dir);
        return r;
}

static int scan(Search *search, size_t rank) {
        _cleanup_(freep) char *directory = NULL;
        char problem[PROBLEM_MAX] = "";

        if (asprintf(&directory, "%s%s/" DROP_INS, search->root, directories[rank]) < 0)
                return error_origin(-ENOMEM);
        search->fds[rank] = open_drop_ins(search, rank, problem);
        if (*problem)
                return visit_problem(search, directory, problem);
        return search->fds[rank] < 0 ? 0 : list_drop_ins(search, directory, rank);
}

static int compare(const void *a, const void *b) {
        const DropIn *left = a, *right = b;
        int order = strcmp(left->name, right->name);

        return order ? order : left->rank < right->rank ? -1 : left->rank > right->rank;
}

/* ---- visiting them ---- */

static int visit_file(const Search *search, int directory, const char *name, const char *path) {
        _cleanup_(closep) int fd = -1;
        char problem[PROBLEM_MAX];
        int r = file_open_regular_at(directory, name, &fd);
        ConfigFile file = { .path = path };

        if (r)
                return visit_problem(search, path, r == FILE_E_KIND ? "not a regular file" : strerror(errno));
        if (search->as_root && !is_trusted(fd, problem))
                return visit_problem(search, path, problem);
        file.fd = fd;
        return search->visit(&file, search->userdata);
}

static int visit_main(const Search *search) {
        _cleanup_(closep) int parent = -1;
        char path[PATH_MAX], problem[PROBLEM_MAX];
        struct stat st;

        snprintf(path, sizeof(path), "%s/etc/spanprof", search->root);
        parent = open(path, O_PATH | O_DIRECTORY | O_CLOEXEC);
        if (parent < 0)
                return is_absent(errno) ? 0 : visit_problem(search, path, strerror(errno));
        if (fstatat(parent, "spanprof.conf", &st, AT_SYMLINK_NOFOLLOW) && is_absent(errno))
                return 0;
        if (search->as_root && !is_trusted(parent, problem))
                return visit_problem(search, path, problem);
        snprintf(path, sizeof(path), "%s/etc/spanprof/spanprof.conf", search->root);
        return visit_file(search, parent, "spanprof.conf", path);
}

int config_visit_files(const char *root, bool as_root, ConfigVisit visit, void *userdata) {
        _cleanup_(search_deinit) Search search = {
                .root = root, .as_root = as_root, .visit = visit, .userdata = userdata, .fds = { -1, -1, -1 },
        };
        int r = 0;

        for (size_t i = 0; !r && i < ARRAY_SIZE(directories); i++)
                r = scan(&search, i);
        if (!r)
                r = visit_main(&search);
        if (search.n_items)
                qsort(search.items, search.n_items, sizeof(*search.items), compare);
        for (size_t i = 0; !r && i < search.n_items; i++) {
                const DropIn *item = &search.items[i];
                bool masked = i + 1 < search.n_items && !strcmp(item->name, item[1].name);

                if (!masked)
                        r = visit_file(&search, search.fds[item->rank], item->name, item->path);
        }
        return r;
}

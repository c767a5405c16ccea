/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Walks to an output file part by part, and judges each directory, link and file by its owner and mode
 * before it goes on. The new file gets its name when it is whole.
 */

#include "core/base/file/outfile.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/magic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/sysmacros.h>
#include <sys/vfs.h>
#include <sys/xattr.h>
#include <unistd.h>

#include "core/base/file/file.h"
#include "core/base/util/macro.h"
#include "core/base/util/text.h"

enum { MAX_LINKS = 40 };                /* as the kernel has it */

const char *outfile_problem(int r) {
        static const char *const problems[] = {
                [OUTFILE_E_LINK] =
                        "a link on the way to it belongs to another user, or lies where others may write: name the file itself, or remove the link",
                [OUTFILE_E_OWNER] = "it belongs to another user: remove it, or choose another name",
                [OUTFILE_E_READERS] =
                        "it belongs to the caller of sudo, who may not read what it would be made from: remove it, or choose another name",
                [OUTFILE_E_DEVICE] =
                        "it is a device or a socket: choose a file, a pipe, a terminal, /dev/null, or - for standard output",
                [OUTFILE_E_UNREAD] = "nobody reads this pipe: start its reader first",
                [OUTFILE_E_OLD] =
                        "what is called so with .old behind it belongs to another user, or is no file: remove it, or choose another name",
                [OUTFILE_E_NAMES] =
                        "it has other names (hard links), which would be written to as well: remove it, or choose another name",
                [OUTFILE_E_SHARED] =
                        "others may write to its directory, or to one above it: choose a directory that only you can change",
                [OUTFILE_E_KIND] =
                        "there is a file of another kind; it is left alone: remove it, or choose another name",
                [OUTFILE_E_CHANGED] =
                        "somebody else has put something there meanwhile: choose a directory that only you can change",
        };

        return r < 0 ? strerror(-r) : problems[r];
}

/* ---- who ---- */

/* sudo(8) says who has called it. */
static bool find_caller(uid_t *uidp, gid_t *gidp) {
        const char *user = getenv("SUDO_UID"), *group = getenv("SUDO_GID");
        uint64_t uid, gid;

        if (geteuid() || !user || !group || text_u64(user, UINT32_MAX - 1, &uid) ||
            text_u64(group, UINT32_MAX - 1, &gid))
                return false;
        *uidp = (uid_t)uid;
        *gidp = (gid_t)gid;
        return true;
}

static bool is_callers(uid_t uid) {
        uid_t caller;
        gid_t group;

        return find_caller(&caller, &group) && uid == caller;
}

static bool is_trusted(uid_t uid) {
        return uid == 0 || uid == geteuid() || is_callers(uid);
}

static bool is_for_all(const struct stat *directory) {
        return directory->st_mode & S_IWOTH;
}

/* A link of any user can get any name where all users may rename. */
static bool may_follow(const struct stat *directory, const struct stat *link) {
        if (!is_trusted(directory->st_uid) || !is_trusted(link->st_uid))
                return false;
        if (!is_for_all(directory))
                return true;
        return (directory->st_mode & S_ISVTX) && (link->st_uid == 0 || link->st_uid == geteuid());
}

void outfile_note_input(OutfileReaders *readers, const struct stat *input) {
        bool group = input->st_mode & S_IRGRP;

        if (!S_ISREG(input->st_mode) || (input->st_mode & S_IROTH))
                return;
        readers->several |= readers->limited && readers->uid != input->st_uid;
        readers->group = group && (!readers->limited || (readers->group && readers->gid == input->st_gid));
        readers->limited = true;
        readers->uid = input->st_uid;
        readers->gid = input->st_gid;
}

static bool may_read(const OutfileReaders *readers, uid_t uid) {
        return !readers->limited || (!readers->several && readers->uid == uid);
}

/* ---- the way to it ---- */

typedef struct Walk {
        int directory;                  /* reached so far, O_PATH */
        struct stat parent;             /* status of `directory` */
        char *rest;                     /* rest of the path */
        unsigned n_links;
        bool hidden;                    /* below a directory that only we, root or its group may enter */
        bool exposed;                   /* another user may change the way */
        int there;                      /* the end of it */
        struct stat status;
        char *name;
} Walk;

static void walk_deinit(Walk *walk) {
        closep(&walk->directory);
        closep(&walk->there);
        free(walk->rest);
        free(walk->name);
}

static int enter(Walk *walk, int fd) {
        bool trusted;

        if (fd < 0)
                return -errno;
        closep(&walk->directory);
        walk->directory = fd;
        if (fstat(fd, &walk->parent) < 0)
                return -errno;
        trusted = is_trusted(walk->parent.st_uid);
        walk->exposed |= !walk->hidden &&
                (!trusted || (is_for_all(&walk->parent) && !(walk->parent.st_mode & S_ISVTX)));
        walk->hidden |= trusted && !(walk->parent.st_mode & S_IXOTH);
        return 0;
}

static int set_rest(Walk *walk, const char *first, const char *behind) {
        char *rest;

        if (asprintf(&rest, "%s%s", first, behind) < 0)
                return -ENOMEM;
        free(walk->rest);
        walk->rest = rest;
        return 0;
}

static bool is_procfs(int fd) {
        struct statfs fs;

        return !fstatfs(fd, &fs) && fs.f_type == PROC_SUPER_MAGIC;
}

static int read_link(int link, char *target, size_t size) {
        ssize_t n = readlinkat(link, "", target, size);

        if (n < 0 || (size_t)n >= size)
                return n < 0 ? -errno : -ENAMETOOLONG;
        target[n] = 0;
        return n ? 0 : -ENOENT;
}

/*
 * Links of procfs say in words what they lead to, and lead there: to pipes without a name, or into other
 * roots. Return: 1 = goes by words.
 */
static int follow_in_procfs(Walk *walk, const char *name, const char *behind, bool *donep) {
        _cleanup_(closep) int fd = openat(walk->directory, name, O_PATH | O_CLOEXEC);
        int r;

        if (fd < 0 || fstat(fd, &walk->status) < 0)
                return -errno;
        if (S_ISREG(walk->status.st_mode))
                return 1;
        if (!S_ISDIR(walk->status.st_mode) && *behind)
                return -ENOTDIR;
        if (S_ISDIR(walk->status.st_mode)) {
                r = enter(walk, take_fd(fd));
                return r ? r : set_rest(walk, "", *behind ? behind : "/");
        }
        walk->there = take_fd(fd);
        *donep = true;
        return 0;
}

static int follow(Walk *walk, int link, const char *name, const char *behind, bool *donep) {
        char target[PATH_MAX];
        int r = 1;

        if (!may_follow(&walk->parent, &walk->status))
                return OUTFILE_E_LINK;
        if (walk->n_links++ == MAX_LINKS)
                return -ELOOP;
        if (is_procfs(walk->directory))
                r = follow_in_procfs(walk, name, behind, donep);
        if (r <= 0)
                return r;
        r = read_link(link, target, sizeof(target));
        if (!r && *target == '/')
                r = enter(walk, open("/", O_PATH | O_DIRECTORY | O_CLOEXEC));
        return r ? r : set_rest(walk, target, behind);
}

/* As a directory first, since only then are filesystems mounted that wait for their first use. */
static int open_part(const Walk *walk, const char *name, bool last) {
        int flags = O_PATH | O_NOFOLLOW | O_CLOEXEC, fd = -1;

        if (!last)
                fd = openat(walk->directory, name, flags | O_DIRECTORY);
        if (last || (fd < 0 && errno == ENOTDIR))
                fd = openat(walk->directory, name, flags);
        return fd;
}

static int arrive(Walk *walk, int fd, char *name, bool *donep) {
        walk->there = fd;
        walk->name = name;
        *donep = true;
        return name ? 0 : -ENOMEM;
}

/* Goes one part of the path further. *donep: the way ends here. */
static int step(Walk *walk, bool *donep) {
        const char *begin = walk->rest + strspn(walk->rest, "/"), *behind = begin + strcspn(begin, "/");
        _cleanup_(freep) char *name = strndup(begin, (size_t)(behind - begin));
        _cleanup_(closep) int fd = -1;
        int r;

        if (!name)
                return -ENOMEM;
        if (!*name)
                return -EISDIR;
        fd = open_part(walk, name, !*behind);
        if (fd < 0 && errno == ENOENT && !*behind)
                return arrive(walk, -1, take(name), donep);
        if (fd < 0 || fstat(fd, &walk->status) < 0)
                return -errno;
        if (S_ISLNK(walk->status.st_mode))
                return follow(walk, fd, name, behind, donep);
        if (!*behind)
                return arrive(walk, take_fd(fd), take(name), donep);
        if (!S_ISDIR(walk->status.st_mode))
                return -ENOTDIR;
        r = enter(walk, take_fd(fd));
        return r ? r : set_rest(walk, "", behind);
}

static int walk_to(Walk *walk, const char *path) {
        bool done = false;
        int r;

        *walk = (Walk){ .directory = -1, .there = -1 };
        if (!*path)
                return -ENOENT;
        r = enter(walk, open(*path == '/' ? "/" : ".", O_PATH | O_DIRECTORY | O_CLOEXEC));
        if (!r)
                r = set_rest(walk, path, "");
        while (!r && !done)
                r = step(walk, &done);
        return r;
}

/* ---- what is there ---- */

/* By their numbers, as to open a device can do something already. ptmx would make a new terminal. */
static bool is_terminal(dev_t device) {
        char path[64], target[256];
        const char *slash;
        ssize_t n;

        if (major(device) == 5)
                return minor(device) <= 1;
        if (major(device) == 4 || (major(device) >= 136 && major(device) <= 143))
                return true;
        snprintf(path, sizeof(path), "/sys/dev/char/%u:%u/subsystem", major(device), minor(device));
        n = readlink(path, target, sizeof(target) - 1);
        target[MAX(n, 0)] = 0;
        slash = strrchr(target, '/');
        return slash && !strcmp(slash, "/tty");
}

static bool is_null(const struct stat *status) {
        return S_ISCHR(status->st_mode) && status->st_rdev == makedev(1, 3);
}

static int judge_file(const OutfileOptions *options, const struct stat *status) {
        if (status->st_uid == geteuid())
                return 0;
        if (!is_callers(status->st_uid))
                return OUTFILE_E_OWNER;
        return may_read(&options->readers, status->st_uid) ? 0 : OUTFILE_E_READERS;
}

/* Return: 0 = it may be replaced, or written into. */
static int judge(const OutfileOptions *options, const struct stat *status) {
        switch (status->st_mode & S_IFMT) {
        case S_IFREG:
                return options->append && status->st_nlink > 1 ? OUTFILE_E_NAMES
                                                               : judge_file(options, status);
        case S_IFDIR:
                return -EISDIR;
        case S_IFIFO:
                return is_trusted(status->st_uid) ? 0 : OUTFILE_E_OWNER;
        case S_IFCHR:
                return is_null(status) || is_terminal(status->st_rdev) ? 0 : OUTFILE_E_DEVICE;
        default:
                return OUTFILE_E_DEVICE;
        }
}

static void fd_name(char name[32], int fd) {
        snprintf(name, 32, "/proc/self/fd/%d", fd);
}

/* Whether no other user can put anything into a directory, or another one into its place. */
static int find_path(Outfile *file) {
        _cleanup_(walk_deinit) Walk walk = { .directory = -1, .there = -1 };
        char link[32], text[PATH_MAX];
        struct stat ours;
        ssize_t n;
        int r;

        fd_name(link, file->directory);
        n = readlink(link, text, sizeof(text) - 1);
        if (n < 0 || fstat(file->directory, &ours) < 0)
                return -errno;
        text[n] = 0;
        if (asprintf(&file->path, "%s/%s", n > 1 ? text : "", file->name) < 0) {
                file->path = NULL;
                return -ENOMEM;
        }
        r = walk_to(&walk, file->path);
        if (r)
                return r;
        if (walk.parent.st_dev != ours.st_dev || walk.parent.st_ino != ours.st_ino)
                return OUTFILE_E_CHANGED;
        return walk.exposed || (is_for_all(&walk.parent) && !walk.hidden) ? OUTFILE_E_SHARED : 0;
}

static int old_name(const Outfile *file, char name[NAME_MAX + 1]) {
        return snprintf(name, NAME_MAX + 1, "%s.old", file->name) > NAME_MAX ? -ENAMETOOLONG : 0;
}

static int judge_old(const Outfile *file) {
        char name[NAME_MAX + 1];
        struct stat status;
        int r = old_name(file, name);

        if (r)
                return r;
        if (fstatat(file->directory, name, &status, AT_SYMLINK_NOFOLLOW) < 0)
                return errno == ENOENT ? 0 : -errno;
        return S_ISREG(status.st_mode) && (status.st_uid == geteuid() || is_callers(status.st_uid))
                ? 0
                : OUTFILE_E_OLD;
}

static bool is_written_into(const Outfile *file) {
        return file->there >= 0 && !S_ISREG(file->status.st_mode);
}

static int judge_all(Outfile *file) {
        int r = file->there >= 0 ? judge(&file->options, &file->status) : 0;

        if (!r && file->options.by_path && is_written_into(file))
                r = OUTFILE_E_KIND;
        if (!r && file->options.by_path)
                r = find_path(file);
        if (!r && file->options.keeps_old && !is_written_into(file))
                r = judge_old(file);
        return r;
}

int outfile_find(Outfile *file, const char *path, const OutfileOptions *options) {
        _cleanup_(walk_deinit) Walk walk = { .directory = -1, .there = -1 };
        int r;

        *file = OUTFILE_NONE;
        file->options = *options;
        if (!strcmp(path, "-"))
                return 0;
        r = walk_to(&walk, path);
        if (r)
                return r;
        file->directory = take_fd(walk.directory);
        file->there = take_fd(walk.there);
        file->status = walk.status;
        file->name = take(walk.name);
        return judge_all(file);
}

int outfile_expect(const Outfile *file, const char *start, size_t size) {
        _cleanup_(closep) int fd = -1;
        char data[64];

        if (file->there < 0 || is_null(&file->status))
                return 0;
        if (!S_ISREG(file->status.st_mode) || size > sizeof(data))
                return OUTFILE_E_KIND;
        fd = file_open_seen(file->there);
        if (fd < 0 ||
            (file->status.st_size &&
             (file_pread(fd, data, size, 0) != (ssize_t)size || memcmp(data, start, size))))
                return OUTFILE_E_KIND;
        return 0;
}

int outfile_remove(const Outfile *file, const char *suffix) {
        char name[NAME_MAX + 1];

        if (!file->name || (!*suffix && is_written_into(file)))
                return 0;
        if (snprintf(name, sizeof(name), "%s%s", file->name, suffix) >= (int)sizeof(name))
                return -ENAMETOOLONG;
        return unlinkat(file->directory, name, 0) < 0 && errno != ENOENT ? -errno : 0;
}

/* ---- what comes there ---- */

static int make_up_name(char name[32]) {
        uint64_t number;

        if (getrandom(&number, sizeof(number), 0) != sizeof(number))
                return -EAGAIN;
        snprintf(name, 32, ".spanprof-%016llx", (unsigned long long)number);
        return 0;
}

int outfile_open_temporary(int directory, char name[32]) {
        int fd, r = make_up_name(name);

        if (r)
                return r;
        fd = openat(directory, name, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
        if (fd >= 0)
                return fd;
        *name = 0;
        return -errno;
}

/* Without a name where the filesystem has that: whatever ends us leaves nothing. */
static int make(Outfile *file) {
        file->fd = openat(file->directory, ".", O_TMPFILE | O_WRONLY | O_CLOEXEC, 0600);
        if (file->fd < 0)
                file->fd = outfile_open_temporary(file->directory, file->temporary);
        file->replaces = file->fd >= 0;
        return MIN(file->fd, 0);
}

static int give_name(Outfile *file) {
        char from[32], name[32];
        int r;

        if (*file->temporary)
                return 0;
        r = make_up_name(name);
        if (r)
                return r;
        fd_name(from, file->fd);
        if (linkat(AT_FDCWD, from, file->directory, name, AT_SYMLINK_FOLLOW) < 0)
                return -errno;
        strcpy(file->temporary, name);
        return 0;
}

/* A list of users is not kept, and with one the group's rights are not the group's. */
static bool has_list(const Outfile *file) {
        char name[32];

        fd_name(name, file->there);
        return file->there >= 0 && getxattr(name, "system.posix_acl_access", NULL, 0) >= 0;
}

/* As open(2) would have made it. */
static mode_t without_umask(mode_t mode) {
        mode_t mask = umask(077);

        umask(mask);
        return mode & ~mask;
}

static mode_t readable_mode(const OutfileReaders *readers, gid_t gid) {
        if (!readers->limited)
                return 0777;
        return readers->group && gid == readers->gid ? 0770 : 0700;
}

/* @old: that it replaces, and whose owner, group and mode it keeps; NULL = nothing. */
static int give_rights(const Outfile *file, const struct stat *old) {
        const OutfileOptions *options = &file->options;
        mode_t mode = without_umask(options->mode);
        struct stat status;
        uid_t uid;
        gid_t gid;

        if (old && old->st_uid != geteuid() && fchown(file->fd, old->st_uid, (gid_t)-1) < 0)
                return -errno;
        if (old)
                mode &= fchown(file->fd, (uid_t)-1, old->st_gid) < 0 || has_list(file) ? old->st_mode & 0707
                                                                                       : old->st_mode;
        else if (options->for_caller && find_caller(&uid, &gid) && may_read(&options->readers, uid) &&
                 fchown(file->fd, uid, gid) < 0)
                mode &= 0700;           /* then it stays root's */
        if (fstat(file->fd, &status) < 0)
                return -errno;
        return fchmod(file->fd, mode & readable_mode(&options->readers, status.st_gid)) < 0 ? -errno : 0;
}

/* The file that is there goes first, so that at no time both are gone. */
static int keep_old(const Outfile *file) {
        char name[NAME_MAX + 1];
        int r = judge_old(file);

        if (!r)
                r = old_name(file, name);
        if (r)
                return r;
        if (unlinkat(file->directory, name, 0) < 0 && errno != ENOENT)
                return -errno;
        /* a second name where the filesystem has them: then the first is replaced in one step */
        return !linkat(file->directory, file->name, file->directory, name, 0) ||
                               !renameat(file->directory, file->name, file->directory, name) ? 0 : -errno;
}

static int close_now(Outfile *file) {
        return close(take_fd(file->fd)) < 0 ? -errno : 0;
}

static int take_place(Outfile *file, bool is_there) {
        int r = is_there && file->options.keeps_old ? keep_old(file) : 0;

        if (!r && renameat(file->directory, file->temporary, file->directory, file->name) < 0)
                r = -errno;
        if (r)
                return r;
        *file->temporary = 0;
        file->replaces = false;
        return 0;
}

/*
 * Judges again what is there: it may be another file by now. Some filesystems tell only at the close that
 * they are full.
 */
static int publish(Outfile *file, bool stays_open) {
        bool is_there;
        struct stat old;
        int r;

        is_there = !fstatat(file->directory, file->name, &old, AT_SYMLINK_NOFOLLOW);
        if (!is_there && errno != ENOENT)
                return -errno;
        if (is_there && (!S_ISREG(old.st_mode) || judge_file(&file->options, &old)))
                return OUTFILE_E_CHANGED;
        r = give_rights(file, is_there ? &old : NULL);
        if (!r)
                r = give_name(file);
        if (!r && !stays_open)
                r = close_now(file);
        return r ? r : take_place(file, is_there);
}

static int open_as_it_is(Outfile *file) {
        int no_wait = file->options.impatient && S_ISFIFO(file->status.st_mode) ? O_NONBLOCK : 0;
        char name[32];

        fd_name(name, file->there);
        file->fd = open(name,
                        O_WRONLY | O_CLOEXEC | O_NOCTTY | no_wait | (file->options.append ? O_APPEND : 0));
        if (file->fd < 0)
                return no_wait && errno == ENXIO ? OUTFILE_E_UNREAD : -errno;
        if (S_ISCHR(file->status.st_mode) && !is_null(&file->status) && !isatty(file->fd))
                return OUTFILE_E_DEVICE;
        return no_wait && fcntl(file->fd, F_SETFL, O_WRONLY) < 0 ? -errno : 0;
}

int outfile_begin(Outfile *file) {
        const OutfileOptions *options = &file->options;
        int r;

        if (file->directory < 0) {
                file->fd = STDOUT_FILENO;
                return 0;
        }
        if (is_written_into(file) || (options->append && file->there >= 0))
                return open_as_it_is(file);
        r = make(file);
        /* a library locks the file, and any close() of it by this process would take the lock away */
        return !r && (options->live || options->append || options->by_path) ? publish(file, !options->by_path)
                                                                            : r;
}

int outfile_open(Outfile *file, const char *path, const OutfileOptions *options) {
        int r = outfile_find(file, path, options);

        return r ? r : outfile_begin(file);
}

void outfile_abandon(const Outfile *file) {
        if (*file->temporary)
                unlinkat(file->directory, file->temporary, 0);
}

void outfile_deinit(Outfile *file) {
        outfile_abandon(file);
        if (file->directory >= 0)
                closep(&file->fd);
        closep(&file->directory);
        closep(&file->there);
        free(file->name);
        free(file->path);
        *file = OUTFILE_NONE;
}

/* A pipe is not opened only to look: its reader would take the close for the end. */
int outfile_check(const char *path, const OutfileOptions *options) {
        _cleanup_(outfile_deinit) Outfile file = OUTFILE_NONE;
        int r = outfile_find(&file, path, options);

        if (r || !is_written_into(&file))
                return r ? r : outfile_begin(&file);
        return faccessat(file.there, "", W_OK, AT_EMPTY_PATH | AT_EACCESS) < 0 ? -errno : 0;
}

const char *outfile_path(const Outfile *file) {
        return file->path;
}

int outfile_write(Outfile *file, const void *data, size_t size) {
        int r = file_write(file->fd, data, size);

        file->size += r ? 0 : size;
        return r;
}

int outfile_finish(Outfile *file) {
        if (file->directory < 0 || file->fd < 0)
                return 0;
        return file->replaces ? publish(file, false) : close_now(file);
}

/* ---- directories ---- */

static int open_there(const Walk *walk) {
        if (walk->there >= 0)
                return openat(walk->there, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        if (mkdirat(walk->directory, walk->name, 0700) < 0)
                return -1;
        return openat(walk->directory, walk->name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
}

/* Whether only a user whom we trust can have put a directory there. */
static bool is_placed_by_us(const struct stat *parent) {
        return is_trusted(parent->st_uid) && !(parent->st_mode & (S_IWGRP | S_IWOTH));
}

/* In a sticky directory only its owner, or root, can take another one away. */
static bool may_inherit(uid_t heir, const struct stat *directory, const struct stat *parent) {
        if (heir == OUTFILE_NO_HEIR)
                return false;
        return is_placed_by_us(parent) ||
                (directory->st_uid == heir && is_trusted(parent->st_uid) && (parent->st_mode & S_ISVTX));
}

int outfile_open_directory(const char *path, uid_t heir, int *fdp) {
        _cleanup_(walk_deinit) Walk walk = { .directory = -1, .there = -1 };
        _cleanup_(closep) int fd = -1;
        _cleanup_(freep) char *plain = strdup(path);
        struct stat status;
        int r;

        if (!plain)
                return -ENOMEM;
        for (size_t n = strlen(plain); n && plain[n - 1] == '/'; n--)
                plain[n - 1] = 0;
        r = walk_to(&walk, *path && !*plain ? "/." : plain);
        if (r)
                return r;
        fd = open_there(&walk);
        if (fd < 0 || fstat(fd, &status) < 0)
                return -errno;
        if (!is_trusted(status.st_uid) && !may_inherit(heir, &status, &walk.parent))
                return OUTFILE_E_OWNER;
        if (is_for_all(&status) && !(status.st_mode & S_ISVTX))
                return OUTFILE_E_SHARED;
        *fdp = take_fd(fd);
        return 0;
}

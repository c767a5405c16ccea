/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Opens a file that a target chose, without ever waiting for another machine or user:
 *
 *     1. the device in the maps line is looked up in mountinfo: of a file on FUSE or a network filesystem
 *        nothing is opened but a copy, which others make (remote-files.h);
 *     2. O_PATH of /proc/PID/map_files/START-END, which is the mapped file itself, deleted or not
 *        (without CAP_CHECKPOINT_RESTORE: the path in the target's root, only out of the kernel's name cache);
 *     3. statx with AT_STATX_DONT_SYNC asks no server; anything but a regular file ends here;
 *     4. the same file is opened for reading through /proc/self/fd with O_NONBLOCK (a lease would wait else).
 *
 * Known limit: an overlay over a FUSE filesystem looks like an overlay.
 */
#include "core/symbol/object/object-file.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/openat2.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include "core/base/data/intern.h"
#include "core/base/file/file.h"
#include "core/base/util/macro.h"
#include "core/symbol/object/deleted.h"
#include "core/symbol/object/remote-files.h"

/* Asks the process' own list of mounts, then ours. */
static MountKind mount_kind(ObjectSource *source, uint32_t major, uint32_t minor) {
        MountKind kind = mounts_of_process(source->mounts, source->proc_fd, major, minor);

        return kind == MOUNT_UNKNOWN ? mounts_of_us(major, minor) : kind;
}

/*
 * Whether the file may be opened. A device that mountinfo does not list is some block device of another mount
 * namespace (major number > 0), the kernel's own tmpfs, or not to be trusted.
 */
static bool is_trusted(MountKind kind, uint32_t major) {
        return kind == MOUNT_LOCAL || (kind == MOUNT_UNKNOWN && major);
}

static bool is_local(ObjectSource *source, dev_t memory_device) {
        uint32_t major = source->entry->major, minor = source->entry->minor;

        return (memory_device && makedev(major, minor) == memory_device) ||
                is_trusted(mount_kind(source, major, minor), major);
}

int object_file_open_by_path(const ObjectSource *source) {
        struct open_how how = { .flags = O_PATH | O_CLOEXEC | O_NOFOLLOW,
                                .resolve = RESOLVE_IN_ROOT | RESOLVE_NO_SYMLINKS | RESOLVE_CACHED };
        _cleanup_(closep) int root = openat(source->proc_fd, "root", O_PATH | O_CLOEXEC);

        return root < 0 ? -1 : (int)syscall(SYS_openat2, root, source->path, &how, sizeof(how));
}

static int open_mapped(const ObjectSource *source, bool *by_pathp) {
        char name[64];
        int fd;

        snprintf(name, sizeof(name), "map_files/%lx-%lx", (unsigned long)source->entry->start,
                 (unsigned long)source->entry->end);
        fd = openat(source->proc_fd, name, O_PATH | O_CLOEXEC);
        *by_pathp = fd < 0;
        return fd < 0 ? object_file_open_by_path(source) : fd;
}

/*
 * The last part of a path, as far as it may be said of a file that was deleted, or is called as if it were.
 */
static size_t base_size(const char *path, const char **basep) {
        const char *slash = strrchr(path, '/'), *base = slash ? slash + 1 : path;
        size_t size = strlen(base), plain;

        while ((plain = deleted_plain_size(base, size)) < size)
                size = plain;
        *basep = base;
        return size;
}

static bool has_name(int fd, const char *path) {
        const char *base, *wanted;
        char link[32], name[PATH_MAX];
        ssize_t n;
        size_t size;

        snprintf(link, sizeof(link), "/proc/self/fd/%d", fd);
        n = readlink(link, name, sizeof(name) - 1);
        if (n < 0)
                return false;
        name[n] = 0;
        size = base_size(name, &base);
        return size == base_size(path, &wanted) && !memcmp(base, wanted, size);
}

/*
 * Whether what was opened is what maps showed: another file may have taken the name, or its place in memory
 * while we were on the way. Overlay and btrfs show one device here and another in maps, overlay another inode
 * as well: where the kernel itself led us to the file, its name decides then.
 */
static bool is_entry(int fd, const struct statx *stx, const ObjectSource *source, bool by_path) {
        const MapsEntry *entry = source->entry;
        bool same_device = stx->stx_dev_major == entry->major && stx->stx_dev_minor == entry->minor;

        if (stx->stx_ino == entry->inode)
                return same_device || !entry->major || !by_path;
        return !by_path && !same_device && has_name(fd, source->path);
}

/* Asks statx() for what it knows without a server. Return: whether it is a regular file. */
static bool look(int fd, struct statx *stx) {
        return !statx(fd, "", AT_EMPTY_PATH | AT_STATX_DONT_SYNC, STATX_BASIC_STATS | STATX_BTIME, stx) &&
                S_ISREG(stx->stx_mode);
}

static int64_t time_ns(const struct statx_timestamp *time) {
        return time->tv_sec * INT64_C(1000000000) + time->tv_nsec;
}

static ObjectFile known_by(const struct statx *stx) {
        return (ObjectFile){ .device = makedev(stx->stx_dev_major, stx->stx_dev_minor),
                             .inode = stx->stx_ino,
                             .size = stx->stx_size,
                             .mtime_ns = time_ns(&stx->stx_mtime),
                             .ctime_ns = time_ns(&stx->stx_ctime),
                             .btime_ns = stx->stx_mask & STATX_BTIME ? time_ns(&stx->stx_btime) : 0 };
}

bool object_file_is_same(const ObjectFile *then, const ObjectFile *now) {
        return then->device == now->device && then->inode == now->inode && then->size == now->size &&
               then->mtime_ns == now->mtime_ns && then->btime_ns == now->btime_ns &&
               (then->btime_ns || then->ctime_ns == now->ctime_ns);
}

uint64_t object_file_number(const ObjectFile *file) {
        uint64_t number = hash_bytes(file, sizeof(*file)) & ~UINT64_C(1);

        return (number ?: 2) | file->is_remote;
}

int object_file_number_of(int fd, uint64_t *numberp, uid_t *ownerp) {
        struct statx stx;
        ObjectFile file;

        if (!look(fd, &stx))
                return OBJECT_E_UNREADABLE;
        file = known_by(&stx);
        if (remote_files_number_of(file.device, file.inode, numberp, ownerp))
                return 0;
        *numberp = object_file_number(&file);
        *ownerp = stx.stx_uid;
        return 0;
}

/* Asks for a copy of what was found. Return: 0 with *copy_fdp, OBJECT_E_AWAITED, OBJECT_E_REMOTE. */
static int ask_copy(ObjectFile *file, uid_t owner, int path_fd, const MountServer *server,
                    int *copy_fdp) {
        switch (remote_files_ask(file, owner, path_fd, server, copy_fdp)) {
        case REMOTE_FILE_THERE:
                return 0;
        case REMOTE_FILE_AWAITED:
                return OBJECT_E_AWAITED;
        default:
                return OBJECT_E_REMOTE;
        }
}

/*
 * A FUSE that lets in none but its user tells nobody else what the file is like. The kernel has led us to it
 * by the mapping, so its device and inode are those of the maps line.
 */
static int know_remote(const ObjectSource *source, int fd, bool by_path, ObjectFile *file, uid_t *ownerp) {
        struct statx stx;
        bool is_seen = look(fd, &stx);

        if (is_seen ? !is_entry(fd, &stx, source, by_path) : errno != EACCES || by_path)
                return OBJECT_E_REMOTE;
        *file = is_seen ? known_by(&stx)
                        : (ObjectFile){ .device = makedev(source->entry->major, source->entry->minor),
                                        .inode = source->entry->inode };
        file->is_remote = 1;
        *ownerp = is_seen ? stx.stx_uid : 0;
        return 0;
}

/* The O_PATH descriptor asks no server, neither when it is opened nor when it is closed. */
static int look_remote(ObjectSource *source, int *copy_fdp, ObjectFile *filep) {
        _cleanup_(closep) int fd = -1;
        MountServer server = { 0 };
        ObjectFile file;
        uid_t owner;
        bool by_path;
        int r;

        mounts_server_of_process(source->mounts, source->proc_fd, source->entry->major, source->entry->minor,
                                 &server);
        if (!remote_files_may_come(&server))
                return OBJECT_E_REMOTE;
        fd = open_mapped(source, &by_path);
        if (fd < 0 || know_remote(source, fd, by_path, &file, &owner))
                return OBJECT_E_REMOTE;
        r = ask_copy(&file, owner, fd, &server, copy_fdp);
        if (!r)
                *filep = file;
        return r;
}

int object_file_look(ObjectSource *source, dev_t memory_device, int *path_fdp, ObjectFile *filep) {
        _cleanup_(closep) int fd = -1;
        struct statx stx;
        bool by_path;

        if (!is_local(source, memory_device))
                return look_remote(source, path_fdp, filep);
        fd = open_mapped(source, &by_path);
        if (fd < 0 || !look(fd, &stx) || !is_entry(fd, &stx, source, by_path))
                return OBJECT_E_UNREADABLE;
        *filep = known_by(&stx);
        *path_fdp = take_fd(fd);
        return 0;
}

int object_file_look_here(const char *path, int *path_fdp, ObjectFile *filep) {
        struct open_how how = { .flags = O_PATH | O_CLOEXEC | O_NOFOLLOW,
                                .resolve = RESOLVE_NO_SYMLINKS | RESOLVE_CACHED };
        _cleanup_(closep) int fd = -1;
        struct statx stx;

        if (path[0] != '/')
                return OBJECT_E_UNREADABLE;
        fd = (int)syscall(SYS_openat2, AT_FDCWD, path, &how, sizeof(how));
        if (fd < 0 || !look(fd, &stx))
                return OBJECT_E_UNREADABLE;
        *filep = known_by(&stx);
        filep->is_remote = !is_trusted(mounts_of_us(stx.stx_dev_major, stx.stx_dev_minor), stx.stx_dev_major);
        if (filep->is_remote)
                return remote_files_open(filep, path_fdp) ? OBJECT_E_AWAITED : 0;
        *path_fdp = take_fd(fd);
        return 0;
}

/* Opens what was found, if it is the one. */
static int open_same(const ObjectFile *file, int path_fd, int *fdp) {
        struct statx stx;
        ObjectFile now;

        if (path_fd < 0 || !look(path_fd, &stx))
                return OBJECT_E_MOVED;
        now = known_by(&stx);
        if (!object_file_is_same(file, &now))
                return OBJECT_E_MOVED;
        *fdp = file_open_seen(path_fd);
        return *fdp < 0 ? OBJECT_E_UNREADABLE : 0;
}

int object_file_open(const ObjectFile *file, int proc_fd, uint64_t start, uint64_t end, const char *path,
                     int *fdp) {
        const MapsEntry where = { .start = start, .end = end };
        const ObjectSource source = { .proc_fd = proc_fd, .entry = &where, .path = path };
        _cleanup_(closep) int path_fd = -1;
        bool by_path;

        if (file->is_remote)
                return remote_files_open(file, fdp) ? OBJECT_E_UNREADABLE : 0;
        path_fd = open_mapped(&source, &by_path);
        return open_same(file, path_fd, fdp);
}

int object_file_open_here(const ObjectFile *file, const char *path, int *fdp) {
        _cleanup_(closep) int self = open("/proc/self", O_RDONLY | O_DIRECTORY | O_CLOEXEC), path_fd = -1;
        const ObjectSource source = { .proc_fd = self, .path = path };

        if (file->is_remote)
                return remote_files_open(file, fdp) ? OBJECT_E_UNREADABLE : 0;
        path_fd = object_file_open_by_path(&source);
        return open_same(file, path_fd, fdp);
}

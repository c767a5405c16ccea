/* SPDX-License-Identifier: Apache-2.0 */

/*
 * A line of /proc/PID/mountinfo (proc_pid_mountinfo(5)):
 *
 *     36 35 98:0 /mnt1 /mnt2 rw,noatime master:1 - ext3 /dev/root rw,errors=continue
 *     id parent device root mountpoint options tags… - type source options
 *
 * Blanks inside a field are escaped, so the first ` - ` ends the tags.
 *
 * Such a list is long to make, and nearly all processes share one of two: that of our own mount namespace and
 * that of pid 1 (a service manager may give us our own). Both are held: the text, and a descriptor that polls
 * with POLLPRI once a mount has come or gone; then the text is read again. A descriptor keeps its namespace
 * and root directory busy, so other namespaces, whose end others may wait for, are read each time.
 */
#include "core/symbol/object/mounts.h"

#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/base/file/file.h"
#include "core/base/util/macro.h"

/* Types whose reads are answered by another process or another machine. virtiofs is left out: the hypervisor
 * serves it, as it serves the disk. */
static const char *const remote_types[] = {
        "fuse", "fuseblk", "nfs", "nfs4", "cifs", "smb3", "9p", "ceph", "afs", "coda", "lustre", "orangefs",
        "autofs", "ocfs2", "gfs2", "gpfs", "beegfs",
};

static bool is_remote(const char *type, size_t size) {
        if (size > 5 && !memcmp(type, "fuse.", 5))
                return true;
        for (size_t i = 0; i < ARRAY_SIZE(remote_types); i++)
                if (strlen(remote_types[i]) == size && !memcmp(remote_types[i], type, size))
                        return true;
        return false;
}

/* The @n-th blank-separated field of the line, from 0. */
static const char *nth_field(const char *line, const char *end, unsigned n, size_t *sizep) {
        const char *stop;

        for (; n; n--) {
                line = memchr(line, ' ', (size_t)(end - line));
                if (!line++)
                        return NULL;
        }
        stop = memchr(line, ' ', (size_t)(end - line));
        *sizep = (size_t)((stop ? stop : end) - line);
        return line;
}

/* Decimal number up to @stop. */
static bool number(const char *p, const char *stop, uint32_t *valuep) {
        uint32_t value = 0;

        if (p == stop)
                return false;
        for (; p < stop; p++)
                if (*p < '0' || *p > '9' || __builtin_mul_overflow(value, 10, &value) ||
                    __builtin_add_overflow(value, (uint32_t)(*p - '0'), &value))
                        return false;
        *valuep = value;
        return true;
}

/* The type of a line's filesystem, if the line is of that device; NULL = it is not. */
static const char *line_type(const char *line, const char *end, uint32_t major, uint32_t minor,
                             size_t *sizep) {
        const char *device, *colon, *tail;
        uint32_t line_major, line_minor;
        size_t size;

        device = nth_field(line, end, 2, &size);
        colon = device ? memchr(device, ':', size) : NULL;
        if (!colon || !number(device, colon, &line_major) || !number(colon + 1, device + size, &line_minor) ||
            line_major != major || line_minor != minor)
                return NULL;
        tail = memmem(line, (size_t)(end - line), " - ", 3);
        return tail ? nth_field(tail + 3, end, 0, sizep) : NULL;
}

/* @typep: gets the type of a remote one. */
static MountKind find_kind(const char *text, size_t size, uint32_t major, uint32_t minor,
                           const char **typep, size_t *type_sizep) {
        const char *stop = text + size;
        MountKind found = MOUNT_UNKNOWN;

        while (text < stop) {
                const char *end = memchr(text, '\n', (size_t)(stop - text)), *type;

                if (!end)
                        end = stop;
                type = line_type(text, end, major, minor, type_sizep);
                if (type && is_remote(type, *type_sizep)) {
                        *typep = type;
                        return MOUNT_REMOTE;
                }
                if (type)
                        found = MOUNT_LOCAL;
                text = end + 1;
        }
        return found;
}

MountKind mounts_find(const char *text, size_t size, uint32_t major, uint32_t minor) {
        const char *type;
        size_t type_size;

        return find_kind(text, size, major, minor, &type, &type_size);
}

/* The number of the option `NAME=NUMBER`, @name with its `=`, among options with commas between them. */
static bool option(const char *p, const char *end, const char *name, uint32_t *valuep) {
        size_t name_size = strlen(name);

        while (p < end) {
                const char *stop = memchr(p, ',', (size_t)(end - p)) ?: end;

                if ((size_t)(stop - p) > name_size && !memcmp(p, name, name_size))
                        return number(p + name_size, stop, valuep);
                p = stop + 1;
        }
        return false;
}

/* Reads who has mounted a FUSE. The kernel writes the options; type and source are the text of that user. */
static void find_user(const char *type, const char *end, MountServer *server) {
        size_t size;
        const char *options = nth_field(type, end, 2, &size);

        server->has_user = options && option(options, options + size, "user_id=", &server->user) &&
                option(options, options + size, "group_id=", &server->group);
}

bool mounts_find_server(const char *text, size_t size, uint32_t major, uint32_t minor, MountServer *server) {
        MountServer made = { 0 };
        const char *type, *end;
        size_t type_size;

        if (find_kind(text, size, major, minor, &type, &type_size) != MOUNT_REMOTE)
                return false;
        end = memchr(type, '\n', (size_t)(text + size - type)) ?: text + size;
        made.is_fuse = type_size >= 4 && !memcmp(type, "fuse", 4);
        if (made.is_fuse)
                find_user(type, end, &made);
        memcpy(made.type, type, MIN(type_size, sizeof(made.type) - 1));
        *server = made;
        return true;
}

bool mounts_find_remote(const char *text, size_t size, uint32_t major, uint32_t minor,
                        char type[static MOUNTS_TYPE_SIZE]) {
        MountServer server;

        if (!mounts_find_server(text, size, major, minor, &server))
                return false;
        memcpy(type, server.type, sizeof(server.type));
        return true;
}

/* ---- lists that are held ---- */

/* The list of a namespace that is there for as long as we are. */
typedef struct HeldMounts {
        const char *process;            /* directory of a process in it */
        dev_t device;                   /* device of the namespace's file */
        ino_t inode;
        int fd;                         /* descriptor of its mountinfo */
        bool was_opened;
        char *text;                     /* NULL = not readable, or too long */
        size_t size;
} HeldMounts;

static HeldMounts held[] = {
        { .process = "/proc/self", .fd = -1 },
        { .process = "/proc/1", .fd = -1 },
};
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

static void hold(HeldMounts *mounts) {
        _cleanup_(closep) int fd = open(mounts->process, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        struct stat st;

        mounts->was_opened = true;
        if (fd < 0)
                return;
        /* mountinfo is opened first: from then on the namespace's number is given to no other one. */
        mounts->fd = openat(fd, "mountinfo", O_RDONLY | O_CLOEXEC);
        if (mounts->fd < 0 || fstatat(fd, "ns/mnt", &st, 0) < 0)
                return;
        mounts->device = st.st_dev;
        mounts->inode = st.st_ino;
}

static void renew(HeldMounts *mounts) {
        struct pollfd changed = { .fd = mounts->fd, .events = POLLPRI };

        if (poll(&changed, 1, 0) == 0 && mounts->text)
                return;
        free(mounts->text);
        mounts->text = NULL;
        /* The next poll tells of changes after this one. */
        if (lseek(mounts->fd, 0, SEEK_SET) ||
            file_read_fd(mounts->fd, MOUNTS_TEXT_MAX, &mounts->text, &mounts->size))
                mounts->text = NULL;
}

/* The list of the namespace @inode; 0 = our own. NULL = it is not held. With the lock held. */
static HeldMounts *find_held(dev_t device, ino_t inode) {
        for (size_t i = 0; i < ARRAY_SIZE(held); i++) {
                if (!held[i].was_opened)
                        hold(&held[i]);
                if (!held[i].inode || (inode && (held[i].inode != inode || held[i].device != device)))
                        continue;
                renew(&held[i]);
                return held[i].text ? &held[i] : NULL;
        }
        return NULL;
}

static MountKind find_in_held(const HeldMounts *mounts, uint32_t major, uint32_t minor) {
        return mounts ? mounts_find(mounts->text, mounts->size, major, minor) : MOUNT_UNKNOWN;
}

MountKind mounts_of_us(uint32_t major, uint32_t minor) {
        MountKind kind;

        pthread_mutex_lock(&lock);
        kind = find_in_held(find_held(0, 0), major, minor);
        pthread_mutex_unlock(&lock);
        return kind;
}

/* ---- of a process ---- */

static void read_list(Mounts *mounts, int proc_fd) {
        struct stat st;

        mounts->was_read = true;
        if (fstatat(proc_fd, "ns/mnt", &st, 0) == 0) {
                mounts->device = st.st_dev;
                mounts->inode = st.st_ino;
                pthread_mutex_lock(&lock);
                mounts->is_held = find_held(st.st_dev, st.st_ino);
                pthread_mutex_unlock(&lock);
        }
        if (!mounts->is_held &&
            file_read_at(proc_fd, "mountinfo", MOUNTS_TEXT_MAX, &mounts->text, &mounts->size))
                mounts->text = NULL;
}

static MountKind find_of_process(Mounts *mounts, int proc_fd, uint32_t major, uint32_t minor) {
        MountKind kind;

        if (!mounts->was_read)
                read_list(mounts, proc_fd);
        if (!mounts->is_held)
                return mounts->text ? mounts_find(mounts->text, mounts->size, major, minor) : MOUNT_UNKNOWN;
        pthread_mutex_lock(&lock);
        kind = find_in_held(find_held(mounts->device, mounts->inode), major, minor);
        pthread_mutex_unlock(&lock);
        return kind;
}

MountKind mounts_of_process(Mounts *mounts, int proc_fd, uint32_t major, uint32_t minor) {
        if (!mounts->has_last || mounts->last_major != major || mounts->last_minor != minor) {
                mounts->last = find_of_process(mounts, proc_fd, major, minor);
                mounts->last_major = major;
                mounts->last_minor = minor;
                mounts->has_last = true;
        }
        return mounts->last;
}

bool mounts_server_of_process(Mounts *mounts, int proc_fd, uint32_t major, uint32_t minor,
                              MountServer *server) {
        const HeldMounts *list;
        bool is_found = false;

        if (!mounts->was_read)
                read_list(mounts, proc_fd);
        if (mounts->text)
                is_found = mounts_find_server(mounts->text, mounts->size, major, minor, server);
        pthread_mutex_lock(&lock);
        list = mounts->is_held ? find_held(mounts->device, mounts->inode) : NULL;
        if (list)
                is_found = mounts_find_server(list->text, list->size, major, minor, server);
        if (is_found)
                server->is_own = true;
        list = is_found ? NULL : find_held(0, 0);
        if (list)
                is_found = mounts_find_server(list->text, list->size, major, minor, server);
        pthread_mutex_unlock(&lock);
        return is_found;
}

void mounts_deinit(Mounts *mounts) {
        free(mounts->text);
        *mounts = (Mounts){ 0 };
}

/* SPDX-License-Identifier: Apache-2.0 */

/*
 * A mapping is a candidate if it is shared, writable, of a file, and as large as a header and one station:
 *
 *      7f0cc0000000-7f0cc00fb000 rw-s 00000000 00:1a 42    /dev/shm/spanprof-Ab12Cd/region.shm (deleted)
 *
 * The file is opened by /proc/PID/map_files/START-END, which names exactly the mapped file. An open of
 * another user's file can hang, so two checks come first: the device must be of a local filesystem, and the
 * type (statx on an O_PATH descriptor) regular. The first 8 bytes decide: RCRTOROC.
 *
 * To open one costs as much as to read the text of 80 mappings. A file that is mapped piece by piece, as
 * heaps of JVMs are, is opened once; in a loop, MAX_FILES of a process are, and what is left is counted.
 */

#include "host/coro/region-find.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "core/base/file/file.h"
#include "core/base/util/error.h"
#include "core/base/util/stat.h"
#include "core/symbol/object/maps.h"
#include "core/symbol/object/mounts.h"
#include "host/sampling/process/process-directory.h"
#include "spanprof/station.h"

enum {
        FREE_TEXT = 64 << 10,
        TURN_TEXT = 448 << 10,          /* text of a turn beyond that */
        FILE_TEXT = 4 << 10,            /* text that an open file stands for */
        MAX_FILES = 1024,
};

struct Find {
        int proc_fd, maps_fd;
        Mounts mounts;
        MapsReader reader;
        MapsEntry last;                 /* entry of the file that was opened last; inode 0 = none was */
        uint32_t n_left;                /* files that may be opened */
        char path[MAPS_MAX_NAME];
};

/*
 * Whether the file cannot hang us, by the rule for executables: an unlisted device counts only if it is a
 * block device, of another mount namespace.
 */
static bool is_local(Find *find, const MapsEntry *entry) {
        MountKind kind;

        if (maps_is_memfd(entry))
                return true;
        kind = mounts_of_process(&find->mounts, find->proc_fd, entry->major, entry->minor);
        return kind == MOUNT_LOCAL || (kind == MOUNT_UNKNOWN && entry->major);
}

/* Checks the type before the open, which could hang. Return: the descriptor, or -1. */
static int open_mapped(int proc_fd, const MapsEntry *entry) {
        _cleanup_(closep) int path_fd = -1, fd = -1;
        uint64_t magic = 0;
        struct statx stx;
        char name[64];

        snprintf(name, sizeof(name), "map_files/%lx-%lx", (unsigned long)entry->start,
                 (unsigned long)entry->end);
        path_fd = openat(proc_fd, name, O_PATH | O_CLOEXEC);
        if (path_fd < 0 || statx(path_fd, "", AT_EMPTY_PATH | AT_STATX_DONT_SYNC, STATX_TYPE, &stx) ||
            !S_ISREG(stx.stx_mode))
                return -1;
        snprintf(name, sizeof(name), "/proc/self/fd/%d", path_fd);
        fd = open(name, O_RDONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
        if (fd < 0 || file_pread(fd, &magic, sizeof(magic), 0) != sizeof(magic) ||
            magic != SPANPROF_STATION_MAGIC)
                return -1;
        return take_fd(fd);
}

static bool is_same_file(const MapsEntry *a, const MapsEntry *b) {
        return a->inode == b->inode && a->major == b->major && a->minor == b->minor;
}

static int look_at(Find *find, const MapsEntry *entry, FindFunc func, void *userdata) {
        int fd;

        if (!maps_is_stations(entry) || is_same_file(&find->last, entry) || !is_local(find, entry))
                return 0;
        if (!find->n_left) {
                stat_add(COUNTER_CORO_FILES_LEFT, 1);
                return 0;
        }
        find->n_left--;
        find->last = *entry;
        maps_reader_charge(&find->reader, FILE_TEXT);
        fd = open_mapped(find->proc_fd, entry);
        if (fd < 0)
                return 0;
        maps_path(entry, find->path, NULL);
        return func(userdata, fd, find->path);
}

Find *find_free(Find *find) {
        if (!find)
                return NULL;
        closep(&find->proc_fd);
        closep(&find->maps_fd);
        mounts_deinit(&find->mounts);
        free(find);
        return NULL;
}

static int find_new(Find **findp, pid_t pid, uint32_t n_files) {
        _cleanup_(find_freep) Find *find = calloc(1, sizeof(*find));
        int r;

        if (!find)
                return error_origin(-ENOMEM);
        find->proc_fd = find->maps_fd = -1;
        find->n_left = n_files;
        r = process_open_living(pid, 0, &find->proc_fd, NULL);
        if (r)
                return r == PROCESS_E_DENIED ? FIND_E_DENIED : FIND_E_GONE;
        find->maps_fd = openat(find->proc_fd, "maps", O_RDONLY | O_CLOEXEC);
        if (find->maps_fd < 0)
                return errno == ENOENT || errno == ESRCH ? FIND_E_GONE : FIND_E_DENIED;
        maps_reader_init(&find->reader, find->maps_fd);
        *findp = take(find);
        return 0;
}

static int walk(Find *find, FindFunc func, void *userdata) {
        MapsEntry entry;
        int r;

        for (;;) {
                r = maps_reader_next(&find->reader, &entry);
                if (r == MAPS_E_EOF)
                        return 0;
                if (r == MAPS_E_PAUSED)
                        return FIND_E_MORE;
                if (r == MAPS_E_FAILED)
                        return errno == EACCES || errno == EPERM ? FIND_E_DENIED : FIND_E_GONE;
                r = r == MAPS_E_MALFORMED ? 0 : look_at(find, &entry, func, userdata);
                if (r)
                        return r;
        }
}

int find_regions(pid_t pid, FindFunc func, void *userdata) {
        _cleanup_(find_freep) Find *find = NULL;
        int r = find_new(&find, pid, UINT32_MAX);

        return r ? r : walk(find, func, userdata);
}

int find_regions_some(pid_t pid, Find **findp, FindFunc func, void *userdata) {
        _cleanup_(find_freep) Find *find = take(*findp);
        size_t left = TURN_TEXT;
        int r = find ? 0 : find_new(&find, pid, MAX_FILES);

        if (r)
                return r;
        maps_reader_begin_turn(&find->reader, FREE_TEXT, &left);
        r = walk(find, func, userdata);
        if (r == FIND_E_MORE) {
                stat_add(COUNTER_MAPS_PAUSED, 1);
                *findp = take(find);
        }
        return r;
}

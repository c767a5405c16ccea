/* SPDX-License-Identifier: Apache-2.0 */
#include "coro/find.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "spanprof/station.h"
#include "target/maps.h"
#include "target/mounts.h"
#include "target/process.h"
#include "util/error.h"
#include "util/file.h"

enum { MOUNTINFO_MAX = 4 << 20 };

typedef struct Search {
        int proc_fd;
        char *mounts;                   /* text of mountinfo, NULL = not read yet or not readable */
        size_t mounts_size;
        MapsReader reader;
        char path[MAPS_MAX_NAME];
} Search;

/* As for executables: a device that nobody lists is a block device of another mount namespace, or not to be trusted. */
static bool is_local(Search *search, const MapsEntry *entry) {
        MountKind kind;

        if (maps_is_memfd(entry))
                return true;
        if (!search->mounts && file_read_at(search->proc_fd, "mountinfo", MOUNTINFO_MAX, &search->mounts, &search->mounts_size))
                search->mounts = NULL;
        kind = search->mounts ? mounts_find(search->mounts, search->mounts_size, entry->major, entry->minor) : MOUNT_UNKNOWN;
        return kind == MOUNT_LOCAL || (kind == MOUNT_UNKNOWN && entry->major);
}

/* Type first, then the open that could wait. Return: descriptor or -1. */
static int open_mapped(int proc_fd, const MapsEntry *entry) {
        _cleanup_(closep) int path_fd = -1, fd = -1;
        uint64_t magic = 0;
        struct statx stx;
        char name[64];

        snprintf(name, sizeof(name), "map_files/%lx-%lx", (unsigned long)entry->start, (unsigned long)entry->end);
        path_fd = openat(proc_fd, name, O_PATH | O_CLOEXEC);
        if (path_fd < 0 || statx(path_fd, "", AT_EMPTY_PATH | AT_STATX_DONT_SYNC, STATX_TYPE, &stx) || !S_ISREG(stx.stx_mode))
                return -1;
        snprintf(name, sizeof(name), "/proc/self/fd/%d", path_fd);
        fd = open(name, O_RDONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
        if (fd < 0 || file_pread(fd, &magic, sizeof(magic), 0) != sizeof(magic) || magic != SPANPROF_STATION_MAGIC)
                return -1;
        return take_fd(fd);
}

static int look_at(Search *search, const MapsEntry *entry, FindFunc func, void *userdata) {
        int fd;

        if (!maps_is_stations(entry) || !is_local(search, entry))
                return 0;
        fd = open_mapped(search->proc_fd, entry);
        if (fd < 0)
                return 0;
        maps_path(entry, search->path, NULL);
        return func(userdata, fd, search->path);
}

static int walk(Search *search, FindFunc func, void *userdata) {
        _cleanup_(closep) int fd = openat(search->proc_fd, "maps", O_RDONLY | O_CLOEXEC);
        MapsEntry entry;
        int r = 0;

        if (fd < 0)
                return errno == ENOENT || errno == ESRCH ? FIND_E_GONE : FIND_E_DENIED;
        maps_reader_init(&search->reader, fd);
        for (;;) {
                r = maps_reader_next(&search->reader, &entry);
                if (r == MAPS_E_EOF)
                        return 0;
                if (r == MAPS_E_FAILED)
                        return errno == EACCES || errno == EPERM ? FIND_E_DENIED : FIND_E_GONE;
                r = r == MAPS_E_MALFORMED ? 0 : look_at(search, &entry, func, userdata);
                if (r)
                        return r;
        }
}

int find_regions(pid_t pid, FindFunc func, void *userdata) {
        Search *search = calloc(1, sizeof(*search));
        int r;

        if (!search)
                return error_origin(-ENOMEM);
        r = process_open(pid, 0, &search->proc_fd);
        if (r == PROCESS_E_GONE || r == PROCESS_E_DENIED) {
                free(search);
                return r == PROCESS_E_GONE ? FIND_E_GONE : FIND_E_DENIED;
        }
        if (!r) {
                r = walk(search, func, userdata);
                close(search->proc_fd);
        }
        free(search->mounts);
        free(search);
        return r;
}

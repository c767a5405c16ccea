/* SPDX-License-Identifier: Apache-2.0 */

/*
 * How a file that a target chose is opened without ever waiting for anybody:
 *
 *     1. the device in the maps line is looked up in mountinfo: FUSE and network filesystems end here;
 *     2. O_PATH of /proc/PID/map_files/START-END, which is the mapped file itself, deleted or not
 *        (without CAP_CHECKPOINT_RESTORE: the path in the target's root, only out of the kernel's name cache);
 *     3. statx with AT_STATX_DONT_SYNC asks no server; anything but a regular file ends here;
 *     4. known (dev, inode, mtime, size): no further work;
 *     5. the same file is opened for reading through /proc/self/fd with O_NONBLOCK (a lease would wait else).
 *
 * Known limit: an overlay over a FUSE filesystem looks like an overlay.
 */
#include "target/object.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/openat2.h>
#include <stdio.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>

#include "target/htlhash.h"
#include "target/mounts.h"
#include "util/error.h"
#include "util/file.h"
#include "util/hashmap.h"
#include "util/intern.h"
#include "util/stat.h"
#include "util/text.h"

enum {
        OBJECT_MAX_IN_ALL = 16384,      /* used and unused: at about 1.2 KiB each under 20 MiB; OBJECT_E_FULL above */
        MOUNTINFO_MAX = 1 << 20,        /* a longer one is taken as unknown */
};

typedef struct Entry Entry;

struct Entry {
        Object object;                  /* first, so that an Object is its Entry */
        ObjectCache *cache;
        ObjectFile key;
        Entry *next_same;               /* files whose keys have the same hash */
        Entry *older, *newer;           /* in the list of the unused */
};

struct ObjectCache {
        Hashmap files;                  /* hash of ObjectFile → chain of Entry */
        Entry *oldest, *newest;         /* without users */
        size_t n_unused, n_all, max_unused;
        uint64_t last_id;
        dev_t memfd_device;             /* of the kernel's internal tmpfs, which mountinfo does not list */
        Object *vdso;
        uint64_t vdso_size;
};

int object_cache_new(ObjectCache **cachep, size_t max_objects) {
        _cleanup_(closep) int fd = memfd_create("spanprof", MFD_CLOEXEC);
        ObjectCache *cache = calloc(1, sizeof(*cache));
        struct stat st;

        if (!cache)
                return error_origin(-ENOMEM);
        cache->max_unused = max_objects;
        if (fd >= 0 && fstat(fd, &st) == 0)
                cache->memfd_device = st.st_dev;
        *cachep = cache;
        return 0;
}

static void unlink_unused(ObjectCache *cache, Entry *entry) {
        if (entry->older)
                entry->older->newer = entry->newer;
        else
                cache->oldest = entry->newer;
        if (entry->newer)
                entry->newer->older = entry->older;
        else
                cache->newest = entry->older;
        entry->older = entry->newer = NULL;
        cache->n_unused--;
}

static void link_unused(ObjectCache *cache, Entry *entry) {
        entry->older = cache->newest;
        if (cache->newest)
                cache->newest->newer = entry;
        else
                cache->oldest = entry;
        cache->newest = entry;
        cache->n_unused++;
}

static uint64_t key_hash(const ObjectFile *key) {
        return hash_bytes(key, sizeof(*key));
}

static void forget(ObjectCache *cache, Entry *entry) {
        uint64_t hash = key_hash(&entry->key);
        Entry *first = hashmap_get(&cache->files, hash);

        if (first != entry) {
                while (first->next_same != entry)
                        first = first->next_same;
                first->next_same = entry->next_same;
        } else if (entry->next_same)
                hashmap_put(&cache->files, hash, entry->next_same);     /* replaces: needs no memory */
        else
                hashmap_remove(&cache->files, hash);
        unlink_unused(cache, entry);
        cache->n_all--;
        free(entry);
}

ObjectCache *object_cache_free(ObjectCache *cache) {
        if (!cache)
                return NULL;
        free(cache->vdso);
        while (cache->oldest)
                forget(cache, cache->oldest);
        hashmap_deinit(&cache->files);
        free(cache);
        return NULL;
}

size_t object_cache_count(const ObjectCache *cache) {
        return cache->n_all;
}

Object *object_ref(Object *object) {
        Entry *entry = (Entry *)object;

        if (!object->n_refs++ && object != entry->cache->vdso)
                unlink_unused(entry->cache, entry);
        return object;
}

Object *object_unref(Object *object) {
        Entry *entry = (Entry *)object;

        if (!object || --object->n_refs || object == entry->cache->vdso)
                return NULL;
        link_unused(entry->cache, entry);
        if (entry->cache->n_unused > entry->cache->max_unused) {
                stat_add(COUNTER_OBJECTS_EVICTED, 1);
                forget(entry->cache, entry->cache->oldest);
        }
        return NULL;
}

static Entry *find_file(const ObjectCache *cache, const ObjectFile *key) {
        Entry *entry = hashmap_get(&cache->files, key_hash(key));

        while (entry && memcmp(&entry->key, key, sizeof(*key)))
                entry = entry->next_same;
        return entry;
}

/* A new entry without users. */
static int add_file(ObjectCache *cache, const ObjectFile *key, Entry **entryp) {
        uint64_t hash = key_hash(key);
        Entry *entry;
        int r;

        if (cache->n_all >= OBJECT_MAX_IN_ALL) {
                if (!cache->oldest)
                        return OBJECT_E_FULL;
                stat_add(COUNTER_OBJECTS_EVICTED, 1);
                forget(cache, cache->oldest);
        }
        entry = calloc(1, sizeof(*entry));
        if (!entry)
                return error_origin(-ENOMEM);
        entry->cache = cache;
        entry->key = *key;
        entry->next_same = hashmap_get(&cache->files, hash);
        r = hashmap_put(&cache->files, hash, entry);
        if (r) {
                free(entry);
                return error_fold(r);
        }
        entry->object.id = ++cache->last_id;
        cache->n_all++;
        link_unused(cache, entry);
        *entryp = entry;
        return 0;
}

static void take_info(Object *object, const ElfInfo *info) {
        object->readable = true;
        object->entry = info->entry;
        object->n_segments = info->n_segments;
        memcpy(object->segments, info->segments, sizeof(object->segments));
        text_to_hex(object->build_id_gnu, info->gnu, info->gnu_size);
        memcpy(object->build_id_go, info->go, info->go_size + 1);
}

/* Asks the process' own list of mounts, then ours. */
static MountKind mount_kind(ObjectSource *source, uint32_t major, uint32_t minor) {
        _cleanup_(freep) char *own = NULL;
        MountKind kind;
        size_t size;

        if (!source->mounts &&
            file_read_at(source->proc_fd, "mountinfo", MOUNTINFO_MAX, &source->mounts, &source->mounts_size))
                source->mounts = NULL;
        kind = source->mounts ? mounts_find(source->mounts, source->mounts_size, major, minor) : MOUNT_UNKNOWN;
        if (kind == MOUNT_UNKNOWN && file_read("/proc/self/mountinfo", MOUNTINFO_MAX, &own, &size) == 0)
                kind = mounts_find(own, size, major, minor);
        return kind;
}

/*
 * Whether the file may be opened. A device that nobody lists is some block device of another mount
 * namespace (major number > 0), the kernel's own tmpfs, or not to be trusted.
 */
static bool is_local(const ObjectCache *cache, ObjectSource *source) {
        uint32_t major = source->entry->major, minor = source->entry->minor;
        MountKind kind;

        if (cache->memfd_device && makedev(major, minor) == cache->memfd_device)
                return true;
        kind = mount_kind(source, major, minor);
        return kind == MOUNT_LOCAL || (kind == MOUNT_UNKNOWN && major);
}

/* By name, if the kernel finds every part of it in its cache; for want of CAP_CHECKPOINT_RESTORE. */
static int open_by_path(const ObjectSource *source) {
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
        return fd < 0 ? open_by_path(source) : fd;
}

/* The last part of a path, as far as it may be said of a file that was deleted. */
static size_t base_size(const char *path, const char **basep) {
        const char *base = strrchr(path, '/'), *mark;

        base = base ? base + 1 : path;
        mark = strstr(base, " (deleted)");
        *basep = base;
        return mark ? (size_t)(mark - base) : strlen(base);
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
 * Whether what was opened is what maps showed: another file may have taken the name, or its place in memory while we
 * were on the way. Overlay and btrfs show one device here and another in maps, overlay another inode as well: where
 * the kernel itself led us to the file, its name decides then.
 */
static bool is_entry(int fd, const struct statx *stx, const ObjectSource *source, bool by_path) {
        const MapsEntry *entry = source->entry;
        bool same_device = stx->stx_dev_major == entry->major && stx->stx_dev_minor == entry->minor;

        if (stx->stx_ino == entry->inode)
                return same_device || !entry->major || !by_path;
        return !by_path && !same_device && has_name(fd, source->path);
}

/* Reads what statx() knows without asking a server. Return: 0, OBJECT_E_UNREADABLE. */
static int file_key(int fd, const ObjectSource *source, bool by_path, ObjectFile *keyp) {
        struct statx stx;

        if (statx(fd, "", AT_EMPTY_PATH | AT_STATX_DONT_SYNC, STATX_BASIC_STATS, &stx) || !S_ISREG(stx.stx_mode) ||
            !is_entry(fd, &stx, source, by_path))
                return OBJECT_E_UNREADABLE;
        *keyp = (ObjectFile){ .device = makedev(stx.stx_dev_major, stx.stx_dev_minor),
                              .inode = stx.stx_ino,
                              .size = stx.stx_size,
                              .mtime_ns = stx.stx_mtime.tv_sec * INT64_C(1000000000) + stx.stx_mtime.tv_nsec };
        return 0;
}

ObjectFile object_file(const Object *object) {
        return ((const Entry *)object)->key;
}

int object_file_open(const ObjectFile *file, int proc_fd, uint64_t start, uint64_t end, const char *path, int *fdp) {
        const MapsEntry where = { .start = start, .end = end, .inode = file->inode };
        const ObjectSource source = { .proc_fd = proc_fd, .entry = &where, .path = path };
        _cleanup_(closep) int path_fd = -1;
        bool by_path;
        ObjectFile now;

        path_fd = open_mapped(&source, &by_path);
        if (path_fd < 0 || file_key(path_fd, &source, by_path, &now) || memcmp(&now, file, sizeof(now)))
                return OBJECT_E_UNREADABLE;
        *fdp = file_open_seen(path_fd);
        return *fdp < 0 ? OBJECT_E_UNREADABLE : 0;
}

int object_reopen(const Object *object, int proc_fd, uint64_t start, uint64_t end, const char *path, int *fdp) {
        const ObjectFile file = object_file(object);

        return object_file_open(&file, proc_fd, start, end, path, fdp);
}

/* Return: 0, OBJECT_E_UNREADABLE, -ENOMEM. */
static int read_object(int path_fd, uint64_t size, Object *object) {
        _cleanup_(closep) int fd = file_open_seen(path_fd);
        ElfInfo info;
        int r;

        if (fd < 0)
                return OBJECT_E_UNREADABLE;
        r = elf_read(&(ElfInput){ .fd = fd, .size = size }, NULL, &info);
        if (!r)
                r = htlhash_read(fd, size, object->htlhash);
        if (!r)
                r = thread_symbol_read(fd, NULL, size, &object->thread_symbol);
        if (r)
                return r < 0 ? r : OBJECT_E_UNREADABLE;
        take_info(object, &info);
        return 0;
}

/* Files that could not be read stay known by their key too: a damaged one is not parsed again and again. */
static int load_file(ObjectCache *cache, int fd, const ObjectFile *key, Entry **entryp) {
        Entry *entry = NULL;
        int r;

        r = add_file(cache, key, &entry);
        if (r)
                return r;
        r = read_object(fd, key->size, &entry->object);
        if (r < 0) {
                forget(cache, entry);
                return r;
        }
        if (!r) {
                stat_add(COUNTER_OBJECTS_OPENED, 1);
                if (!entry->object.build_id_gnu[0])
                        stat_add(COUNTER_OBJECTS_NO_BUILD_ID, 1);
        }
        *entryp = entry;
        return 0;
}

static int open_object(ObjectCache *cache, ObjectSource *source, Object **objectp) {
        _cleanup_(closep) int fd = -1;
        bool by_path;
        ObjectFile key;
        Entry *entry;
        int r;

        if (!is_local(cache, source))
                return OBJECT_E_REMOTE;
        fd = open_mapped(source, &by_path);
        if (fd < 0)
                return OBJECT_E_UNREADABLE;
        r = file_key(fd, source, by_path, &key);
        if (r)
                return r;
        entry = find_file(cache, &key);
        if (entry)
                stat_add(COUNTER_OBJECTS_CACHED, entry->object.readable);
        else {
                r = load_file(cache, fd, &key, &entry);
                if (r)
                        return r;
        }
        if (!entry->object.readable)
                return OBJECT_E_UNREADABLE;
        *objectp = object_ref(&entry->object);
        return 0;
}

int object_open(ObjectCache *cache, ObjectSource *source, Object **objectp) {
        static const enum counter counters[] = { [OBJECT_E_UNREADABLE] = COUNTER_OBJECTS_UNREADABLE,
                                                 [OBJECT_E_REMOTE] = COUNTER_OBJECTS_REMOTE,
                                                 [OBJECT_E_FULL] = COUNTER_OBJECTS_OVER_CAP };
        int r = open_object(cache, source, objectp);

        if (r > 0)
                stat_add(counters[r], 1);
        return r;
}

int object_open_path(ObjectCache *cache, const char *path, Object **objectp) {
        _cleanup_(closep) int self = open("/proc/self", O_RDONLY | O_DIRECTORY | O_CLOEXEC), fd = -1;
        MapsEntry entry = { .end = 1 };         /* in no process: the path is all there is */
        ObjectSource source = { .proc_fd = self, .entry = &entry, .path = path };
        struct statx stx;
        int r;

        fd = open_by_path(&source);
        if (fd < 0 || statx(fd, "", AT_EMPTY_PATH | AT_STATX_DONT_SYNC, STATX_INO, &stx)) {
                stat_add(COUNTER_OBJECTS_UNREADABLE, 1);
                return OBJECT_E_UNREADABLE;
        }
        entry.inode = stx.stx_ino;
        entry.major = stx.stx_dev_major;
        entry.minor = stx.stx_dev_minor;
        r = object_open(cache, &source, objectp);
        free(source.mounts);
        return r;
}

bool object_is_file(const Object *object, uint32_t major, uint32_t minor, uint64_t inode) {
        const ObjectFile *key = &((const Entry *)object)->key;

        return key->device == makedev(major, minor) && key->inode == inode;
}

/* Finds our own vdso in our own maps: its size is told nowhere else. */
static uint64_t own_vdso_size(uint64_t address) {
        _cleanup_(closep) int fd = open("/proc/self/maps", O_RDONLY | O_CLOEXEC);
        _cleanup_(freep) MapsReader *reader = malloc(sizeof(*reader));
        MapsEntry entry;
        int r;

        if (fd < 0 || !reader)
                return 0;
        maps_reader_init(reader, fd);
        while (!(r = maps_reader_next(reader, &entry)) || r == MAPS_E_MALFORMED)
                if (!r && entry.start == address)
                        return entry.end - entry.start;
        return 0;
}

static int load_vdso(ObjectCache *cache) {
        uint64_t address = getauxval(AT_SYSINFO_EHDR);
        uint64_t size = address ? own_vdso_size(address) : 0;
        ElfInfo info;
        Entry *entry;
        int r;

        if (!size)
                return OBJECT_E_UNREADABLE;
        r = elf_read(&(ElfInput){ .fd = -1, .data = (void *)(uintptr_t)address, .size = size }, NULL, &info);
        if (r)
                return r < 0 ? r : OBJECT_E_UNREADABLE;
        entry = calloc(1, sizeof(*entry));
        if (!entry)
                return error_origin(-ENOMEM);
        entry->cache = cache;
        entry->object.id = ++cache->last_id;
        take_info(&entry->object, &info);
        cache->vdso = &entry->object;
        cache->vdso_size = size;
        return 0;
}

int object_vdso(ObjectCache *cache, Object **objectp, uint64_t *sizep) {
        int r;

        if (!cache->vdso) {
                r = load_vdso(cache);
                if (r)
                        return r;
        }
        *sizep = cache->vdso_size;
        *objectp = object_ref(cache->vdso);
        return 0;
}

int object_address(const Object *object, uint64_t offset, uint64_t *addressp, uint32_t *segmentp) {
        /* Executable segments first: pages that two segments share are mapped by both. */
        for (int pass = 0; pass < 2; pass++)
                for (uint32_t i = 0; i < object->n_segments; i++) {
                        const Segment *segment = &object->segments[i];

                        if ((segment->flags & 1 /* PF_X */) != (pass == 0) || offset < segment->offset ||
                            offset - segment->offset >= segment->file_size)
                                continue;
                        *addressp = segment->address + (offset - segment->offset);
                        *segmentp = i;
                        return 0;
                }
        return 1;
}

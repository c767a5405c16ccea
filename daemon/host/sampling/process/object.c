/* SPDX-License-Identifier: Apache-2.0 */

/*
 * A file is opened with care (object-file.h), and read once: known by device, inode, size and its times, it
 * is one object wherever it is mapped. One that is mapped no more stays known for a while.
 */
#include "host/sampling/process/object.h"

#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>

#include "core/base/data/hashmap.h"
#include "core/base/data/intern.h"
#include "core/base/file/file.h"
#include "core/base/util/clock.h"
#include "core/base/util/error.h"
#include "core/base/util/stat.h"
#include "core/base/util/text.h"
#include "core/symbol/object/htlhash.h"
#include "host/sampling/process/identity.h"
#include "host/sampling/process/process-directory.h"

enum {
        /* used and unused, in shares: at about 1.2 KiB each under 20 MiB; OBJECT_E_FULL above */
        OBJECT_MAX_IN_ALL = 16384,
        MIN_RUNTIME_CODE = 1 << 20,     /* bytes; Zing and the minimal HotSpot have 5 MiB */
        N_SEEN = 64,
};

typedef struct Entry Entry;

struct Entry {
        Object object;                  /* first, so that an Object is its Entry */
        ObjectCache *cache;
        ObjectFile key;
        Share *share;                   /* holds it, from the first process that has it mapped on */
        Entry *next_same;               /* files whose keys have the same hash */
        Entry *older, *newer;           /* in the list of the unused */
};

/* A file that was looked at in a turn: nothing has to be asked of it again before the next one. */
typedef struct Seen {
        Entry *entry;
        uint64_t turn;
} Seen;

struct ObjectCache {
        Seen seen[N_SEEN];              /* by device and inode; a later one takes an earlier one's place */
        uint64_t turn;
        Hashmap files;                  /* hash of ObjectFile → chain of Entry */
        Shares shares;
        Entry *oldest, *newest;         /* without users */
        size_t n_unused, n_all, max_unused;
        uint64_t last_id;
        /* device of the kernel's internal tmpfs, which mountinfo does not list */
        dev_t memfd_device;
        Object *vdso;
        uint64_t vdso_size;
        /* NULL = we read all ourselves */
        ObjectAskFunc ask;
        void *userdata;
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

static Seen *seen_place(ObjectCache *cache, dev_t device, ino_t inode) {
        return &cache->seen[(device + inode) % N_SEEN];
}

static void forget_seen(ObjectCache *cache, const Entry *entry) {
        Seen *seen = seen_place(cache, entry->key.device, entry->key.inode);

        if (seen->entry == entry)
                seen->entry = NULL;
}

void object_cache_begin_turn(ObjectCache *cache) {
        cache->turn++;
}

bool object_find_seen(ObjectCache *cache, uint32_t major, uint32_t minor, uint64_t inode, Object **objectp) {
        const dev_t device = makedev(major, minor);
        const Seen *seen = seen_place(cache, device, inode);

        if (!seen->entry || seen->turn != cache->turn || seen->entry->key.device != device ||
            seen->entry->key.inode != inode)
                return false;
        stat_add(COUNTER_OBJECTS_CACHED, 1);
        *objectp = object_ref(&seen->entry->object);
        return true;
}

static void forget(ObjectCache *cache, Entry *entry) {
        uint64_t hash = key_hash(&entry->key);
        Entry *first = hashmap_get(&cache->files, hash);

        forget_seen(cache, entry);
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
        share_release(&cache->shares, entry->share, 1);
        free(entry);
}

ObjectCache *object_cache_free(ObjectCache *cache) {
        if (!cache)
                return NULL;
        free(cache->vdso);
        while (cache->oldest)
                forget(cache, cache->oldest);
        hashmap_deinit(&cache->files);
        shares_deinit(&cache->shares);
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

/* A file without users gives its place. Return: whether there is room in the process' share. */
static bool make_room(ObjectCache *cache, const ShareOwner *owner) {
        if (cache->n_all >= OBJECT_MAX_IN_ALL && cache->oldest) {
                stat_add(COUNTER_OBJECTS_EVICTED, 1);
                forget(cache, cache->oldest);
        }
        if (shares_leave_room(&cache->shares, owner, 1, OBJECT_MAX_IN_ALL))
                return true;
        shares_tell(&cache->shares, "files that are mapped as code", owner, clock_monotonic_ns());
        return false;
}

/* A new entry without users. */
static int add_file(ObjectCache *cache, const ObjectFile *key, const ShareOwner *owner, Entry **entryp) {
        uint64_t hash = key_hash(key);
        Entry *entry;
        int r;

        if (!make_room(cache, owner))
                return OBJECT_E_FULL;
        entry = calloc(1, sizeof(*entry));
        if (!entry)
                return error_origin(-ENOMEM);
        r = shares_hold(&cache->shares, owner, 1, &entry->share);
        if (r) {
                free(entry);
                return error_fold(r);
        }
        entry->cache = cache;
        entry->key = *key;
        entry->next_same = hashmap_get(&cache->files, hash);
        r = hashmap_put(&cache->files, hash, entry);
        if (r) {
                share_release(&cache->shares, entry->share, 1);
                free(entry);
                return error_fold(r);
        }
        entry->object.id = ++cache->last_id;
        entry->object.file = object_file_number(key);
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

ObjectFile object_file(const Object *object) {
        return ((const Entry *)object)->key;
}

int object_reopen(const Object *object, int proc_fd, uint64_t start, uint64_t end, const char *path,
                  int *fdp) {
        const ObjectFile file = object_file(object);

        return object_file_open(&file, proc_fd, start, end, path, fdp);
}

void object_cache_set_ask(ObjectCache *cache, ObjectAskFunc ask, void *userdata) {
        cache->ask = ask;
        cache->userdata = userdata;
}

bool object_is_large(const Object *object) {
        uint64_t size = 0;

        for (uint32_t i = 0; i < object->n_segments; i++)
                if (object->segments[i].flags & PF_X)
                        size += object->segments[i].file_size;
        return size >= MIN_RUNTIME_CODE;
}

bool object_may_be_runtime(const Object *object) {
        return *object->build_id_go || object_is_large(object);
}

/* @owner: a process that has it mapped. Return: 0, -ENOMEM. */
static int look_into(ObjectCache *cache, int *fdp, uint64_t size, bool has_tls, const ShareOwner *owner,
                     Object *object) {
        if (cache->ask && (has_tls || object_may_be_runtime(object)))
                return cache->ask(cache->userdata, object, take_fd(*fdp), size, owner);
        return has_tls ? thread_symbol_read(*fdp, NULL, size, &object->thread_symbol) : 0;
}

/* Return: 0, OBJECT_E_UNREADABLE, -ENOMEM. */
static int read_object(ObjectCache *cache, int path_fd, uint64_t size, const ShareOwner *owner,
                       Object *object) {
        _cleanup_(closep) int fd = file_open_seen(path_fd);
        ElfInfo info;
        int r;

        if (fd < 0)
                return OBJECT_E_UNREADABLE;
        r = elf_read(&(ElfInput){ .fd = fd, .size = size }, NULL, &info);
        if (!r && htlhash_read(fd, size, object->htlhash) == HTLHASH_E_SHORT)
                r = OBJECT_E_UNREADABLE;
        if (r)
                return r < 0 ? r : OBJECT_E_UNREADABLE;
        take_info(object, &info);
        return look_into(cache, &fd, size, info.has_tls, owner, object);
}

/* Files that could not be read stay known by their key too: a damaged one is not parsed again and again. */
static int load_file(ObjectCache *cache, int fd, const ObjectFile *key, const ShareOwner *owner,
                     Entry **entryp) {
        Entry *entry = NULL;
        int r = add_file(cache, key, owner, &entry);

        if (r)
                return r;
        r = read_object(cache, fd, key->size, owner, &entry->object);
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

/* For a file that was refused by who looks into files. Return: 0, -ENOMEM. */
static int ask_again(ObjectCache *cache, int path_fd, uint64_t size, const ShareOwner *owner,
                     Object *object) {
        int fd = file_open_seen(path_fd);

        return fd < 0 ? 0 : cache->ask(cache->userdata, object, fd, size, owner);
}

static int open_found(ObjectCache *cache, int fd, const ObjectFile *key, int proc_fd, ShareOwner *owner,
                      Object **objectp) {
        Entry *entry = find_file(cache, key);
        ShareOwner unknown = { .group = 1 };
        int r = 0;

        owner = owner ?: &unknown;
        if (!owner->group && (!entry || entry->object.look == OBJECT_LOOK_REFUSED))
                *owner = identity_owner(proc_fd, owner->process);
        if (entry) {
                stat_add(COUNTER_OBJECTS_CACHED, entry->object.readable);
                if (entry->object.look == OBJECT_LOOK_REFUSED)
                        r = ask_again(cache, fd, key->size, owner, &entry->object);
                if (r)
                        return r;
        } else {
                r = load_file(cache, fd, key, owner, &entry);
                if (r)
                        return r;
        }
        if (!entry->object.readable)
                return OBJECT_E_UNREADABLE;
        *seen_place(cache, key->device, key->inode) = (Seen){ entry, cache->turn };
        *objectp = object_ref(&entry->object);
        return 0;
}

/* Return: @r, which is counted: what a look for a file has ended with. */
static int count_problem(int r) {
        static const enum counter counters[] = { [OBJECT_E_UNREADABLE] = COUNTER_OBJECTS_UNREADABLE,
                                                 [OBJECT_E_REMOTE] = COUNTER_OBJECTS_REMOTE,
                                                 [OBJECT_E_FULL] = COUNTER_OBJECTS_OVER_CAP };

        if (r > 0 && r != OBJECT_E_AWAITED)
                stat_add(counters[r], 1);
        return r;
}

int object_open(ObjectCache *cache, ObjectSource *source, Object **objectp) {
        _cleanup_(closep) int fd = -1;
        ObjectFile key;
        int r = object_file_look(source, cache->memfd_device, &fd, &key);

        r = r ?: open_found(cache, fd, &key, source->proc_fd, source->owner, objectp);
        return source->may_be_data && r != OBJECT_E_FULL ? r : count_problem(r);
}

int object_open_path(ObjectCache *cache, const char *path, uint32_t pid, Object **objectp) {
        _cleanup_(closep) int fd = -1, proc = -1;
        ShareOwner owner = { .process = pid };
        ObjectFile key;
        int r = object_file_look_here(path, &fd, &key);

        if (!r && pid && !find_file(cache, &key) && process_open((pid_t)pid, 0, &proc))
                proc = -1;              /* the process has ended: no user's share */
        return count_problem(r ?: open_found(cache, fd, &key, proc, &owner, objectp));
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

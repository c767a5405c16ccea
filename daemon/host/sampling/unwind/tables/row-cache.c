/* SPDX-License-Identifier: Apache-2.0 */

/*
 * A directory `rows` beside the spool, with a file for each file whose rows are known. Its name is device
 * and inode, so a file that was changed has one entry, the last one:
 *
 *     rows/10302-2a41      head: mark, CRC-32 of the rest, build of this program, boot, key, limits, answer
 *                          the table, as it goes into the kernel
 *
 * When is it the same file? Its size and mtime are its owner's word; ctime is the kernel's, for a filesystem
 * that the kernel itself keeps. But numbers of devices and inodes are given again: who mounts a filesystem of
 * his own making, where any number may stand, could leave rows for a file that another mount will have under
 * the same numbers. So a key has the boot and a number that is never given again while the machine runs: that
 * of the disk, which each namespace shows alike (diskseq, Linux 5.15), or where no block device is below
 * (btrfs, overlay, tmpfs), that of the mount (Linux 6.8). Services with mounts of their own have such a file
 * under several numbers: the last one has the entry. Without a number nothing is kept.
 *
 * A file that has changed a moment ago may change once more in the same tick of the kernel's clock, so it is
 * not kept. What is read is checked as the answer of a worker: it is believed no more than that.
 *
 * A thread has the disk, which may be slow (worker.h). What was not used for the longest time goes first;
 * the time of its last use is the entry's mtime.
 */

#include "host/sampling/unwind/tables/row-cache.h"

#include <assert.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <link.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include "core/base/data/hashmap.h"
#include "core/base/data/intern.h"
#include "core/base/file/directory.h"
#include "core/base/file/file.h"
#include "core/base/file/gzip.h"
#include "core/base/thread/worker.h"
#include "core/base/util/array.h"
#include "core/base/util/clock.h"
#include "core/base/util/error.h"
#include "core/base/util/stat.h"
#include "core/base/util/text.h"
#include "host/sampling/unwind/tables/table-check.h"
#include "host/sampling/unwind/tables/table-job.h"

#ifndef STATX_MNT_ID_UNIQUE
#define STATX_MNT_ID_UNIQUE 0x4000      /* linux/stat.h of 6.8 */
#endif

#define ALIGN_NOTE(_n) (((_n) + 3u) & ~3u)

#define DIRECTORY "rows"
#define TEMPORARY ".new"
#define MARK "sprows 1"

enum {
        MAX_ASKED = 6,                  /* files that are asked for, or answered, at the same time */
        MAX_KEPT_BYTES = 16 << 20,      /* tables that wait to be written; none is larger */
        TRIM_BYTES = 4 << 20,           /* written since the oldest went last, … */
        TRIM_FILES = 256,               /* … and files: they go again */
        BOOT_SIZE = 40,
        BUILD_SIZE = 20,
        NAME_SIZE = 48,
};

#define LEAST_AGE_NS (10 * NS_PER_SEC)  /* age of a file that is kept, since its last change */

/* Shared with a thread that a disk holds, which may outlive the cache. */
typedef struct Place {
        int directory, event_fd;        /* event_fd: each job adds one as its result is there */
        unsigned n_refs;
} Place;

/* The head of an entry. No byte of it is padding. */
typedef struct RowHead {
        char mark[8];
        uint32_t sum;                   /* CRC-32 of all that follows */
        uint8_t build[BUILD_SIZE];
        char boot[BOOT_SIZE];
        RowKey key;
        uint64_t max_functions, max_bytes;
        TableJobAnswer answer;
} RowHead;

static_assert(sizeof(RowHead) == 12 + BUILD_SIZE + BOOT_SIZE + sizeof(RowKey) + 16 + sizeof(TableJobAnswer),
              "padding would be left to chance");

typedef enum Outcome {
        FOUND,
        NEW,                            /* no entry, or of another file, boot or build */
        DROPPED,                        /* an entry that makes no sense */
        FAILED,                         /* could not be written */
} Outcome;

typedef struct Entry {
        uint64_t device, inode;
        uint64_t size;
        int64_t used_ns;
} Entry;

typedef struct Entries {
        Entry *items;
        uint32_t n, room;
        uint64_t n_bytes;
} Entries;

typedef struct Job {
        WorkerJob job;                  /* must be first */
        Place *place;
        RowHead head;                   /* sum and answer: of what is kept, or was found */
        Table table;
        Entries entries;                /* entries that are left, of a job that lets the oldest go */
        void *what;                     /* the file that was asked for */
        uint64_t turn;                  /* turn of the cache when it was asked */
        uint64_t number;                /* number among all jobs */
        Outcome outcome;
} Job;

struct RowCache {
        Worker *worker;
        Place *place;
        uint8_t build[BUILD_SIZE];
        char boot[BOOT_SIZE];
        uint64_t turn;                  /* answers of an older one are not wanted */
        uint64_t n_jobs;                /* in all */
        uint32_t n_asked;
        size_t n_waiting_bytes;         /* to be written */
        uint64_t n_written_bytes;       /* since the oldest went, */
        uint32_t n_written;             /* … and files */
        Hashmap there;                  /* device and inode → not NULL: files that may have an entry */
        RowCacheResult answers[MAX_ASKED];      /* a ring; counted in n_asked until they are taken */
        uint32_t first_answer, n_answers;
};

/* ---- what a file is known by ---- */

static int64_t to_ns(const struct statx_timestamp *time) {
        return time->tv_sec * (int64_t)NS_PER_SEC + time->tv_nsec;
}

/* Number of the disk below a block device, or below the partition that this is; 0 = none can be read. */
static uint64_t read_disk(uint32_t major, uint32_t minor) {
        static const char *const names[] = { "diskseq", "../diskseq" };
        uint64_t number = 0;

        for (size_t i = 0; i < ARRAY_SIZE(names) && major && !number; i++) {
                _cleanup_(freep) char *text = NULL;
                char path[64];
                size_t size;

                snprintf(path, sizeof(path), "/sys/dev/block/%" PRIu32 ":%" PRIu32 "/%s", major, minor, names[i]);
                if (file_read(path, sizeof(path), &text, &size))
                        continue;
                text[strcspn(text, "\n")] = 0;
                (void)text_u64(text, UINT64_MAX, &number);
        }
        return number;
}

RowKey row_key_read(int fd, uint64_t now_ns) {
        const unsigned wanted = STATX_BASIC_STATS | STATX_BTIME | STATX_MNT_ID_UNIQUE;
        uint64_t disk, mount;
        struct statx stx;

        if (fd < 0 || statx(fd, "", AT_EMPTY_PATH | AT_STATX_DONT_SYNC, wanted, &stx) || !stx.stx_nlink ||
            to_ns(&stx.stx_ctime) > (int64_t)(now_ns - LEAST_AGE_NS))
                return (RowKey){ 0 };
        disk = read_disk(stx.stx_dev_major, stx.stx_dev_minor);
        mount = !disk && stx.stx_mask & STATX_MNT_ID_UNIQUE ? stx.stx_mnt_id : 0;
        if (!disk && !mount)
                return (RowKey){ 0 };
        return (RowKey){ .device = makedev(stx.stx_dev_major, stx.stx_dev_minor),
                         .inode = stx.stx_ino,
                         .size = stx.stx_size,
                         .mtime_ns = to_ns(&stx.stx_mtime),
                         .ctime_ns = to_ns(&stx.stx_ctime),
                         .btime_ns = stx.stx_mask & STATX_BTIME ? to_ns(&stx.stx_btime) : 0,
                         .disk = disk,
                         .mount = mount };
}

/* ---- in the thread ---- */

static void name_of(const RowKey *key, char name[static NAME_SIZE]) {
        snprintf(name, NAME_SIZE, "%" PRIx64 "-%" PRIx64, key->device, key->inode);
}

static uint32_t sum_of(const RowHead *head, const void *table) {
        size_t at = offsetof(RowHead, build);
        uint32_t sum = gzip_crc32(0, (const uint8_t *)head + at, sizeof(*head) - at);

        return head->answer.size ? gzip_crc32(sum, table, head->answer.size) : sum;
}

/* Whether it was asked for: a file that has changed, another build or boot has the same name. */
static bool is_wanted(const RowHead *head, const RowHead *asked) {
        return !memcmp(head->build, asked->build, sizeof(head->build)) &&
                !memcmp(head->boot, asked->boot, sizeof(head->boot)) &&
                !memcmp(&head->key, &asked->key, sizeof(head->key)) &&
                head->max_functions == asked->max_functions && head->max_bytes == asked->max_bytes;
}

/* Judges @size bytes at @data, which become those of the table. */
static Outcome judge(Job *job, uint8_t *data, size_t size) {
        const TableLimits limits = { .max_bytes = job->head.max_bytes };
        TableCheck check = { 0 };
        RowHead head;

        if (size < sizeof(head))
                return DROPPED;
        memcpy(&head, data, sizeof(head));
        if (memcmp(head.mark, MARK, sizeof(head.mark)) || head.answer.size != size - sizeof(head) ||
            head.sum != sum_of(&head, data + sizeof(head)))
                return DROPPED;
        if (!is_wanted(&head, &job->head))
                return NEW;
        if (!table_job_check_answer(&head.answer, &limits))
                return DROPPED;
        job->head.answer = head.answer;
        if (head.answer.result)
                return FOUND;
        memmove(data, data + sizeof(head), head.answer.size);
        job->table = table_job_table(&head.answer, data);
        return table_check(&check, &job->table, UINT64_MAX) ? DROPPED : FOUND;
}

static void look(WorkerJob *worker_job, void *state) {
        Job *job = (Job *)worker_job;
        _cleanup_(closep) int fd = -1;
        uint8_t *data = NULL;
        char name[NAME_SIZE];
        size_t size;
        int r;

        job->outcome = NEW;
        name_of(&job->head.key, name);
        r = file_open_regular_at(job->place->directory, name, &fd);
        if (!r) {
                r = file_read_fd(fd, MAX_KEPT_BYTES + sizeof(RowHead), (char **)&data, &size);
                job->outcome = r ? DROPPED : judge(job, data, size);
        }
        if (job->outcome == FOUND)
                futimens(fd, NULL);             /* used now */
        else
                job->table = (Table){ 0 };
        if (job->outcome != FOUND || job->head.answer.result)
                free(data);
        if (job->outcome == DROPPED)
                unlinkat(job->place->directory, name, 0);
}

static int write_entry(const Job *job, const char *temporary) {
        _cleanup_(closep) int fd = openat(job->place->directory, temporary,
                                          O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
        char name[NAME_SIZE];
        int r;

        if (fd < 0)
                return -errno;
        name_of(&job->head.key, name);
        r = file_write(fd, &job->head, sizeof(job->head));
        if (!r)
                r = file_write(fd, job->table.data, job->table.size);
        if (!r && renameat(job->place->directory, temporary, job->place->directory, name) < 0)
                r = -errno;
        if (r)
                unlinkat(job->place->directory, temporary, 0);
        return r;
}

/* A thread that a disk held may write still when the next one does: each file has a name of its own. */
static void keep(WorkerJob *worker_job, void *state) {
        Job *job = (Job *)worker_job;
        char temporary[NAME_SIZE];

        snprintf(temporary, sizeof(temporary), TEMPORARY "%" PRIu64, job->number);
        job->head.sum = sum_of(&job->head, job->table.data);
        job->outcome = write_entry(job, temporary) ? FAILED : NEW;
}

static int by_use(const void *a, const void *b) {
        const Entry *x = a, *y = b;

        return (x->used_ns > y->used_ns) - (x->used_ns < y->used_ns);
}

static bool parse_name(const char *name, RowKey *key) {
        char again[NAME_SIZE];

        *key = (RowKey){ 0 };
        if (sscanf(name, "%16" SCNx64 "-%16" SCNx64, &key->device, &key->inode) != 2)
                return false;
        name_of(key, again);
        return !strcmp(name, again);
}

/* Removes what was not finished. Files of other names are not ours, and stay. */
static void list(int directory, Entries *entries) {
        int fd = openat(directory, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        _cleanup_(closedirp) DIR *dir = fd < 0 ? NULL : fdopendir(fd);
        struct dirent *file;
        struct stat st;
        RowKey key;

        while (dir && (file = readdir(dir))) {
                if (!strncmp(file->d_name, TEMPORARY, strlen(TEMPORARY)))
                        unlinkat(directory, file->d_name, 0);
                if (!parse_name(file->d_name, &key) ||
                    fstatat(directory, file->d_name, &st, AT_SYMLINK_NOFOLLOW) ||
                    array_reserve(&entries->items, &entries->room, entries->n + 1, 64))
                        continue;
                entries->items[entries->n++] = (Entry){ .device = key.device,
                                                        .inode = key.inode,
                                                        .size = (uint64_t)st.st_size,
                                                        .used_ns = st.st_mtim.tv_sec * (int64_t)NS_PER_SEC +
                                                                   st.st_mtim.tv_nsec };
                entries->n_bytes += (uint64_t)st.st_size;
        }
}

/* Removes the least recently used, so that there is room for what is written until the next time. */
static void let_oldest_go(int directory, Entries *entries) {
        char name[NAME_SIZE];
        uint32_t n = 0;

        list(directory, entries);
        if (entries->n)
                qsort(entries->items, entries->n, sizeof(*entries->items), by_use);
        while (n < entries->n && (entries->n_bytes + TRIM_BYTES > ROW_CACHE_MAX_BYTES ||
                                  entries->n - n + TRIM_FILES > ROW_CACHE_MAX_FILES)) {
                const Entry *oldest = &entries->items[n++];

                name_of(&(RowKey){ .device = oldest->device, .inode = oldest->inode }, name);
                unlinkat(directory, name, 0);
                entries->n_bytes -= oldest->size;
        }
        entries->n -= n;
        if (n)
                memmove(entries->items, entries->items + n, entries->n * sizeof(*entries->items));
}

static void trim(WorkerJob *worker_job, void *state) {
        Job *job = (Job *)worker_job;

        let_oldest_go(job->place->directory, &job->entries);
}

static void ready(WorkerJob *worker_job) {
        eventfd_write(((Job *)worker_job)->place->event_fd, 1);
}

/* ---- in the loop ---- */

/* The first object is the program itself. @userdata: where its build id goes. */
static int find_build(struct dl_phdr_info *info, size_t size, void *userdata) {
        for (int i = 0; i < info->dlpi_phnum; i++) {
                const ElfW(Phdr) *segment = &info->dlpi_phdr[i];
                const uint8_t *at = (const uint8_t *)(info->dlpi_addr + segment->p_vaddr);

                for (const uint8_t *end = at + segment->p_memsz; segment->p_type == PT_NOTE && at < end;) {
                        const ElfW(Nhdr) *note = (const void *)at;
                        const uint8_t *value = (const uint8_t *)(note + 1) + ALIGN_NOTE(note->n_namesz);

                        if (note->n_type == NT_GNU_BUILD_ID && note->n_descsz == BUILD_SIZE) {
                                memcpy(userdata, value, BUILD_SIZE);
                                return 2;
                        }
                        at = value + ALIGN_NOTE(note->n_descsz);
                }
        }
        return 1;
}

static int read_boot(char boot[static BOOT_SIZE]) {
        _cleanup_(freep) char *text = NULL;
        size_t size;
        int r = file_read("/proc/sys/kernel/random/boot_id", BOOT_SIZE - 1, &text, &size);

        if (!r)
                memcpy(boot, text, size);
        return r;
}

/* Whether nobody else writes there. Sets errno. */
static bool is_ours(int fd) {
        struct stat st;

        if (fstat(fd, &st))
                return false;
        errno = EPERM;
        return st.st_uid == geteuid() && !(st.st_mode & 022);
}

/* Return: 0, ROW_CACHE_E_*. */
static int open_directory(Place *place, const char *path) {
        _cleanup_(closep) int parent = -1;

        if (mkdir(path, 0700) && errno != EEXIST)
                return ROW_CACHE_E_UNUSABLE;
        parent = open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
        if (parent < 0 || (mkdirat(parent, DIRECTORY, 0700) && errno != EEXIST))
                return ROW_CACHE_E_UNUSABLE;
        place->directory = openat(parent, DIRECTORY, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
        if (place->directory < 0 || !is_ours(place->directory))
                return ROW_CACHE_E_UNUSABLE;
        if (flock(place->directory, LOCK_EX | LOCK_NB))
                return errno == EWOULDBLOCK ? ROW_CACHE_E_LOCKED : ROW_CACHE_E_UNUSABLE;
        return 0;
}

static Place *place_unref(Place *place) {
        if (!place || __atomic_sub_fetch(&place->n_refs, 1, __ATOMIC_ACQ_REL))
                return NULL;
        closep(&place->directory);
        closep(&place->event_fd);
        free(place);
        return NULL;
}

static void discard(WorkerJob *worker_job) {
        Job *job = (Job *)worker_job;

        place_unref(job->place);
        table_deinit(&job->table);
        free(job->entries.items);
        free(job);
}

static void answer(RowCache *cache, const Job *job, RowCacheResult *result) {
        if (job->turn != cache->turn) {
                cache->n_asked--;
                table_deinit(&result->table);
                return;
        }
        result->what = job->what;
        cache->answers[(cache->first_answer + cache->n_answers++) % MAX_ASKED] = *result;
}

static uint64_t number_of(uint64_t device, uint64_t inode) {
        return hash_bytes((const uint64_t[]){ device, inode }, 2 * sizeof(uint64_t));
}

static void note_there(RowCache *cache, uint64_t device, uint64_t inode) {
        (void)hashmap_put(&cache->there, number_of(device, inode), cache);
}

static void note_all(RowCache *cache, const Entries *entries) {
        hashmap_deinit(&cache->there);
        for (uint32_t i = 0; i < entries->n; i++)
                note_there(cache, entries->items[i].device, entries->items[i].inode);
}

static void look_done(WorkerJob *worker_job, void *userdata) {
        static const enum counter counters[] = { [FOUND] = COUNTER_UNWIND_CACHE_FOUND,
                                                 [NEW] = COUNTER_UNWIND_CACHE_NEW,
                                                 [DROPPED] = COUNTER_UNWIND_CACHE_DROPPED };
        Job *job = (Job *)worker_job;
        RowCache *cache = userdata;
        RowCacheResult result = { .is_there = job->outcome == FOUND,
                                  .result = job->head.answer.result,
                                  .table = job->table };

        stat_add(counters[job->outcome], 1);
        job->table = (Table){ 0 };
        answer(cache, job, &result);
        if (!result.is_there)
                hashmap_remove(&cache->there, number_of(job->head.key.device, job->head.key.inode));
        discard(worker_job);
}

static void look_stuck(WorkerJob *worker_job, void *userdata) {
        RowCache *cache = userdata;

        stat_add(COUNTER_UNWIND_CACHE_FAILED, 1);
        answer(cache, (Job *)worker_job, &(RowCacheResult){ 0 });
}

static int push(RowCache *cache, Job *job, void (*work)(WorkerJob *job, void *state),
                void (*done)(WorkerJob *job, void *userdata), void (*stuck)(WorkerJob *job, void *userdata)) {
        int r;

        __atomic_add_fetch(&cache->place->n_refs, 1, __ATOMIC_RELAXED);
        job->place = cache->place;
        job->job = (WorkerJob){ .work = work, .ready = ready, .done = done, .stuck = stuck,
                                .discard = discard, .rank = work != look };
        r = worker_push(cache->worker, &job->job);
        if (r)
                discard(&job->job);
        return r;
}

static void trim_done(WorkerJob *worker_job, void *userdata) {
        note_all(userdata, &((Job *)worker_job)->entries);
        discard(worker_job);
}

static void trim_stuck(WorkerJob *worker_job, void *userdata) {
}

static void begin_trim(RowCache *cache) {
        Job *job = calloc(1, sizeof(*job));

        cache->n_written_bytes = cache->n_written = 0;
        if (job)
                (void)push(cache, job, trim, trim_done, trim_stuck);
}

static void keep_stuck(WorkerJob *worker_job, void *userdata) {
        RowCache *cache = userdata;

        stat_add(COUNTER_UNWIND_CACHE_FAILED, 1);
        cache->n_waiting_bytes -= ((Job *)worker_job)->head.answer.size;
}

static void keep_done(WorkerJob *worker_job, void *userdata) {
        Job *job = (Job *)worker_job;
        RowCache *cache = userdata;

        stat_add(COUNTER_UNWIND_CACHE_FAILED, job->outcome == FAILED);
        cache->n_waiting_bytes -= job->head.answer.size;
        cache->n_written_bytes += job->head.answer.size + sizeof(RowHead);
        if (job->outcome != FAILED)
                note_there(cache, job->head.key.device, job->head.key.inode);
        discard(worker_job);
        if (cache->n_written_bytes > TRIM_BYTES || ++cache->n_written >= TRIM_FILES)
                begin_trim(cache);
}

static Job *new_job(RowCache *cache, const RowKey *key, const TableLimits *limits) {
        Job *job = calloc(1, sizeof(*job));

        if (!job)
                return NULL;
        memcpy(job->head.mark, MARK, sizeof(job->head.mark));
        memcpy(job->head.build, cache->build, sizeof(cache->build));
        memcpy(job->head.boot, cache->boot, sizeof(cache->boot));
        job->head.key = *key;
        job->head.max_functions = limits->max_functions;
        job->head.max_bytes = limits->max_bytes;
        job->turn = cache->turn;
        job->number = ++cache->n_jobs;
        return job;
}

RowCache *row_cache_free(RowCache *cache) {
        if (!cache)
                return NULL;
        worker_free(cache->worker);
        row_cache_forget(cache);
        hashmap_deinit(&cache->there);
        place_unref(cache->place);
        free(cache);
        return NULL;
}

int row_cache_new(RowCache **cachep, const char *directory) {
        _cleanup_(row_cache_freep) RowCache *cache = calloc(1, sizeof(*cache));
        /* as workers that parse: stacks wait for the rows */
        const WorkerConfig config = { .userdata = cache, .nice = 5 };
        Entries entries = { 0 };
        int r;

        if (!cache)
                return error_origin(-ENOMEM);
        cache->place = calloc(1, sizeof(*cache->place));
        if (!cache->place)
                return error_origin(-ENOMEM);
        *cache->place = (Place){ .directory = -1, .event_fd = -1, .n_refs = 1 };
        errno = ENODATA;
        if (dl_iterate_phdr(find_build, cache->build) != 2 || read_boot(cache->boot))
                return ROW_CACHE_E_UNUSABLE;
        r = open_directory(cache->place, directory);
        if (r)
                return r;
        cache->place->event_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
        if (cache->place->event_fd < 0)
                return error_origin(-errno);
        r = worker_new(&cache->worker, &config);
        if (r)
                return error_fold(r);
        let_oldest_go(cache->place->directory, &entries);
        note_all(cache, &entries);
        free(entries.items);
        *cachep = take(cache);
        return 0;
}

/* The thread is asked only for what may be there: a new file goes to a worker at once. */
bool row_cache_may_have(RowCache *cache, const RowKey *key) {
        if (!row_key_is_kept(key))
                return false;
        if (hashmap_get(&cache->there, number_of(key->device, key->inode)))
                return true;
        stat_add(COUNTER_UNWIND_CACHE_NEW, 1);
        return false;
}

bool row_cache_has_room(const RowCache *cache) {
        return cache->n_asked < MAX_ASKED;
}

bool row_cache_ask(RowCache *cache, void *what, const RowKey *key, const TableLimits *limits) {
        Job *job;

        if (!row_cache_has_room(cache) || !row_cache_may_have(cache, key))
                return false;
        job = new_job(cache, key, limits);
        if (!job)
                return false;
        job->what = what;
        if (push(cache, job, look, look_done, look_stuck))
                return false;
        cache->n_asked++;
        return true;
}

static void collect(RowCache *cache) {
        eventfd_t n_events;

        (void)eventfd_read(cache->place->event_fd, &n_events);
        worker_collect(cache->worker, clock_monotonic_ns());
}

bool row_cache_take(RowCache *cache, RowCacheResult *resultp) {
        if (!cache->n_answers)
                collect(cache);
        if (!cache->n_answers)
                return false;
        *resultp = cache->answers[cache->first_answer];
        cache->first_answer = (cache->first_answer + 1) % MAX_ASKED;
        cache->n_answers--;
        cache->n_asked--;
        return true;
}

void row_cache_forget(RowCache *cache) {
        RowCacheResult result;

        cache->turn++;
        while (cache->n_answers && row_cache_take(cache, &result))
                table_deinit(&result.table);
}

void row_cache_keep(RowCache *cache, const RowKey *key, const TableLimits *limits, int result, Table *table) {
        const TableJobAnswer made = table_job_answer(result, table);
        Job *job = NULL;

        if (row_key_is_kept(key) && made.size <= MAX_KEPT_BYTES - cache->n_waiting_bytes &&
            table_job_check_answer(&made, limits))
                job = new_job(cache, key, limits);
        if (!job) {
                table_deinit(table);
                return;
        }
        job->head.answer = made;
        job->table = *table;
        *table = (Table){ 0 };
        if (!push(cache, job, keep, keep_done, keep_stuck))
                cache->n_waiting_bytes += made.size;
}

int row_cache_fd(const RowCache *cache) {
        return cache->place->event_fd;
}

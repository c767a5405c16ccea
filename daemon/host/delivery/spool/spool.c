/* SPDX-License-Identifier: Apache-2.0 */

/*
 * How a batch outlives its daemon
 *
 * The spool is one directory. Its names are its index: they sort by age and hold the number of samples, so a
 * start reads names and sizes, and opens no file.
 *
 *     -rw------- 124 1795376599523967368-000001-100.batch           REALTIME ns, sequence, samples
 *     -rw------- 124 1795376599525883847-000002-100.batch
 *     -rw-------  60 1795376599531755537-000003-100.batch.corrupt   set aside: it could not be read
 *     -rw-------   0 lock                                           flock()ed by the process that uses it
 *     -rw-------  96 .writing                                       a file that is being written
 *     drwx------     dead                                           what receivers refused (dead-letters.h)
 *
 * A crash leaves a whole batch or nothing. A file is written as `.writing` and renamed when it is whole;
 * the next start removes a `.writing` that it finds. The file is removed after the receiver's answer, so
 * a crash in between sends the batch twice: the same bytes with the same profile ids.
 *
 * A power loss is another matter, since a flush costs a few ms. A file that is stored with SPOOL_PUT_FLUSHED
 * is flushed before it is renamed, and the directory after that. Any other may lose its bytes and keep its
 * name; the checksums of the file tell. spool_flush() and spool_release() flush such a file later.
 *
 * Three kinds of entries are in the index:
 *
 *     free    spool_next() gives it out, and the caps drop it when it is the oldest
 *     held    memory has the batch too and sends it from there: neither given out nor dropped
 *     lent    spool_next() gave it out and it is being sent: a cap may drop its file, but its samples are not
 *             lost unless spool_release() says that they were not delivered. One entry is lent at a time
 *
 * spool_release() makes a held or lent entry free; spool_remove() ends it. What is held may fill the spool to
 * its cap: then spool_put() fails with ENOSPC, and the caller keeps the batch.
 *
 * The directory may be removed or replaced while it is used. Each spool_put() compares the open directory
 * with the one at the path, and goes on in the one that is there.
 */

#include "host/delivery/spool/spool.h"

#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/base/file/directory.h"
#include "core/base/file/file.h"
#include "core/base/util/array.h"
#include "core/base/util/error.h"

#define SUFFIX ".batch"
#define SUFFIX_CORRUPT SUFFIX ".corrupt"
#define TEMPORARY ".writing"

enum {
        NAME_ROOM = 96,
        ASIDE_ROOM = NAME_ROOM + sizeof(".corrupt"),
        KEPT_ASIDE = 16,
        MAX_FILE_BYTES = SPOOL_MAX_REQUEST + (1 << 20), /* noise does not compress */
};

/* Files in the directory, oldest first. */
typedef struct Index {
        SpoolEntry *entries;            /* [first, n), by time and sequence */
        size_t first, n, room;
        uint64_t bytes, n_events;
        size_t n_held;
        uint64_t held_events;
} Index;

struct Spool {
        int fd, lock;
        char *path;
        bool read_only;
        SpoolLimits limits;
        Index index;
        uint32_t sequence;              /* sequence of the last file of ours */
        SpoolCounts counts;
        uint64_t *lent_lost;            /* in counts: why the lent file was dropped; NULL = it was not */
};

/* ---- names and index ---- */

void spool_entry_name(const SpoolEntry *entry, char *name, size_t size) {
        snprintf(name, size, "%019" PRIu64 "-%06" PRIu32 "-%" PRIu64 SUFFIX, entry->time_ns, entry->sequence,
                 entry->n_events);
}

/*
 * An entry must print as the same name, and its numbers must be possible: a file with any other name is not
 * ours, and is not touched.
 */
static int parse_name(const char *name, SpoolEntry *entry) {
        char again[NAME_ROOM];

        *entry = (SpoolEntry){ 0 };
        if (sscanf(name, "%19" SCNu64 "-%" SCNu32 "-%" SCNu64, &entry->time_ns, &entry->sequence,
                   &entry->n_events) != 3 ||
            entry->time_ns > INT64_MAX || entry->n_events > SPOOL_MAX_EVENTS)
                return 1;
        spool_entry_name(entry, again, sizeof(again));
        return strcmp(name, again) != 0;
}

/* By time and sequence, for qsort(). */
static int by_age(const void *a, const void *b) {
        const SpoolEntry *x = a, *y = b;

        if (x->time_ns != y->time_ns)
                return x->time_ns < y->time_ns ? -1 : 1;
        return x->sequence < y->sequence ? -1 : x->sequence > y->sequence;
}

static size_t index_n(const Index *index) {
        return index->n - index->first;
}

static int index_reserve(Index *index) {
        if (index->first && index->n == index->room) {
                memmove(index->entries, index->entries + index->first,
                        index_n(index) * sizeof(*index->entries));
                index->n -= index->first;
                index->first = 0;
        }
        return array_reserve(&index->entries, &index->room, index->n + 1, 64);
}

static int index_append(Index *index, const SpoolEntry *entry) {
        int r = index_reserve(index);

        if (r)
                return error_fold(r);
        index->entries[index->n++] = *entry;
        index->bytes += entry->size;
        index->n_events += entry->n_events;
        index->n_held += entry->held;
        index->held_events += entry->held ? entry->n_events : 0;
        return 0;
}

static void index_sort(Index *index) {
        if (index_n(index))
                qsort(index->entries + index->first, index_n(index), sizeof(*index->entries), by_age);
}

/* From now on spool_next() may give it out. */
static void index_unhold(Index *index, SpoolEntry *entry) {
        if (!entry->held)
                return;
        entry->held = false;
        index->n_held--;
        index->held_events -= entry->n_events;
}

static void index_remove(Index *index, size_t at) {
        index_unhold(index, &index->entries[at]);
        index->bytes -= index->entries[at].size;
        index->n_events -= index->entries[at].n_events;
        if (at == index->first) {
                index->first++;
                return;
        }
        memmove(index->entries + at, index->entries + at + 1, (index->n - at - 1) * sizeof(*index->entries));
        index->n--;
}

/* Return: its place, index->n = it is gone. What was held is among the newest. */
static size_t index_find(const Index *index, const SpoolEntry *entry) {
        if (entry->held)
                for (size_t i = index->n; i > index->first; i--)
                        if (!by_age(&index->entries[i - 1], entry))
                                return i - 1;
        for (size_t i = index->first; i < index->n; i++)
                if (!by_age(&index->entries[i], entry))
                        return i;
        return index->n;
}

/* The first entry behind @after (NULL = of all) that is not held; index->n = none. */
static size_t index_find_next(const Index *index, const SpoolEntry *after) {
        size_t at = index->first;

        while (after && at < index->n && by_age(&index->entries[at], after) <= 0)
                at++;
        while (at < index->n && index->entries[at].held)
                at++;
        return at;
}

static void remove_file(Spool *spool, size_t at) {
        char name[NAME_ROOM];

        spool_entry_name(&spool->index.entries[at], name, sizeof(name));
        unlinkat(spool->fd, name, 0);
        index_remove(&spool->index, at);
}

/* ---- what there is in the directory ---- */

_printf_(2, 3) static int unusable(SpoolProblem *problem, const char *format, ...) {
        va_list args;

        va_start(args, format);
        vsnprintf(problem->text, sizeof(problem->text), format, args);
        va_end(args);
        return SPOOL_E_UNUSABLE;
}

typedef struct Aside {
        char names[KEPT_ASIDE][ASIDE_ROOM];     /* the newest, in any order */
        size_t n;
} Aside;

static bool is_aside(const char *name) {
        size_t length = strlen(name);

        return length > strlen(SUFFIX_CORRUPT) && length < ASIDE_ROOM && isdigit((unsigned char)name[0]) &&
                !strcmp(name + length - strlen(SUFFIX_CORRUPT), SUFFIX_CORRUPT);
}

/* Removes the oldest file over KEPT_ASIDE. Names begin with the time, so the least name is the oldest. */
static void keep_newest_aside(Spool *spool, Aside *aside, const char *name) {
        size_t oldest = 0;

        if (aside->n < KEPT_ASIDE) {
                strcpy(aside->names[aside->n++], name);
                return;
        }
        for (size_t i = 1; i < aside->n; i++)
                if (strcmp(aside->names[i], aside->names[oldest]) < 0)
                        oldest = i;
        if (strcmp(name, aside->names[oldest]) < 0) {
                unlinkat(spool->fd, name, 0);
                return;
        }
        unlinkat(spool->fd, aside->names[oldest], 0);
        strcpy(aside->names[oldest], name);
}

/* The first @n_known entries are in order. A file that a killed process was writing is removed. */
static int scan_file(Spool *spool, const char *name, size_t n_known) {
        Index *index = &spool->index;
        SpoolEntry entry;
        struct stat st;

        if (!strcmp(name, TEMPORARY) && !spool->read_only)
                unlinkat(spool->fd, name, 0);
        if (parse_name(name, &entry) || fstatat(spool->fd, name, &st, AT_SYMLINK_NOFOLLOW) ||
            !S_ISREG(st.st_mode))
                return 0;
        if (n_known && bsearch(&entry, index->entries + index->first, n_known, sizeof(entry), by_age))
                return 0;
        entry.size = (uint64_t)st.st_size;
        entry.flushed = true;           /* the kernel has flushed it, or will, long before it is asked for */
        spool->sequence = MAX(spool->sequence, entry.sequence);
        return index_append(index, &entry);
}

static int scan(Spool *spool, SpoolProblem *problem) {
        int fd = openat(spool->fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC), r = 0;
        DIR *dir = fd < 0 ? NULL : fdopendir(fd);
        size_t n_known = index_n(&spool->index);
        struct dirent *file;
        Aside aside = { 0 };

        if (!dir) {
                closep(&fd);
                return unusable(problem, "%s", strerror(errno));
        }
        while (!r && (file = readdir(dir)))
                if (is_aside(file->d_name) && !spool->read_only)
                        keep_newest_aside(spool, &aside, file->d_name);
                else
                        r = scan_file(spool, file->d_name, n_known);
        closedir(dir);
        index_sort(&spool->index);
        return r;
}

/* ---- the directory itself: may we trust it, is it ours alone, is it there still? ---- */

/* To look into what another user owns is no harm, and root may. */
static int check_directory(int fd, bool read_only, SpoolProblem *problem) {
        bool may_look = read_only && geteuid() == 0;
        struct stat st;

        if (fstat(fd, &st) < 0)
                return unusable(problem, "%s", strerror(errno));
        errno = EPERM;
        if (st.st_uid != geteuid() && st.st_uid != 0 && !may_look)
                return unusable(problem, "it belongs to user %u", st.st_uid);
        if (st.st_mode & 022)
                return unusable(problem, "others may write there (mode %03o)", st.st_mode & 0777);
        return 0;
}

static int open_directory(Spool *spool, const char *path, SpoolProblem *problem) {
        if (!spool->read_only && mkdir(path, 0700) < 0 && errno != EEXIST)
                return unusable(problem, "%s", strerror(errno));
        spool->fd = open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
        if (spool->fd < 0)
                return unusable(problem, "%s",
                                errno == ELOOP || errno == ENOTDIR ? "no directory, or a symbolic link"
                                                                   : strerror(errno));
        return check_directory(spool->fd, spool->read_only, problem);
}

static int take_lock(Spool *spool, SpoolProblem *problem) {
        spool->lock = openat(spool->fd, "lock", O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK, 0600);
        if (spool->lock >= 0 && !flock(spool->lock, LOCK_EX | LOCK_NB))
                return 0;
        if (spool->lock < 0 || errno != EWOULDBLOCK)
                return unusable(problem, "cannot lock it: %s", strerror(errno));
        snprintf(problem->text, sizeof(problem->text), "another spanprof has it");
        return SPOOL_E_LOCKED;
}

static bool is_ours(const char *name, bool is_directory) {
        SpoolEntry entry;

        /* "rows": tables of unwind rows (host/sampling/unwind/tables/row-cache.h) */
        if (is_directory)
                return !strcmp(name, SPOOL_DEAD_LETTERS) || !strcmp(name, "rows");

        /* "uploads": what is known of symbols that were uploaded (host/naming/upload-state.h) */
        if (!strcmp(name, "uploads") || !strcmp(name, "uploads.new"))
                return true;
        /* sketches of builds (host/service/watch/watch.h) */
        if (!strcmp(name, "watch") || !strcmp(name, "watch.new"))
                return true;
        if (!strcmp(name, "lock") || !strcmp(name, TEMPORARY) || !strcmp(name, SPOOL_RETRY_LOCK))
                return true;
        return is_aside(name) || !parse_name(name, &entry);
}

/* Whether @path is a directory of root's or of @uid where nobody else writes. */
static bool is_of(const char *path, uint32_t uid) {
        struct stat st;

        return !lstat(path, &st) && S_ISDIR(st.st_mode) && (!st.st_uid || st.st_uid == uid) &&
                !(st.st_mode & 022);
}

/* Nothing in another's directory is given, nor in one that holds what is none of a spool's. */
int spool_give(const char *path, uint32_t uid, uint32_t gid) {
        _cleanup_(freep) char *dead = NULL;
        int r = directory_may_give(path, is_ours);

        if (r)
                return r;
        if (asprintf(&dead, "%s/" SPOOL_DEAD_LETTERS, path) < 0)
                return error_origin(-ENOMEM);
        if (is_of(path, uid) && !access(dead, F_OK))
                r = directory_give(dead, uid, gid, is_ours);
        return r ?: directory_give(path, uid, gid, is_ours);
}

int spool_new(Spool **spoolp, const char *path, const SpoolLimits *limits, bool read_only,
              SpoolProblem *problem) {
        _cleanup_(spool_freep) Spool *spool = calloc(1, sizeof(*spool));
        int r;

        if (!spool)
                return error_origin(-ENOMEM);
        spool->fd = spool->lock = -1;
        spool->read_only = read_only;
        spool->limits = limits ? *limits : (SpoolLimits){ 0 };
        spool->path = strdup(path);
        if (!spool->path)
                return error_origin(-ENOMEM);
        r = open_directory(spool, path, problem);
        if (!r && !read_only)
                r = take_lock(spool, problem);
        if (!r)
                r = scan(spool, problem);
        if (r)
                return r;
        *spoolp = take(spool);
        return 0;
}

Spool *spool_free(Spool *spool) {
        if (!spool)
                return NULL;
        closep(&spool->fd);
        closep(&spool->lock);
        free(spool->index.entries);
        free(spool->path);
        free(spool);
        return NULL;
}

/* Is another directory at our path now? One that was only moved is as good as it was. */
static bool is_elsewhere(const Spool *spool) {
        struct stat ours, there;

        if (fstat(spool->fd, &ours) < 0)
                return false;
        if (lstat(spool->path, &there) < 0)
                return errno == ENOENT && !ours.st_nlink;
        return there.st_dev != ours.st_dev || there.st_ino != ours.st_ino;
}

/*
 * Goes on in the directory that is at our path now. Entries of the old one stay in the index until they are
 * read, since one that is being sent is not lost. Return: 0, SPOOL_E_FAILED with errno set, -ENOMEM.
 */
static int follow(Spool *spool) {
        Spool there = { .fd = -1, .lock = -1 };
        SpoolProblem problem;
        int r, error;

        r = open_directory(&there, spool->path, &problem);
        if (!r)
                r = take_lock(&there, &problem);
        if (r) {
                error = r == SPOOL_E_LOCKED ? EBUSY : errno;
                closep(&there.fd);
                closep(&there.lock);
                errno = error;
                return SPOOL_E_FAILED;
        }
        closep(&spool->fd);
        closep(&spool->lock);
        spool->fd = there.fd;
        spool->lock = there.lock;
        spool->counts.n_directories++;
        r = scan(spool, &problem);
        if (r == SPOOL_E_UNUSABLE)
                return SPOOL_E_FAILED;
        return r ? error_fold(r) : 0;
}

/* ---- caps ---- */

static void drop(Spool *spool, size_t at, uint64_t *lostp) {
        const SpoolEntry *entry = &spool->index.entries[at];

        *lostp += entry->lent ? 0 : entry->n_events;
        spool->lent_lost = entry->lent ? lostp : spool->lent_lost;
        spool->counts.n_files_dropped++;
        remove_file(spool, at);
}

static bool is_too_old(const Spool *spool, const SpoolEntry *entry, uint64_t now_ns) {
        return spool->limits.max_age_ns && entry->time_ns < now_ns &&
                now_ns - entry->time_ns > spool->limits.max_age_ns;
}

static void expire(Spool *spool, uint64_t now_ns) {
        size_t at;

        while ((at = index_find_next(&spool->index, NULL)) < spool->index.n &&
               is_too_old(spool, &spool->index.entries[at], now_ns))
                drop(spool, at, &spool->counts.lost_age);
}

static bool is_full(const Spool *spool, uint64_t size) {
        return spool_n(spool) &&
                ((spool->limits.max_bytes && spool->index.bytes + size > spool->limits.max_bytes) ||
                 (spool->limits.max_files && spool_n(spool) >= spool->limits.max_files));
}

/* Return: 0, SPOOL_E_FAILED: what is held fills it. */
static int make_room(Spool *spool, uint64_t size) {
        size_t at;

        while (is_full(spool, size) && (at = index_find_next(&spool->index, NULL)) < spool->index.n)
                drop(spool, at, &spool->counts.lost_full);
        if (!is_full(spool, size))
                return 0;
        errno = ENOSPC;
        return SPOOL_E_FAILED;
}

/* ---- storing ---- */

/* Return: 0, SPOOL_E_FAILED with errno set. */
static int write_file(Spool *spool, const char *name, const void *bytes, size_t size, bool flushed) {
        int fd, r;

        unlinkat(spool->fd, TEMPORARY, 0);
        fd = openat(spool->fd, TEMPORARY, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
        if (fd < 0)
                return SPOOL_E_FAILED;
        r = file_write(fd, bytes, size);
        if (!r && flushed && fdatasync(fd) < 0)
                r = -errno;
        close(fd);
        if (!r && renameat2(spool->fd, TEMPORARY, spool->fd, name, RENAME_NOREPLACE) < 0)
                r = -errno;
        if (r < 0) {
                unlinkat(spool->fd, TEMPORARY, 0);
                errno = -r;
                return SPOOL_E_FAILED;
        }
        if (flushed)
                fsync(spool->fd);
        return 0;
}

/* @entry: all but the sequence is set. Return: 0, SPOOL_E_FAILED, -ENOMEM. */
static int store(Spool *spool, SpoolEntry *entry, const void *bytes) {
        Index *index = &spool->index;
        char name[NAME_ROOM];
        int r;

        entry->sequence = spool->sequence + 1;
        spool_entry_name(entry, name, sizeof(name));
        if ((r = make_room(spool, entry->size)) ||
            (r = write_file(spool, name, bytes, entry->size, entry->flushed)))
                return r;
        spool->sequence++;
        r = index_append(index, entry);
        if (r) {                        /* the caller keeps the request: no start may find it here too */
                unlinkat(spool->fd, name, 0);
                return error_fold(r);
        }
        /* a clock that was set back: keep the order of the names, which is the order after a restart */
        if (index_n(index) > 1 && by_age(&index->entries[index->n - 2], entry) > 0)
                index_sort(index);
        return 0;
}

int spool_put(Spool *spool, const SpoolHeader *header, const void *request, size_t size, uint64_t now_ns,
              unsigned how, SpoolEntry *entryp) {
        SpoolEntry entry = { .time_ns = now_ns, .n_events = header->n_events,
                             .held = how & SPOOL_PUT_HELD, .flushed = how & SPOOL_PUT_FLUSHED };
        SpoolHeader stamped = *header;
        _cleanup_(freep) uint8_t *bytes = NULL;
        size_t n_bytes;
        int r;

        stamped.time_ns = now_ns;
        r = spool_file_pack(&stamped, request, size, &bytes, &n_bytes);
        if (r)
                return error_fold(r);
        entry.size = n_bytes;
        if (is_elsewhere(spool) && (r = follow(spool)))
                return r;
        expire(spool, now_ns);
        r = store(spool, &entry, bytes);
        if (r)
                return r;
        *entryp = entry;
        return 0;
}

static void flush(Spool *spool, SpoolEntry *entry) {
        _cleanup_(closep) int fd = -1;
        char name[NAME_ROOM];

        if (entry->flushed)
                return;
        entry->flushed = true;
        spool_entry_name(entry, name, sizeof(name));
        fd = openat(spool->fd, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
        if (fd >= 0 && fdatasync(fd) >= 0)
                fsync(spool->fd);
}

void spool_flush(Spool *spool, const SpoolEntry *entry) {
        size_t at = index_find(&spool->index, entry);

        if (at < spool->index.n)
                flush(spool, &spool->index.entries[at]);
}

void spool_release(Spool *spool, const SpoolEntry *entry) {
        size_t at = index_find(&spool->index, entry);

        if (entry->lent && spool->lent_lost) {
                *spool->lent_lost += entry->n_events;
                spool->lent_lost = NULL;
        }
        if (at == spool->index.n)
                return;
        index_unhold(&spool->index, &spool->index.entries[at]);
        spool->index.entries[at].lent = false;
        flush(spool, &spool->index.entries[at]);
}

void spool_remove(Spool *spool, const SpoolEntry *entry) {
        size_t at = index_find(&spool->index, entry);

        if (at < spool->index.n)
                remove_file(spool, at);
}

/* ---- giving out ---- */

int spool_read(const Spool *spool, const SpoolEntry *entry, SpoolHeader *headerp, uint8_t **requestp) {
        _cleanup_(closep) int fd = -1;
        _cleanup_(freep) char *bytes = NULL;
        char name[NAME_ROOM];
        size_t size;
        int r;

        spool_entry_name(entry, name, sizeof(name));
        fd = openat(spool->fd, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
        if (fd < 0)
                return SPOOL_FILE_E_CORRUPT;
        r = file_read_fd(fd, MAX_FILE_BYTES, &bytes, &size);
        if (r)
                return r < 0 ? r : SPOOL_FILE_E_CORRUPT;
        r = spool_file_unpack(bytes, size, headerp, requestp);
        if (r || headerp->n_events == entry->n_events)
                return r;
        /* what is counted when a file comes is taken off when it goes: its name and its header must agree */
        free(take(*requestp));
        return SPOOL_FILE_E_CORRUPT;
}

/* Keeps it for a person, under a name that is never read again. */
static void set_aside(Spool *spool, size_t at) {
        char name[NAME_ROOM], aside[ASIDE_ROOM];

        spool->counts.lost_corrupt += spool->index.entries[at].n_events;
        spool_entry_name(&spool->index.entries[at], name, sizeof(name));
        snprintf(aside, sizeof(aside), "%s.corrupt", name);
        if (!renameat(spool->fd, name, spool->fd, aside) || errno != ENOENT)
                spool->counts.n_files_corrupt++;
        else
                spool->counts.n_files_gone++;           /* with a directory that was removed, or by hand */
        unlinkat(spool->fd, name, 0);                   /* if it could not be renamed */
        index_remove(&spool->index, at);
}

void spool_reject(Spool *spool, const SpoolEntry *entry) {
        size_t at = index_find(&spool->index, entry);

        if (at < spool->index.n)
                set_aside(spool, at);
}

static void drop_schema(Spool *spool, size_t at) {
        spool->counts.n_files_schema++;
        spool->counts.lost_schema += spool->index.entries[at].n_events;
        remove_file(spool, at);
}

int spool_next(Spool *spool, uint64_t now_ns, const SpoolEntry *after, SpoolEntry *entryp,
               SpoolHeader *headerp, uint8_t **requestp) {
        size_t at;

        expire(spool, now_ns);
        while ((at = index_find_next(&spool->index, after)) < spool->index.n) {
                SpoolEntry *entry = &spool->index.entries[at];
                int r = spool_read(spool, entry, headerp, requestp);

                if (r < 0)
                        return error_fold(r);
                if (!r) {
                        spool->lent_lost = NULL;
                        entry->lent = true;
                        *entryp = *entry;
                        return 0;
                }
                if (r == SPOOL_FILE_E_SCHEMA)
                        drop_schema(spool, at);
                else
                        set_aside(spool, at);
        }
        return SPOOL_E_EMPTY;
}

/* ---- numbers ---- */

const char *spool_path(const Spool *spool) {
        return spool->path;
}

SpoolLimits spool_limits(const Spool *spool) {
        return spool->limits;
}

size_t spool_n(const Spool *spool) {
        return index_n(&spool->index);
}

uint64_t spool_bytes(const Spool *spool) {
        return spool->index.bytes;
}

uint64_t spool_events(const Spool *spool) {
        return spool->index.n_events;
}

size_t spool_n_free(const Spool *spool) {
        return spool_n(spool) - spool->index.n_held;
}

uint64_t spool_free_events(const Spool *spool) {
        return spool->index.n_events - spool->index.held_events;
}

const SpoolEntry *spool_entry(const Spool *spool, size_t index) {
        return &spool->index.entries[spool->index.first + index];
}

SpoolCounts spool_take_counts(Spool *spool) {
        SpoolCounts counts = spool->counts;

        spool->counts = (SpoolCounts){ 0 };
        return counts;
}

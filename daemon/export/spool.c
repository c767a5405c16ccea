/* SPDX-License-Identifier: Apache-2.0 */
#include "export/spool.h"

#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>

#include "util/error.h"
#include "util/file.h"
#include "util/text.h"

#define SUFFIX ".batch"
#define TEMPORARY ".writing"

enum {
        NAME_ROOM = 96,
        KEPT_ASIDE = 16,
        MAX_FILE_BYTES = SPOOL_MAX_REQUEST + (1 << 20),         /* noise does not compress */
};

struct Spool {
        int fd, lock;
        bool read_only;
        SpoolLimits limits;
        SpoolEntry *entries;            /* [first, n), by time and sequence */
        size_t first, n, room;
        uint64_t bytes, n_events;
        uint32_t sequence;              /* of the last file of ours */
        SpoolCounts counts;
};

static _Thread_local char problem[160];

const char *spool_problem(void) {
        return problem;
}

_printf_(1, 2) static int unusable(const char *format, ...) {
        va_list args;

        va_start(args, format);
        vsnprintf(problem, sizeof(problem), format, args);
        va_end(args);
        return SPOOL_E_UNUSABLE;
}

void spool_entry_name(const SpoolEntry *entry, char *name, size_t size) {
        snprintf(name, size, "%019" PRIu64 "-%06" PRIu32 "-%" PRIu64 SUFFIX, entry->time_ns, entry->sequence,
                 entry->n_events);
}

/* The entry must print as the same name: what is not ours to the letter is not touched. */
static int parse_name(const char *name, SpoolEntry *entry) {
        char again[NAME_ROOM];

        *entry = (SpoolEntry){ 0 };
        if (sscanf(name, "%19" SCNu64 "-%" SCNu32 "-%" SCNu64, &entry->time_ns, &entry->sequence, &entry->n_events) != 3)
                return 1;
        spool_entry_name(entry, again, sizeof(again));
        return strcmp(name, again) != 0;
}

static int by_age(const void *a, const void *b) {
        const SpoolEntry *x = a, *y = b;

        if (x->time_ns != y->time_ns)
                return x->time_ns < y->time_ns ? -1 : 1;
        return x->sequence < y->sequence ? -1 : x->sequence > y->sequence;
}

static int append(Spool *spool, const SpoolEntry *entry) {
        if (spool->first && spool->n == spool->room) {
                memmove(spool->entries, spool->entries + spool->first, (spool->n - spool->first) * sizeof(*entry));
                spool->n -= spool->first;
                spool->first = 0;
        }
        if (spool->n == spool->room) {
                size_t room = spool->room ? spool->room * 2 : 64;
                SpoolEntry *entries = reallocarray(spool->entries, room, sizeof(*entries));

                if (!entries)
                        return error_origin(-ENOMEM);
                spool->entries = entries;
                spool->room = room;
        }
        spool->entries[spool->n++] = *entry;
        spool->bytes += entry->size;
        spool->n_events += entry->n_events;
        return 0;
}

typedef struct Aside {
        char names[KEPT_ASIDE][NAME_ROOM + 16];         /* the newest, in any order */
        size_t n;
} Aside;

static bool is_aside(const char *name) {
        size_t length = strlen(name);

        return length > strlen(SUFFIX ".corrupt") && length < NAME_ROOM + 16 && isdigit((unsigned char)name[0]) &&
               !strcmp(name + length - strlen(SUFFIX ".corrupt"), SUFFIX ".corrupt");
}

/* What was set aside is for a person, who may never come: names begin with the time, so the least is the oldest. */
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

/* What a killed process was writing is nobody's: its samples went with it. */
static int scan_entry(Spool *spool, const char *name) {
        SpoolEntry entry;
        struct stat st;

        if (!strcmp(name, TEMPORARY) && !spool->read_only)
                unlinkat(spool->fd, name, 0);
        if (parse_name(name, &entry) || fstatat(spool->fd, name, &st, AT_SYMLINK_NOFOLLOW) || !S_ISREG(st.st_mode))
                return 0;
        entry.size = (uint64_t)st.st_size;
        spool->sequence = MAX(spool->sequence, entry.sequence);
        return append(spool, &entry);
}

static int scan(Spool *spool) {
        int fd = openat(spool->fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC), r = 0;
        DIR *dir = fd < 0 ? NULL : fdopendir(fd);
        struct dirent *file;
        Aside aside = { 0 };

        if (!dir) {
                closep(&fd);
                return unusable("%s", strerror(errno));
        }
        while (!r && (file = readdir(dir)))
                if (is_aside(file->d_name) && !spool->read_only)
                        keep_newest_aside(spool, &aside, file->d_name);
                else
                        r = scan_entry(spool, file->d_name);
        closedir(dir);
        if (spool->n)
                qsort(spool->entries, spool->n, sizeof(*spool->entries), by_age);
        return r;
}

static int check_directory(int fd) {
        struct stat st;

        if (fstat(fd, &st) < 0)
                return unusable("%s", strerror(errno));
        if (st.st_uid != geteuid() && st.st_uid != 0)
                return unusable("it belongs to user %u", st.st_uid);
        if (st.st_mode & 022)
                return unusable("others may write there (mode %03o)", st.st_mode & 0777);
        return 0;
}

static int open_directory(Spool *spool, const char *path) {
        if (!spool->read_only && mkdir(path, 0700) < 0 && errno != EEXIST)
                return unusable("%s", strerror(errno));
        spool->fd = open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
        if (spool->fd < 0)
                return unusable("%s", errno == ELOOP || errno == ENOTDIR ? "no directory, or a symbolic link" : strerror(errno));
        return check_directory(spool->fd);
}

static int take_lock(Spool *spool) {
        spool->lock = openat(spool->fd, "lock", O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK, 0600);
        if (spool->lock < 0)
                return unusable("cannot lock it: %s", strerror(errno));
        if (flock(spool->lock, LOCK_EX | LOCK_NB) < 0)
                return errno == EWOULDBLOCK ? SPOOL_E_LOCKED : unusable("cannot lock it: %s", strerror(errno));
        return 0;
}

int spool_new(Spool **spoolp, const char *path, const SpoolLimits *limits, bool read_only) {
        _cleanup_(spool_freep) Spool *spool = calloc(1, sizeof(*spool));
        int r;

        if (!spool)
                return error_origin(-ENOMEM);
        spool->fd = spool->lock = -1;
        spool->read_only = read_only;
        spool->limits = limits ? *limits : (SpoolLimits){ 0 };
        r = open_directory(spool, path);
        if (!r && !read_only)
                r = take_lock(spool);
        if (!r)
                r = scan(spool);
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
        free(spool->entries);
        free(spool);
        return NULL;
}

static void forget(Spool *spool, size_t index) {
        spool->bytes -= spool->entries[index].size;
        spool->n_events -= spool->entries[index].n_events;
        if (index == spool->first) {
                spool->first++;
                return;
        }
        memmove(spool->entries + index, spool->entries + index + 1, (spool->n - index - 1) * sizeof(*spool->entries));
        spool->n--;
}

static void remove_index(Spool *spool, size_t index) {
        char name[NAME_ROOM];

        spool_entry_name(&spool->entries[index], name, sizeof(name));
        unlinkat(spool->fd, name, 0);
        forget(spool, index);
}

void spool_remove(Spool *spool, const SpoolEntry *entry) {
        for (size_t i = spool->first; i < spool->n; i++)
                if (!by_age(&spool->entries[i], entry)) {
                        remove_index(spool, i);
                        return;
                }
}

static void drop_oldest(Spool *spool, uint64_t *lostp) {
        *lostp += spool->entries[spool->first].n_events;
        spool->counts.n_files_dropped++;
        remove_index(spool, spool->first);
}

static void expire(Spool *spool, uint64_t now_ns) {
        while (spool->limits.max_age_ns && spool_n(spool) && spool->entries[spool->first].time_ns < now_ns &&
               now_ns - spool->entries[spool->first].time_ns > spool->limits.max_age_ns)
                drop_oldest(spool, &spool->counts.lost_age);
}

static void make_room(Spool *spool, uint64_t size) {
        while (spool_n(spool) && ((spool->limits.max_bytes && spool->bytes + size > spool->limits.max_bytes) ||
                                  (spool->limits.max_files && spool_n(spool) >= spool->limits.max_files)))
                drop_oldest(spool, &spool->counts.lost_full);
}

/* Whole and on the disk before it has its name; the name is on the disk before the caller forgets the batch. */
static int write_file(Spool *spool, const char *name, const void *bytes, size_t size) {
        int fd, r;

        unlinkat(spool->fd, TEMPORARY, 0);
        fd = openat(spool->fd, TEMPORARY, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
        if (fd < 0)
                return SPOOL_E_FAILED;
        r = file_write(fd, bytes, size);
        if (!r && fdatasync(fd) < 0)
                r = -errno;
        close(fd);
        if (!r && renameat2(spool->fd, TEMPORARY, spool->fd, name, RENAME_NOREPLACE) < 0)
                r = -errno;
        if (r < 0) {
                unlinkat(spool->fd, TEMPORARY, 0);
                errno = -r;
                return SPOOL_E_FAILED;
        }
        fsync(spool->fd);
        return 0;
}

int spool_put(Spool *spool, const SpoolHeader *header, const void *request, size_t size, uint64_t now_ns) {
        SpoolEntry entry = { .time_ns = now_ns, .n_events = header->n_events, .sequence = spool->sequence + 1 };
        SpoolHeader stamped = *header;
        _cleanup_(freep) uint8_t *bytes = NULL;
        char name[NAME_ROOM];
        size_t n;
        int r;

        stamped.time_ns = now_ns;
        r = spool_file_pack(&stamped, request, size, &bytes, &n);
        if (r)
                return error_fold(r);
        entry.size = n;
        expire(spool, now_ns);
        make_room(spool, n);
        spool_entry_name(&entry, name, sizeof(name));
        r = write_file(spool, name, bytes, n);
        if (r)
                return r;
        spool->sequence++;
        r = append(spool, &entry);
        /* a clock that was set back: keep the order of the names, which is the order after a restart */
        if (!r && spool_n(spool) > 1 && by_age(&spool->entries[spool->n - 2], &entry) > 0)
                qsort(spool->entries + spool->first, spool_n(spool), sizeof(entry), by_age);
        return r;
}

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
        return spool_file_unpack(bytes, size, headerp, requestp);
}

/* Kept for a person, under a name that is never read again. */
static void set_aside(Spool *spool, size_t index) {
        char name[NAME_ROOM], aside[NAME_ROOM + sizeof(".corrupt")];

        spool->counts.n_files_corrupt++;
        spool->counts.lost_corrupt += spool->entries[index].n_events;
        spool_entry_name(&spool->entries[index], name, sizeof(name));
        snprintf(aside, sizeof(aside), "%s.corrupt", name);
        if (renameat(spool->fd, name, spool->fd, aside) < 0)
                unlinkat(spool->fd, name, 0);
        forget(spool, index);
}

void spool_reject(Spool *spool, const SpoolEntry *entry) {
        for (size_t i = spool->first; i < spool->n; i++)
                if (!by_age(&spool->entries[i], entry)) {
                        set_aside(spool, i);
                        return;
                }
}

static void drop_schema(Spool *spool, size_t index) {
        spool->counts.n_files_schema++;
        spool->counts.lost_schema += spool->entries[index].n_events;
        remove_index(spool, index);
}

/* The first entry behind @after. */
static size_t find_after(const Spool *spool, const SpoolEntry *after) {
        size_t index = spool->first;

        while (after && index < spool->n && by_age(&spool->entries[index], after) <= 0)
                index++;
        return index;
}

int spool_next(Spool *spool, uint64_t now_ns, const SpoolEntry *after, SpoolEntry *entryp, SpoolHeader *headerp,
               uint8_t **requestp) {
        size_t index;

        expire(spool, now_ns);
        while ((index = find_after(spool, after)) < spool->n) {
                int r = spool_read(spool, &spool->entries[index], headerp, requestp);

                if (r < 0)
                        return error_fold(r);
                if (!r) {
                        *entryp = spool->entries[index];
                        return 0;
                }
                if (r == SPOOL_FILE_E_SCHEMA)
                        drop_schema(spool, index);
                else
                        set_aside(spool, index);
        }
        return SPOOL_E_EMPTY;
}

size_t spool_n(const Spool *spool) {
        return spool->n - spool->first;
}

uint64_t spool_bytes(const Spool *spool) {
        return spool->bytes;
}

uint64_t spool_events(const Spool *spool) {
        return spool->n_events;
}

const SpoolEntry *spool_entry(const Spool *spool, size_t index) {
        return &spool->entries[spool->first + index];
}

SpoolCounts spool_take_counts(Spool *spool) {
        SpoolCounts counts = spool->counts;

        spool->counts = (SpoolCounts){ 0 };
        return counts;
}

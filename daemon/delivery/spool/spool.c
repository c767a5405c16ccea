/* SPDX-License-Identifier: Apache-2.0 */
#include "delivery/spool/spool.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/util/error.h"
#include "base/util/file.h"
#include "delivery/spool/spool-private.h"

enum { MAX_FILE_BYTES = SPOOL_MAX_REQUEST + (1 << 20) };        /* noise does not compress */

void spool_entry_name(const SpoolEntry *entry, char *name, size_t size) {
        snprintf(name, size, "%019" PRIu64 "-%06" PRIu32 "-%" PRIu64 SPOOL_SUFFIX, entry->time_ns,
                 entry->sequence, entry->n_events);
}

int spool_by_age(const void *a, const void *b) {
        const SpoolEntry *x = a, *y = b;

        if (x->time_ns != y->time_ns)
                return x->time_ns < y->time_ns ? -1 : 1;
        return x->sequence < y->sequence ? -1 : x->sequence > y->sequence;
}

int spool_append(Spool *spool, const SpoolEntry *entry) {
        if (spool->first && spool->n == spool->room) {
                memmove(spool->entries, spool->entries + spool->first,
                        (spool->n - spool->first) * sizeof(*entry));
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
        spool->n_held += entry->held;
        spool->held_events += entry->held ? entry->n_events : 0;
        return 0;
}

/* From now on anybody's. */
static void unhold(Spool *spool, SpoolEntry *entry) {
        if (!entry->held)
                return;
        entry->held = false;
        spool->n_held--;
        spool->held_events -= entry->n_events;
}

static void forget(Spool *spool, size_t index) {
        unhold(spool, &spool->entries[index]);
        spool->bytes -= spool->entries[index].size;
        spool->n_events -= spool->entries[index].n_events;
        if (index == spool->first) {
                spool->first++;
                return;
        }
        memmove(spool->entries + index, spool->entries + index + 1,
                (spool->n - index - 1) * sizeof(*spool->entries));
        spool->n--;
}

static void remove_index(Spool *spool, size_t index) {
        char name[SPOOL_NAME_ROOM];

        spool_entry_name(&spool->entries[index], name, sizeof(name));
        unlinkat(spool->fd, name, 0);
        forget(spool, index);
}

/* Return: its index, spool->n = it is gone. What was held is among the newest. */
static size_t find(const Spool *spool, const SpoolEntry *entry) {
        if (entry->held)
                for (size_t i = spool->n; i > spool->first; i--)
                        if (!spool_by_age(&spool->entries[i - 1], entry))
                                return i - 1;
        for (size_t i = spool->first; i < spool->n; i++)
                if (!spool_by_age(&spool->entries[i], entry))
                        return i;
        return spool->n;
}

void spool_remove(Spool *spool, const SpoolEntry *entry) {
        size_t index = find(spool, entry);

        if (index < spool->n)
                remove_index(spool, index);
}

/* The first that is not held, from @index on; spool->n = none. */
static size_t skip_held(const Spool *spool, size_t index) {
        while (index < spool->n && spool->entries[index].held)
                index++;
        return index;
}

static void drop(Spool *spool, size_t index, uint64_t *lostp) {
        *lostp += spool->entries[index].n_events;
        spool->counts.n_files_dropped++;
        remove_index(spool, index);
}

static void expire(Spool *spool, uint64_t now_ns) {
        size_t index;

        while (spool->limits.max_age_ns && (index = skip_held(spool, spool->first)) < spool->n &&
               spool->entries[index].time_ns < now_ns &&
               now_ns - spool->entries[index].time_ns > spool->limits.max_age_ns)
                drop(spool, index, &spool->counts.lost_age);
}

static bool is_full(const Spool *spool, uint64_t size) {
        return spool_n(spool) &&
                ((spool->limits.max_bytes && spool->bytes + size > spool->limits.max_bytes) ||
                 (spool->limits.max_files && spool_n(spool) >= spool->limits.max_files));
}

/* Return: 0, SPOOL_E_FAILED: what is held fills it. */
static int make_room(Spool *spool, uint64_t size) {
        size_t index;

        while (is_full(spool, size) && (index = skip_held(spool, spool->first)) < spool->n)
                drop(spool, index, &spool->counts.lost_full);
        if (!is_full(spool, size))
                return 0;
        errno = ENOSPC;
        return SPOOL_E_FAILED;
}

/*
 * Whole before it has its name; if it is to be @flushed, on the disk before it has its name, and the name
 * there before the caller forgets the batch. Without, only the loss of power can leave a name without its
 * bytes, which its checksum tells.
 */
static int write_file(Spool *spool, const char *name, const void *bytes, size_t size, bool flushed) {
        int fd, r;

        unlinkat(spool->fd, SPOOL_TEMPORARY, 0);
        fd = openat(spool->fd, SPOOL_TEMPORARY, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
        if (fd < 0)
                return SPOOL_E_FAILED;
        r = file_write(fd, bytes, size);
        if (!r && flushed && fdatasync(fd) < 0)
                r = -errno;
        close(fd);
        if (!r && renameat2(spool->fd, SPOOL_TEMPORARY, spool->fd, name, RENAME_NOREPLACE) < 0)
                r = -errno;
        if (r < 0) {
                unlinkat(spool->fd, SPOOL_TEMPORARY, 0);
                errno = -r;
                return SPOOL_E_FAILED;
        }
        if (flushed)
                fsync(spool->fd);
        return 0;
}

int spool_put(Spool *spool, const SpoolHeader *header, const void *request, size_t size, uint64_t now_ns,
              unsigned how, SpoolEntry *entryp) {
        SpoolEntry entry = { .time_ns = now_ns, .n_events = header->n_events,
                             .held = how & SPOOL_PUT_HELD, .flushed = how & SPOOL_PUT_FLUSHED };
        SpoolHeader stamped = *header;
        _cleanup_(freep) uint8_t *bytes = NULL;
        char name[SPOOL_NAME_ROOM];
        size_t n;
        int r;

        stamped.time_ns = now_ns;
        r = spool_file_pack(&stamped, request, size, &bytes, &n);
        if (r)
                return error_fold(r);
        r = spool_follow(spool);
        if (r)
                return r;
        entry.sequence = spool->sequence + 1;
        entry.size = n;
        expire(spool, now_ns);
        spool_entry_name(&entry, name, sizeof(name));
        if ((r = make_room(spool, n)) || (r = write_file(spool, name, bytes, n, entry.flushed)))
                return r;
        spool->sequence++;
        *entryp = entry;
        r = spool_append(spool, &entry);
        /* the caller keeps the request, so the next one of us must not find it here as well */
        if (r) {
                unlinkat(spool->fd, name, 0);
                return r;
        }
        /* a clock that was set back: keep the order of the names, which is the order after a restart */
        if (spool_n(spool) > 1 && spool_by_age(&spool->entries[spool->n - 2], &entry) > 0)
                qsort(spool->entries + spool->first, spool_n(spool), sizeof(entry), spool_by_age);
        return 0;
}

static void flush(const Spool *spool, const SpoolEntry *entry) {
        _cleanup_(closep) int fd = -1;
        char name[SPOOL_NAME_ROOM];

        spool_entry_name(entry, name, sizeof(name));
        fd = openat(spool->fd, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
        if (fd >= 0 && fdatasync(fd) >= 0)
                fsync(spool->fd);
}

static void flush_index(Spool *spool, size_t index) {
        if (!spool->entries[index].flushed)
                flush(spool, &spool->entries[index]);
        spool->entries[index].flushed = true;
}

void spool_flush(Spool *spool, const SpoolEntry *entry) {
        size_t index = find(spool, entry);

        if (index < spool->n)
                flush_index(spool, index);
}

void spool_release(Spool *spool, const SpoolEntry *entry) {
        size_t index = find(spool, entry);

        if (index == spool->n)
                return;
        unhold(spool, &spool->entries[index]);
        flush_index(spool, index);
}

int spool_read(const Spool *spool, const SpoolEntry *entry, SpoolHeader *headerp, uint8_t **requestp) {
        _cleanup_(closep) int fd = -1;
        _cleanup_(freep) char *bytes = NULL;
        char name[SPOOL_NAME_ROOM];
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
        char name[SPOOL_NAME_ROOM], aside[SPOOL_NAME_ROOM + sizeof(".corrupt")];

        spool->counts.lost_corrupt += spool->entries[index].n_events;
        spool_entry_name(&spool->entries[index], name, sizeof(name));
        snprintf(aside, sizeof(aside), "%s.corrupt", name);
        if (!renameat(spool->fd, name, spool->fd, aside) || errno != ENOENT)
                spool->counts.n_files_corrupt++;
        else
                spool->counts.n_files_gone++;           /* with a directory that was removed, or by hand */
        unlinkat(spool->fd, name, 0);                   /* if it could not be renamed */
        forget(spool, index);
}

void spool_reject(Spool *spool, const SpoolEntry *entry) {
        size_t index = find(spool, entry);

        if (index < spool->n)
                set_aside(spool, index);
}

static void drop_schema(Spool *spool, size_t index) {
        spool->counts.n_files_schema++;
        spool->counts.lost_schema += spool->entries[index].n_events;
        remove_index(spool, index);
}

/* The first entry behind @after that is not held. */
static size_t find_after(const Spool *spool, const SpoolEntry *after) {
        size_t index = spool->first;

        while (after && index < spool->n && spool_by_age(&spool->entries[index], after) <= 0)
                index++;
        return skip_held(spool, index);
}

int spool_next(Spool *spool, uint64_t now_ns, const SpoolEntry *after, SpoolEntry *entryp,
               SpoolHeader *headerp, uint8_t **requestp) {
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

size_t spool_n_free(const Spool *spool) {
        return spool_n(spool) - spool->n_held;
}

uint64_t spool_free_events(const Spool *spool) {
        return spool->n_events - spool->held_events;
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

/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Spool
 *
 * A directory of batches that are not delivered yet, oldest first. Each file is there whole or not at all,
 * whenever we die: it is written under another name and renamed; and whenever the power goes, if it is to be
 * flushed: then it is before it is renamed, and the directory after that. One process uses it, by lock. Over
 * its caps (bytes, files, age) the oldest go, and are counted; but never one that is held: memory has it,
 * too, and sends it from there.
 *
 *     1700000000000000000-000001-512.batch        REALTIME ns, sequence, samples: an index of names is enough
 *     NAME.batch.corrupt                           set aside: what could not be read, for a person (the last 16)
 *     lock, .writing                              who has it; what is being written
 *
 * Its calls block on the disk: spool-worker.h runs them in a thread. No counter of util/stat is
 * touched here, so that they may.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/util/macro.h"
#include "delivery/spool/spool-file.h"

typedef struct Spool Spool;

typedef struct SpoolLimits {
        uint64_t max_bytes, max_files, max_age_ns;      /* 0 = none */
} SpoolLimits;

/* Since the last spool_take_counts(). */
typedef struct SpoolCounts {
        uint64_t n_files_corrupt, n_files_schema, n_files_dropped;
        /* put into the place of ours; no longer there, samples in lost_corrupt */
        uint64_t n_directories, n_files_gone;
        uint64_t lost_full, lost_age, lost_corrupt, lost_schema;        /* samples */
} SpoolCounts;

typedef struct SpoolEntry {
        uint64_t time_ns;               /* REALTIME */
        uint64_t n_events;
        uint64_t size;                  /* of the file */
        uint32_t sequence;              /* with the time, its id */
        bool held;                      /* for who stored it: never given out, never dropped */
        bool flushed;                   /* survives the loss of power */
} SpoolEntry;

/* How to store: two flushes of a disk are what storing costs, a few ms each. */
typedef enum SpoolPut {
        /* else it survives our death, and that of the machine a little later */
        SPOOL_PUT_FLUSHED = 1 << 0,
        SPOOL_PUT_HELD = 1 << 1,
} SpoolPut;

enum {
        _SPOOL_E_SUCCESS,
        SPOOL_E_UNUSABLE,               /* spool_problem() says why */
        SPOOL_E_LOCKED,                 /* another process has it */
        SPOOL_E_EMPTY,
        SPOOL_E_FAILED,                 /* could not be written; errno says why; nothing was stored */
};

/*
 * For root, before it becomes another user: gives the spool at @path, made if it is missing, to that one, as
 * directory_give().
 * Return: 0, DIRECTORY_E_FOREIGN, -errno.
 */
int spool_give(const char *path, uint32_t uid, uint32_t gid);

/* Why the last spool_new() of this thread gave SPOOL_E_UNUSABLE. */
const char *spool_problem(void);

/*
 * Makes the last part of @path (mode 0700) if it is missing. @path may be no symbolic link, and nobody but
 * its owner may write there. @read_only: look only; takes no lock, removes nothing. Return: 0,
 * SPOOL_E_UNUSABLE, SPOOL_E_LOCKED, -ENOMEM.
 */
int spool_new(Spool **spoolp, const char *path, const SpoolLimits *limits, bool read_only);
Spool *spool_free(Spool *spool);
DEFINE_CLEANUP(Spool, spool_free)

/*
 * Stores one request at REALTIME @now_ns. @how: SPOOL_PUT_*. A directory that was removed is made again, and
 * one that was put into its place is taken: from then on what is there is what there is. Return: 0,
 * SPOOL_E_FAILED, -ENOMEM.
 */
int spool_put(Spool *spool, const SpoolHeader *header, const void *request, size_t size, uint64_t now_ns,
              unsigned how, SpoolEntry *entryp);

/* On the disk for good, if it was not flushed before. It stays held. */
void spool_flush(Spool *spool, const SpoolEntry *entry);

/* One that was held is like the others from now on, and on the disk for good. */
void spool_release(Spool *spool, const SpoolEntry *entry);

/*
 * The oldest batch that can be read (@after: of those behind it; NULL = of all); those that cannot are set
 * aside, those that are too old go. It stays in the spool until spool_remove(). *requestp is malloc()ed.
 * Return: 0, SPOOL_E_EMPTY, -ENOMEM.
 */
int spool_next(Spool *spool, uint64_t now_ns, const SpoolEntry *after, SpoolEntry *entryp,
               SpoolHeader *headerp, uint8_t **requestp);
void spool_remove(Spool *spool, const SpoolEntry *entry);

/* Sets one aside that was read, but is no request, as if it were damaged. */
void spool_reject(Spool *spool, const SpoolEntry *entry);

/* What is not held. */
size_t spool_n_free(const Spool *spool);
uint64_t spool_free_events(const Spool *spool);

/* What there is, oldest first. */
size_t spool_n(const Spool *spool);
uint64_t spool_bytes(const Spool *spool);
uint64_t spool_events(const Spool *spool);
const SpoolEntry *spool_entry(const Spool *spool, size_t index);
void spool_entry_name(const SpoolEntry *entry, char *name, size_t size);

/* Reads one without touching it. Return: 0, SPOOL_FILE_E_*, -errno. */
int spool_read(const Spool *spool, const SpoolEntry *entry, SpoolHeader *headerp, uint8_t **requestp);

SpoolCounts spool_take_counts(Spool *spool);

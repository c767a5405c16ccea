/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Spool
 *
 * A directory of requests that are not delivered yet, oldest first, each a whole file or none at all
 * (spool-file.h). One process uses it, by lock. Over its caps (bytes, files, age) the oldest go, and are
 * counted.
 *
 * Its calls block on the disk, so the exporter runs them in a thread. They touch no counter of util/stat.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/base/util/macro.h"
#include "core/otlp/spool-file.h"

/* A directory in it, a spool of its own (dead-letters.h). */
#define SPOOL_DEAD_LETTERS "dead"
#define SPOOL_RETRY_LOCK "retry"

typedef struct Spool Spool;

typedef struct SpoolLimits {
        uint64_t max_bytes, max_files, max_age_ns;      /* 0 = none */
} SpoolLimits;

/* Files that left the spool on its own account since the last spool_take_counts(). */
typedef struct SpoolCounts {
        uint64_t n_files_corrupt, n_files_schema, n_files_dropped;
        uint64_t n_directories;         /* directories that took the place of ours */
        uint64_t n_files_gone;          /* files no longer there; their samples are in lost_corrupt */
        uint64_t lost_full, lost_age, lost_corrupt, lost_schema;        /* samples */
} SpoolCounts;

typedef struct SpoolEntry {
        uint64_t time_ns;               /* REALTIME */
        uint64_t n_events;
        uint64_t size;                  /* bytes of the file */
        uint32_t sequence;              /* with the time, its id */
        bool held;                      /* memory sends it: neither given out nor dropped by a cap */
        bool lent;                      /* spool_next() gave it out */
        bool flushed;                   /* survives a power loss */
} SpoolEntry;

/* How to store. Two flushes of a disk take a few ms each. */
typedef enum SpoolPut {
        SPOOL_PUT_FLUSHED = 1 << 0,     /* survives a power loss from the start */
        SPOOL_PUT_HELD = 1 << 1,
} SpoolPut;

enum {
        _SPOOL_E_SUCCESS,
        SPOOL_E_UNUSABLE,               /* no directory that we may trust */
        SPOOL_E_LOCKED,                 /* another process has it */
        SPOOL_E_EMPTY,
        SPOOL_E_FAILED,                 /* could not be written; errno says why; nothing was stored */
};

/* Why a spool cannot be used, in words. */
typedef struct SpoolProblem {
        char text[160];
} SpoolProblem;

/*
 * For root, before it becomes another user: gives the spool at @path, made if it is missing, to that one, as
 * directory_give().
 * Return: 0, DIRECTORY_E_FOREIGN, -errno.
 */
int spool_give(const char *path, uint32_t uid, uint32_t gid);

/*
 * Makes the last part of @path (mode 0700) if it is missing. @path may not be a symbolic link, and only its
 * owner may be able to write there. @limits: NULL = none. @read_only: takes no lock, removes nothing.
 * @problem is set with SPOOL_E_UNUSABLE and SPOOL_E_LOCKED. Return: 0, one of the two, -ENOMEM.
 */
int spool_new(Spool **spoolp, const char *path, const SpoolLimits *limits, bool read_only,
              SpoolProblem *problem);
Spool *spool_free(Spool *spool);
DEFINE_CLEANUP(Spool, spool_free)

/*
 * Stores one request at REALTIME @now_ns. @how: SPOOL_PUT_*. If the directory was removed it is made again;
 * if another one took its place, the spool goes on there, with the files that are in it. Return: 0,
 * SPOOL_E_FAILED, -ENOMEM.
 */
int spool_put(Spool *spool, const SpoolHeader *header, const void *request, size_t size, uint64_t now_ns,
              unsigned how, SpoolEntry *entryp);

/* Flushes the file to the disk, if it was not flushed before. It stays held. */
void spool_flush(Spool *spool, const SpoolEntry *entry);

/*
 * Makes a held or lent entry free: it may be given out and dropped. Flushes it, if it was not yet. A lent one
 * that a cap dropped meanwhile is counted as lost now.
 */
void spool_release(Spool *spool, const SpoolEntry *entry);

/*
 * Lends the oldest request that can be read (@after: of those behind it; NULL = of all). Files that cannot
 * be read are set aside, those that are too old are dropped. What is lent stays in the spool until
 * spool_remove(), and must be given back by spool_release() otherwise. *requestp is malloc()ed. Return: 0,
 * SPOOL_E_EMPTY, -ENOMEM.
 */
int spool_next(Spool *spool, uint64_t now_ns, const SpoolEntry *after, SpoolEntry *entryp,
               SpoolHeader *headerp, uint8_t **requestp);
void spool_remove(Spool *spool, const SpoolEntry *entry);

/* Sets a file aside that could be read, but holds no request, as if it were damaged. */
void spool_reject(Spool *spool, const SpoolEntry *entry);

/* As given to spool_new(). The path is borrowed. */
const char *spool_path(const Spool *spool);
SpoolLimits spool_limits(const Spool *spool);

/* Entries that are not held. */
size_t spool_n_free(const Spool *spool);
uint64_t spool_free_events(const Spool *spool);

/* All entries, oldest first. */
size_t spool_n(const Spool *spool);
uint64_t spool_bytes(const Spool *spool);
uint64_t spool_events(const Spool *spool);
const SpoolEntry *spool_entry(const Spool *spool, size_t index);
void spool_entry_name(const SpoolEntry *entry, char *name, size_t size);

/* Reads one file without touching it. *requestp is malloc()ed. Return: 0, SPOOL_FILE_E_*, -errno. */
int spool_read(const Spool *spool, const SpoolEntry *entry, SpoolHeader *headerp, uint8_t **requestp);

SpoolCounts spool_take_counts(Spool *spool);

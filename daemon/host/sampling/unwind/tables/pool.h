/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Table Pool
 *
 * Tables that are in the kernel, or on their way: one per distinct file. A queue makes them (table-queue.h),
 * and a thread that may wait publishes them (publisher.h). A table without users stays until its room is
 * needed; the one whose last use is oldest goes first. So does the knowledge that a file has no rows, and the
 * place in the queue of a file whose users were gone before its turn: up to a number of each. Nothing of that
 * holds for areas of made code (made-areas.h): without users they are forgotten.
 *
 * When there is no room, and no table without users, the holder of most gives one to who has less: the table
 * of its that no sample was in for the longest time. What is without a table then is asked for again by the
 * next sample in it (pool_is_wanted()).
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/base/sandbox/zygotes.h"
#include "core/base/util/macro.h"
#include "host/sampling/unwind/tables/table-queue.h"

typedef enum PoolState {
        POOL_WAITING,                   /* requested: in the queue */
        POOL_PUBLISHING,                /* made, on its way into the kernel */
        POOL_READY,
        POOL_NONE,                      /* the file has no rows, or they could not be loaded */
        POOL_LEAVING,                   /* evicted, its slot is not free yet */
} PoolState;

typedef struct PoolTable PoolTable;

struct PoolTable {
        TableRequest request;           /* file and number of users; in the queue while WAITING */
        uint64_t object_id;
        PoolState state;
        uint32_t slot;                  /* id in the kernel, from PUBLISHING on */
        uint64_t text_low, text_high;   /* ELF addresses, from PUBLISHING on */
        /* the pool's count of changes when `state` last changed for its users */
        uint64_t changed;
        size_t n_bytes;                 /* in the kernel */
        /* the kernel's map of it, while PUBLISHING and READY; the publisher's */
        int map_fd;
        bool is_lost;                   /* state NONE, but the file may have rows */
        bool is_unopened;               /* … its process was gone: another one may show it (pool_retry()) */
        bool is_known_none;             /* state NONE, and the file itself says so */
        bool is_refused;                /* state NONE for want of room */
        size_t n_charged;               /* what it counts for in `request.share` */
        uint64_t sampled_ns;            /* MONOTONIC time of a sample in it; 0 = none was told */
        bool is_none_kept;              /* without users: counted as such */
        Share *waiting_share;           /* state WAITING, kept without users: who holds that; NULL = not so */
        Share *made_share;              /* state WAITING, made code: who holds its file; NULL = not so */
        size_t n_made_bytes;            /* … bytes of the file */
        PoolTable *previous, *next;     /* among idle tables, in order of the last use */
};

typedef struct Pool Pool;

typedef struct PoolConfig {
        int array_fd;                   /* the kernel's array of tables, borrowed */
        uint32_t n_slots;
        size_t max_bytes;               /* bytes of tables in the kernel */
        size_t max_idle_bytes;          /* bytes of tables without users */
        uint32_t max_idle_waiting;      /* files whose last user went before their turn came; 0 = 64 */
        Zygotes *zygotes;               /* start workers that read the files; borrowed; NULL = read here */
        RowCache *cache;                /* borrowed; NULL = none */
} PoolConfig;

enum {
        _POOL_E_SUCCESS,
        POOL_E_AGAIN,                   /* there is more to build */
};

/* Return: 0, -errno. */
int pool_new(Pool **poolp, const PoolConfig *config);
Pool *pool_free(Pool *pool);
DEFINE_CLEANUP(Pool, pool_free)

/* A walk ended for want of a table: among those that wait, it is made earlier. */
void pool_want(Pool *pool, uint64_t object_id);

/* Of the tables that were asked for since the queue was empty last: how many are made, and all. */
void pool_progress(const Pool *pool, uint32_t *n_madep, uint32_t *np);

/* Table of an object, or NULL. */
PoolTable *pool_find(Pool *pool, uint64_t object_id);

/*
 * Adds a table. @fd: the object's file, taken over, or -1 = it cannot be opened. @owner: whose share it is
 * of. Return: 0, -ENOMEM.
 */
int pool_add_file(Pool *pool, uint64_t object_id, int fd, const ShareOwner *owner, PoolTable **tablep);

/* The same of an image, which is in the share of none. */
int pool_add_image(Pool *pool, uint64_t object_id, const void *image, size_t size, PoolTable **tablep);

/* As tables_hold(). */
void pool_hold(Pool *pool, bool holds);

/* Takes the file of a table that could not be opened, or had no room. @fd: as in pool_add_file(). */
int pool_retry(Pool *pool, PoolTable *table, int fd, const ShareOwner *owner);

/*
 * Notes a sample in the table, at @now_ns. Return: whether it has no room, and would get it now by
 * pool_retry().
 */
bool pool_is_wanted(Pool *pool, PoolTable *table, const ShareOwner *owner, uint64_t now_ns);

/* Frees slots of tables that gave way, once no node in the kernel names them any more. */
void pool_free_slots(Pool *pool);

/* Give a table back only when no node in the kernel names it any more. */
void pool_use(Pool *pool, PoolTable *table);
void pool_unuse(Pool *pool, PoolTable *table);

/*
 * Takes results, and goes on with tables for about @budget bytes of files (see table.h).
 * Return: 0 = nothing to do until pool_fd() is readable, POOL_E_AGAIN, -ENOMEM.
 */
int pool_step(Pool *pool, uint64_t budget);

/* Whether files wait for their tables, or are in work. */
bool pool_has_requests(const Pool *pool);

/* Readable when pool_step() has results of the thread or of a worker to take. */
int pool_fd(const Pool *pool);

/* Counts tables that became READY or NONE. */
uint64_t pool_changes(const Pool *pool);

/* Bytes of tables in the kernel. */
size_t pool_bytes(const Pool *pool);

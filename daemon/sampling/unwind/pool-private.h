/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The files of pool.h among themselves:
 *
 *     pool.c              who is known, who is used, who has to leave; into the kernel and out of it
 *     pool-build.c        makes the tables that wait: by workers, or here
 */

#include "base/util/hashmap.h"
#include "base/util/stat.h"
#include "sampling/unwind/pool.h"
#include "sampling/unwind/publisher.h"
#include "sampling/unwind/table-jobs.h"
#include "sampling/unwind/table.h"

typedef struct PoolList {
        PoolTable *first, *last;
} PoolList;

struct Pool {
        PoolConfig config;
        Publisher *publisher;
        Hashmap tables;                 /* object id → PoolTable */
        PoolTable **slots;              /* slot → PoolTable, NULL = free */
        uint32_t *free_slots;
        uint32_t n_free_slots;
        PoolList waiting;               /* by arrival */
        PoolList idle;                  /* READY without users, by last use */
        size_t n_bytes, n_idle_bytes;
        uint64_t n_changes;
        PoolTable *building;            /* one of `waiting`, while `builder` is at it */
        TableBuilder *builder;          /* here; NULL = none */
        TableJobs *jobs;                 /* NULL = all is built here */
        int epoll_fd;                   /* of publisher and jobs; -1 without the latter */
};

/* Publisher and jobs have a descriptor each; whoever waits, waits for one. Return: 0, -errno. */
int pool_make_makers(Pool *pool);

/* One step of the table in work here, and of one in work there. Return: 0, POOL_E_AGAIN, -ENOMEM. */
int pool_build(Pool *pool, uint64_t budget);

/*
 * It is built, on its way into the kernel; or it never will be, and @why counts it. Both may be the end of
 * @table.
 */
void pool_publish(Pool *pool, PoolTable *table, const Table *built);
void pool_give_up(Pool *pool, PoolTable *table, enum counter why);

/* A waiting one that nobody wants any more. */
void pool_drop_waiting(Pool *pool, PoolTable *table);
void pool_close_file(PoolTable *table);

/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Table Queue
 *
 * Files that wait for their table of unwind rows. Control groups take turns, and users in them; of one user's
 * files the one that most walks wait for is next, then the one that most processes use. Workers make the
 * tables, several at the same time; without workers, and for an image in memory, they are made here, one
 * after the other and in steps. The queue makes tables and hands them out; it knows nothing of the kernel.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/base/data/shares.h"
#include "core/base/sandbox/zygotes.h"
#include "host/sampling/unwind/tables/row-cache.h"
#include "host/sampling/unwind/tables/table-job.h"
#include "host/sampling/unwind/tables/table.h"

typedef struct TableRequest TableRequest;

struct TableRequest {
        int fd;                         /* file, owned until the request ends; -1 = none */
        const void *image;              /* image in memory, borrowed; NULL = the file counts */
        size_t image_size;
        uint32_t n_walks;               /* walks that ended for want of it: most first, then by users */
        uint32_t n_users;               /* the owner keeps it up to date: most users first */
        Share *share;                   /* share whose turn it is when it is made; NULL = it is always next */
        bool is_in_work, is_slow;
        bool is_new;                    /* not in the cache, or that was not asked */
        RowKey key;                     /* of the file as it was before a worker had it */
        TableRequest *previous, *next;  /* in order of arrival */
};

typedef struct TableQueue {
        Shares *shares;                 /* borrowed; NULL = there are no turns */
        TableRequest *first, *last;
        uint32_t n;                     /* length of that list */
        TableRequest *building;         /* the one that `builder` works on */
        TableBuilder *builder;          /* in this process; NULL = none */
        TableJobs *jobs;                /* NULL = no workers */
        RowCache *cache;                /* borrowed; NULL = none */
} TableQueue;

/* A request that has ended and left the queue. */
typedef struct TableResult {
        TableRequest *request;          /* NULL = none has ended in this step */
        /* 0 = `table` is filled; TABLE_E_*, TABLE_JOB_E_*, TABLE_QUEUE_E_DROPPED */
        int result;
        Table table;                    /* the caller's, for table_queue_keep() */
        RowKey key;                     /* of the file, if a worker has read it and the cache shall have it */
} TableResult;

enum {
        /* there is more to do; differs from all TABLE_E_* and TABLE_JOB_E_* */
        TABLE_QUEUE_E_AGAIN = 200,
        TABLE_QUEUE_E_DROPPED,          /* the file was late, and has no users left to try again for */
};

/*
 * @zygotes: for workers, borrowed; NULL = all tables are made here, and @cache counts for nothing. @cache:
 * the same; NULL = none. Return: 0, -errno.
 */
int table_queue_init(TableQueue *queue, Zygotes *zygotes, RowCache *cache);

/* Requests that still wait are their owners'. */
void table_queue_deinit(TableQueue *queue);

/*
 * Adds the descriptors of the workers to an epoll; those are readable when there is something to take.
 * Return: 0, -errno.
 */
int table_queue_poll(const TableQueue *queue, int epoll_fd);

void table_queue_add(TableQueue *queue, TableRequest *request);

/* Takes a request out that is not in work, and closes its file. */
void table_queue_remove(TableQueue *queue, TableRequest *request);

/*
 * Do a step of the table that is made here, and of one that a worker makes. @budget: bytes of the file,
 * about. Return: 0 = nothing to do, TABLE_QUEUE_E_AGAIN, -ENOMEM.
 */
int table_queue_step_here(TableQueue *queue, uint64_t budget, TableResult *result);
int table_queue_step_workers(TableQueue *queue, uint64_t budget, TableResult *result);

/* The same of files whose table may be in the cache. */
int table_queue_step_cache(TableQueue *queue, uint64_t budget, TableResult *result);

/* The table of a result is not needed any more. */
void table_queue_keep(TableQueue *queue, TableResult *result);

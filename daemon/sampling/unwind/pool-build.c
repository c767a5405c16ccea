/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Those with most users first: by workers, several at the same time, or here, one after the other and in
 * steps.
 */

#include <errno.h>
#include <sys/epoll.h>

#include "base/util/error.h"
#include "base/util/list.h"
#include "base/util/stat.h"
#include "sampling/unwind/pool-private.h"

static int watch(Pool *pool, int fd) {
        struct epoll_event event = { .events = EPOLLIN };

        return epoll_ctl(pool->epoll_fd, EPOLL_CTL_ADD, fd, &event) < 0 ? error_origin(-errno) : 0;
}

int pool_make_makers(Pool *pool) {
        int r = table_jobs_new(&pool->jobs, pool->config.zygotes);

        if (r)
                return error_fold(r);
        pool->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
        if (pool->epoll_fd < 0)
                return error_origin(-errno);
        r = watch(pool, publisher_fd(pool->publisher));
        for (int i = 0; i < TABLE_JOBS_N && !r; i++)
                r = watch(pool, table_jobs_fd(pool->jobs, i));
        return r;
}

static enum counter why_none(int r) {
        if (r == TABLE_E_TOO_LARGE)
                return COUNTER_UNWIND_TABLES_OVER_CAP;
        return r == TABLE_JOB_E_FAILED || r == TABLE_JOB_E_LATE ? COUNTER_UNWIND_TABLES_FAILED
                                                                : COUNTER_UNWIND_TABLES_NO_ROWS;
}

/* @r: of the builder, or of the worker. Takes @built. */
static void end_build(Pool *pool, PoolTable *table, int r, Table *built) {
        table->is_in_work = false;
        list_remove(&pool->waiting, table);
        pool_close_file(table);
        if (r)
                pool_give_up(pool, table, why_none(r));
        else
                pool_publish(pool, table, built);
        table_deinit(built);
}

/* A worker needs a file; @is_here: those that have none, or all if there are no workers. */
static PoolTable *most_used(const Pool *pool, bool is_here, bool is_slow) {
        PoolTable *best = NULL;

        for (PoolTable *table = pool->waiting.first; table; table = table->next)
                if (!table->is_in_work && (table->image || !pool->jobs) == is_here &&
                    table->is_slow == is_slow && (!best || table->n_users > best->n_users))
                        best = table;
        return best;
}

/* ---- here ---- */

static int begin_build(Pool *pool, PoolTable *table) {
        const TableLimits limits = TABLE_LIMITS_DEFAULT;

        table->is_in_work = true;
        pool->building = table;
        if (table->image)
                return table_builder_new_memory(&pool->builder, table->image, table->image_size, &limits);
        return table_builder_new(&pool->builder, table->fd, &limits);
}

/* One step of the table in work, or the beginning of the next one. Return: 0, POOL_E_AGAIN, -ENOMEM. */
static int build_here(Pool *pool, uint64_t budget) {
        PoolTable *table = pool->building ?: most_used(pool, true, false);
        Table built = { 0 };
        int r = 0;

        if (!table)
                return 0;
        if (!pool->building)
                r = begin_build(pool, table);
        if (!r)
                r = table_builder_step(pool->builder, budget, &built);
        if (r < 0)
                return error_fold(r);
        if (r == TABLE_E_AGAIN)
                return POOL_E_AGAIN;
        pool->builder = table_builder_free(pool->builder);
        pool->building = NULL;
        end_build(pool, table, r, &built);
        return POOL_E_AGAIN;
}

/* ---- by workers ---- */

static void ask_workers(Pool *pool, bool is_slow) {
        const TableLimits limits = TABLE_LIMITS_DEFAULT;
        PoolTable *table;

        while ((table = most_used(pool, false, is_slow)) &&
               table_jobs_begin(pool->jobs, table, table->fd, &limits, is_slow))
                table->is_in_work = true;
}

/* To be tried again, apart from the others. */
static void put_back(Pool *pool, PoolTable *table) {
        table->is_in_work = false;
        table->is_slow = true;
        if (table->n_users == 0)
                pool_drop_waiting(pool, table);
}

static int build_there(Pool *pool, uint64_t budget) {
        Table built = { 0 };
        void *table;
        int r;

        ask_workers(pool, true);
        ask_workers(pool, false);
        r = table_jobs_step(pool->jobs, budget, &table, &built);
        if (r < 0)
                return error_fold(r);
        if (r == TABLE_JOB_E_WAIT)
                return 0;
        if (r == TABLE_JOB_E_LATE && !((PoolTable *)table)->is_slow)
                put_back(pool, table);
        else if (r != TABLE_E_AGAIN)
                end_build(pool, table, r, &built);
        return POOL_E_AGAIN;
}

int pool_build(Pool *pool, uint64_t budget) {
        int here = build_here(pool, budget), there = 0;

        if (here >= 0 && pool->jobs)
                there = build_there(pool, budget);
        return there < 0 ? there : here ?: there;
}

/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Gives the file with most users to a worker that is free, and takes results; without workers it builds one
 * table in steps.
 */

#include "host/sampling/unwind/tables/table-queue.h"

#include <errno.h>
#include <string.h>
#include <sys/epoll.h>
#include <unistd.h>

#include "core/base/data/list.h"
#include "core/base/util/clock.h"
#include "core/base/util/error.h"

/*
 * Bytes of a file. All else waits for one gap at a time, mostly of 512 KiB at most; a byte takes some 20 ns,
 * 16 times that if it is crafted. Debian's OpenBLAS has 11.2 MiB of kernels.
 */
enum { MAX_SCAN_HERE = 16 << 20 };

int table_queue_init(TableQueue *queue, Zygotes *zygotes, RowCache *cache) {
        int r;

        *queue = (TableQueue){ 0 };
        if (!zygotes)
                return 0;
        queue->cache = cache;
        r = table_jobs_new(&queue->jobs, zygotes);
        return r ? error_fold(r) : 0;
}

void table_queue_deinit(TableQueue *queue) {
        table_builder_free(queue->builder);
        table_jobs_free(queue->jobs);
        if (queue->cache)
                row_cache_forget(queue->cache);
        *queue = (TableQueue){ 0 };
}

int table_queue_poll(const TableQueue *queue, int epoll_fd) {
        struct epoll_event event = { .events = EPOLLIN };

        if (queue->cache && epoll_ctl(epoll_fd, EPOLL_CTL_ADD, row_cache_fd(queue->cache), &event) < 0)
                return error_origin(-errno);
        for (int i = 0; queue->jobs && i < TABLE_JOBS_N; i++)
                if (epoll_ctl(epoll_fd, EPOLL_CTL_ADD, table_jobs_fd(queue->jobs, i), &event) < 0)
                        return error_origin(-errno);
        return 0;
}

static RowKey key_of(const TableRequest *request) {
        return row_key_read(request->fd, clock_read_ns(CLOCK_REALTIME));
}

/* A file that the cache cannot have does not wait for it: its disk may be slow, and reads few at a time. */
void table_queue_add(TableQueue *queue, TableRequest *request) {
        request->is_new = false;
        if (queue->cache && !request->image) {
                request->key = key_of(request);
                request->is_new = !row_cache_may_have(queue->cache, &request->key);
        }
        list_append(queue, request);
        queue->n++;
}

void table_queue_remove(TableQueue *queue, TableRequest *request) {
        list_remove(queue, request);
        queue->n--;
        closep(&request->fd);
        request->fd = -1;
}

/* The file as a worker has read it is the one that was asked for. */
static bool is_same(const TableRequest *request) {
        const RowKey now = key_of(request);

        return row_key_is_kept(&request->key) && !memcmp(&now, &request->key, sizeof(now));
}

/* @r: code of the builder or of the worker. */
static void end(TableQueue *queue, TableRequest *request, int r, TableResult *result) {
        if (request->is_new && is_same(request))
                result->key = request->key;
        request->is_in_work = false;
        table_queue_remove(queue, request);
        result->request = request;
        result->result = r;
}

/* Whether @a is made before @b, which came earlier. */
static bool goes_before(const TableRequest *a, const TableRequest *b) {
        int turns = a->share && b->share ? share_compare_turns(a->share, b->share) : !!a->share - !!b->share;

        if (turns)
                return turns < 0;
        if (a->n_walks != b->n_walks)
                return a->n_walks > b->n_walks;
        if (a->n_users != b->n_users)
                return a->n_users > b->n_users;
        return a->share && b->share && share_compare_process_turns(a->share, b->share) < 0;
}

typedef enum Maker {
        MAKER_HERE,                     /* requests without a file, or all if there are no workers */
        MAKER_CACHE,
        MAKER_WORKER,
} Maker;

static Maker maker_of(const TableQueue *queue, const TableRequest *request) {
        if (request->image || !queue->jobs)
                return MAKER_HERE;
        return queue->cache && !request->is_new ? MAKER_CACHE : MAKER_WORKER;
}

static TableRequest *find_next(const TableQueue *queue, Maker maker, bool is_slow) {
        TableRequest *best = NULL;

        for (TableRequest *request = queue->first; request; request = request->next)
                if (!request->is_in_work && maker_of(queue, request) == maker &&
                    request->is_slow == is_slow && (!best || goes_before(request, best)))
                        best = request;
        return best;
}

/* @request is made now. */
static void take_turn(const TableQueue *queue, TableRequest *request) {
        request->is_in_work = true;
        if (request->share)
                share_take_turn(queue->shares, request->share);
}

/* ---- in this process ---- */

static int begin(TableQueue *queue, TableRequest *request) {
        TableLimits limits = TABLE_LIMITS_DEFAULT;

        limits.max_scan = MAX_SCAN_HERE;
        take_turn(queue, request);
        queue->building = request;
        if (request->image)
                return table_builder_new_memory(&queue->builder, request->image, request->image_size,
                                                &limits);
        return table_builder_new(&queue->builder, request->fd, &limits);
}

int table_queue_step_here(TableQueue *queue, uint64_t budget, TableResult *result) {
        TableRequest *request = queue->building ?: find_next(queue, MAKER_HERE, false);
        int r = 0;

        if (!request)
                return 0;
        if (!queue->building)
                r = begin(queue, request);
        if (!r)
                r = table_builder_step(queue->builder, budget, &result->table);
        if (r < 0)
                return error_fold(r);
        if (r == TABLE_E_AGAIN)
                return TABLE_QUEUE_E_AGAIN;
        queue->builder = table_builder_free(queue->builder);
        queue->building = NULL;
        end(queue, request, r, result);
        return TABLE_QUEUE_E_AGAIN;
}

/* ---- from before ---- */

static void ask_cache(TableQueue *queue) {
        const TableLimits limits = TABLE_LIMITS_DEFAULT;
        TableRequest *request;

        while (row_cache_has_room(queue->cache) && (request = find_next(queue, MAKER_CACHE, false))) {
                request->key = key_of(request);
                request->is_in_work = row_cache_ask(queue->cache, request, &request->key, &limits);
                request->is_new = !request->is_in_work;
        }
}

int table_queue_step_cache(TableQueue *queue, uint64_t budget, TableResult *result) {
        RowCacheResult known;

        if (!queue->cache)
                return 0;
        ask_cache(queue);
        if (!row_cache_take(queue->cache, &known))
                return 0;
        if (known.is_there) {
                result->table = known.table;
                end(queue, known.what, known.result, result);
        } else {
                ((TableRequest *)known.what)->is_in_work = false;
                ((TableRequest *)known.what)->is_new = true;
        }
        return TABLE_QUEUE_E_AGAIN;
}

void table_queue_keep(TableQueue *queue, TableResult *result) {
        const TableLimits limits = TABLE_LIMITS_DEFAULT;

        if (queue->cache)
                row_cache_keep(queue->cache, &result->key, &limits, result->result, &result->table);
        else
                table_deinit(&result->table);
}

/* ---- by workers ---- */

static void ask_workers(TableQueue *queue, bool is_slow) {
        const TableLimits limits = TABLE_LIMITS_DEFAULT;
        TableRequest *request;

        while (table_jobs_is_free(queue->jobs, is_slow) &&
               (request = find_next(queue, MAKER_WORKER, is_slow)) &&
               table_jobs_begin(queue->jobs, request, request->fd, &limits, is_slow))
                take_turn(queue, request);
}

/* A late file is tried again, apart from the others, if it still has users. */
static void retry(TableQueue *queue, TableRequest *request, TableResult *result) {
        request->is_in_work = false;
        request->is_slow = true;
        if (request->n_users == 0)
                end(queue, request, TABLE_QUEUE_E_DROPPED, result);
}

int table_queue_step_workers(TableQueue *queue, uint64_t budget, TableResult *result) {
        void *what;
        int r;

        if (!queue->jobs)
                return 0;
        ask_workers(queue, true);
        ask_workers(queue, false);
        r = table_jobs_step(queue->jobs, budget, &what, &result->table);
        if (r < 0)
                return error_fold(r);
        if (r == TABLE_JOB_E_WAIT)
                return 0;
        if (r == TABLE_JOB_E_LATE && !((TableRequest *)what)->is_slow)
                retry(queue, what, result);
        else if (r != TABLE_E_AGAIN)
                end(queue, what, r, result);
        return TABLE_QUEUE_E_AGAIN;
}

/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Finds a table by the object's id, counts its users, and keeps those without users in a list by their last
 * use; the oldest gives its slot to a new one.
 */

#include "host/sampling/unwind/tables/pool.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <unistd.h>

#include "core/base/data/hashmap.h"
#include "core/base/data/list.h"
#include "core/base/util/error.h"
#include "core/base/util/log.h"
#include "core/base/util/stat.h"
#include "host/sampling/unwind/tables/bpfmap.h"
#include "host/sampling/unwind/tables/publisher.h"

enum {
        MAX_IDLE_NONE = 256,            /* files known to have no rows, without users */
        MAX_IDLE_WAITING = 64,          /* files whose last user went before their turn came */
};

typedef struct IdleTables {
        PoolTable *first, *last;        /* without users, by last use */
} IdleTables;

struct Pool {
        PoolConfig config;
        Publisher *publisher;
        Hashmap tables;                 /* object id → PoolTable */
        PoolTable **slots;              /* slot → PoolTable, NULL = free */
        uint32_t *free_slots;
        uint32_t n_free_slots;
        TableQueue queue;               /* requests of tables that are WAITING */
        IdleTables idle;                /* READY */
        IdleTables none;                /* tables that are NONE: their files say so */
        size_t n_bytes, n_idle_bytes;
        uint32_t n_none, n_waiting;     /* without users */
        uint64_t n_changes;
        int epoll_fd;                   /* readable when the publisher or a worker has a result */
};

static void free_table(Pool *pool, PoolTable *table) {
        hashmap_remove(&pool->tables, table->object_id);
        closep(&table->request.fd);
        free(table);
}

Pool *pool_free(Pool *pool) {
        HashmapEntry *entry;
        uint32_t at = 0;

        if (!pool)
                return NULL;
        publisher_free(pool->publisher);
        table_queue_deinit(&pool->queue);
        closep(&pool->epoll_fd);
        /* Tables that leave are known by their slot alone, all others by the map. */
        for (uint32_t i = 0; pool->slots && i < pool->config.n_slots; i++)
                if (pool->slots[i] && pool->slots[i]->state == POOL_LEAVING)
                        free(pool->slots[i]);
        while ((entry = hashmap_next(&pool->tables, &at))) {
                PoolTable *table = entry->value;

                closep(&table->request.fd);
                free(table);
        }
        hashmap_deinit(&pool->tables);
        free(pool->slots);
        free(pool->free_slots);
        free(pool);
        return NULL;
}

/* Publisher and workers share a descriptor, since the caller waits for one. Return: 0, -errno. */
static int open_epoll(Pool *pool) {
        struct epoll_event event = { .events = EPOLLIN };

        pool->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
        if (pool->epoll_fd < 0 ||
            epoll_ctl(pool->epoll_fd, EPOLL_CTL_ADD, publisher_fd(pool->publisher), &event) < 0)
                return error_origin(-errno);
        return table_queue_poll(&pool->queue, pool->epoll_fd);
}

int pool_new(Pool **poolp, const PoolConfig *config) {
        _cleanup_(pool_freep) Pool *pool = calloc(1, sizeof(*pool));
        int r;

        if (!pool)
                return error_origin(-ENOMEM);
        pool->config = *config;
        pool->epoll_fd = -1;
        pool->slots = calloc(config->n_slots, sizeof(*pool->slots));
        pool->free_slots = calloc(config->n_slots, sizeof(*pool->free_slots));
        if (!pool->slots || !pool->free_slots)
                return error_origin(-ENOMEM);
        for (uint32_t i = 0; i < config->n_slots; i++)
                pool->free_slots[i] = config->n_slots - 1 - i;
        pool->n_free_slots = config->n_slots;
        r = publisher_new(&pool->publisher, config->array_fd, config->n_slots);
        if (!r)
                r = table_queue_init(&pool->queue, config->zygotes);
        if (!r)
                r = open_epoll(pool);
        if (r)
                return error_fold(r);
        *poolp = take(pool);
        return 0;
}

PoolTable *pool_find(Pool *pool, uint64_t object_id) {
        return hashmap_get(&pool->tables, object_id);
}

static void set_state(Pool *pool, PoolTable *table, PoolState state) {
        table->state = state;
        table->changed = ++pool->n_changes;
}

static int add(Pool *pool, uint64_t object_id, PoolTable **tablep) {
        PoolTable *table = calloc(1, sizeof(*table));
        int r;

        if (!table)
                return error_origin(-ENOMEM);
        table->object_id = object_id;
        table->request.fd = -1;
        r = hashmap_put(&pool->tables, object_id, table);
        if (r) {
                free(table);
                return error_fold(r);
        }
        *tablep = table;
        return 0;
}

int pool_add_file(Pool *pool, uint64_t object_id, int fd, PoolTable **tablep) {
        int r = add(pool, object_id, tablep);

        if (r) {
                if (fd >= 0)
                        close(fd);
                return error_fold(r);
        }
        (*tablep)->request.fd = fd;
        if (fd >= 0) {
                table_queue_add(&pool->queue, &(*tablep)->request);
        } else {
                (*tablep)->is_lost = (*tablep)->is_unopened = true;
                set_state(pool, *tablep, POOL_NONE);
                stat_add(COUNTER_UNWIND_TABLES_FAILED, 1);
        }
        return 0;
}

void pool_retry(Pool *pool, PoolTable *table, int fd) {
        if (fd < 0)
                return;
        table->request.fd = fd;
        table->is_lost = table->is_unopened = false;
        table_queue_add(&pool->queue, &table->request);
        set_state(pool, table, POOL_WAITING);
}

int pool_add_image(Pool *pool, uint64_t object_id, const void *image, size_t size, PoolTable **tablep) {
        int r = add(pool, object_id, tablep);

        if (r)
                return error_fold(r);
        (*tablep)->request.image = image;
        (*tablep)->request.image_size = size;
        table_queue_add(&pool->queue, &(*tablep)->request);
        return 0;
}

/* Removes a table from the kernel; its slot stays taken until the thread has done so. */
static void evict(Pool *pool, PoolTable *table) {
        list_remove(&pool->idle, table);
        pool->n_idle_bytes -= table->n_bytes;
        pool->n_bytes -= table->n_bytes;
        hashmap_remove(&pool->tables, table->object_id);
        table->state = POOL_LEAVING;
        publisher_remove(pool->publisher, table->slot);
        stat_add(COUNTER_UNWIND_TABLES_EVICTED, 1);
}

static void trim_idle(Pool *pool, size_t max_bytes) {
        while (pool->idle.first && pool->n_idle_bytes > max_bytes)
                evict(pool, pool->idle.first);
}

static void forget_none(Pool *pool, PoolTable *table) {
        list_remove(&pool->none, table);
        pool->n_none--;
}

void pool_use(Pool *pool, PoolTable *table) {
        if (table->request.n_users++ > 0)
                return;
        if (table->state == POOL_READY) {
                list_remove(&pool->idle, table);
                pool->n_idle_bytes -= table->n_bytes;
        } else if (table->is_none_kept) {
                forget_none(pool, table);
                table->is_none_kept = false;
        } else {
                if (table->is_waiting_kept)
                        pool->n_waiting--;
                table->is_waiting_kept = false;
                return;
        }
        stat_add(COUNTER_UNWIND_TABLES_KNOWN, 1);
}

static void become_idle(Pool *pool, PoolTable *table) {
        list_append(&pool->idle, table);
        pool->n_idle_bytes += table->n_bytes;
        trim_idle(pool, pool->config.max_idle_bytes);
}

/* A file without rows is not read again for the next process. One that could not be read may be. */
static void keep_none(Pool *pool, PoolTable *table) {
        if (!table->is_known_none) {
                free_table(pool, table);
                return;
        }
        if (pool->n_none >= MAX_IDLE_NONE) {
                PoolTable *oldest = pool->none.first;

                forget_none(pool, oldest);
                free_table(pool, oldest);
                stat_add(COUNTER_UNWIND_TABLES_EVICTED, 1);
        }
        table->is_none_kept = true;
        list_append(&pool->none, table);
        pool->n_none++;
}

/* The next process of the same program finds it made: short ones would end before its turn for ever. */
static void keep_waiting(Pool *pool, PoolTable *table) {
        if (table->request.is_in_work)
                return;
        if (pool->n_waiting < MAX_IDLE_WAITING) {
                table->is_waiting_kept = true;
                pool->n_waiting++;
                return;
        }
        table_queue_remove(&pool->queue, &table->request);
        free_table(pool, table);
}

void pool_unuse(Pool *pool, PoolTable *table) {
        if (--table->request.n_users > 0)
                return;
        if (table->state == POOL_READY)
                become_idle(pool, table);
        else if (table->state == POOL_NONE)
                keep_none(pool, table);
        else if (table->state == POOL_WAITING)
                keep_waiting(pool, table);
}

/* The table never comes to be; @why counts it. This may be the end of @table. */
static void give_up(Pool *pool, PoolTable *table, enum counter why) {
        stat_add(why, 1);
        table->is_lost = why != COUNTER_UNWIND_TABLES_NO_ROWS;
        set_state(pool, table, POOL_NONE);
        table->is_known_none = why == COUNTER_UNWIND_TABLES_NO_ROWS;
        if (table->request.n_users == 0)
                keep_none(pool, table);
}

/* Makes room for @n_bytes and a slot, at the cost of tables without users. */
static bool make_room(Pool *pool, size_t n_bytes) {
        while (pool->idle.first &&
               (pool->n_free_slots == 0 || pool->n_bytes + n_bytes > pool->config.max_bytes))
                evict(pool, pool->idle.first);
        return pool->n_free_slots > 0 && pool->n_bytes + n_bytes <= pool->config.max_bytes;
}

static uint64_t sum_problems(const CfiCounts *counts) {
        uint64_t sum = 0;

        for (int i = 0; i < CFI_PROBLEM_N; i++)
                sum += counts->problems[i];
        return sum;
}

/* Sends a table on its way into the kernel. This may be the end of @table. */
static void publish(Pool *pool, PoolTable *table, const Table *built) {
        int fd;

        stat_add(COUNTER_UNWIND_ENTRIES_BAD, sum_problems(&built->counts));
        stat_add(COUNTER_UNWIND_CODE_DERIVED, built->counts.n_derived);
        stat_add(COUNTER_UNWIND_CODE_PASSED, built->counts.n_passed);
        stat_add(COUNTER_UNWIND_FUNCTIONS_REFUSED, built->counts.n_refused);
        if (!make_room(pool, built->size)) {
                give_up(pool, table, COUNTER_UNWIND_TABLES_OVER_CAP);
                return;
        }
        fd = bpfmap_create_table(built->data, built->size);
        if (fd < 0) {
                give_up(pool, table, COUNTER_UNWIND_TABLES_FAILED);
                return;
        }
        table->slot = pool->free_slots[--pool->n_free_slots];
        table->text_low = built->text_low;
        table->text_high = built->text_high;
        table->n_bytes = built->size;
        table->map_fd = fd;
        table->state = POOL_PUBLISHING;
        pool->slots[table->slot] = table;
        pool->n_bytes += built->size;
        publisher_set(pool->publisher, table->slot, fd);
}

static void free_slot(Pool *pool, uint32_t slot) {
        pool->slots[slot] = NULL;
        pool->free_slots[pool->n_free_slots++] = slot;
}

static void finish_publishing(Pool *pool, PoolTable *table, int error) {
        if (error) {
                /* The thread still has the table's descriptor, so the slot is given back by way of it. */
                log_debug("cannot publish a table of unwind rows: error %d", error);
                pool->n_bytes -= table->n_bytes;
                pool->slots[table->slot] = NULL;
                publisher_remove(pool->publisher, table->slot);
                give_up(pool, table, COUNTER_UNWIND_TABLES_FAILED);
                return;
        }
        set_state(pool, table, POOL_READY);
        stat_add(COUNTER_UNWIND_TABLES_LOADED, 1);
        if (table->request.n_users == 0)
                become_idle(pool, table);
}

static void take_results(Pool *pool) {
        PublisherResult result;

        while (publisher_take(pool->publisher, &result)) {
                if (result.is_removal) {
                        free(pool->slots[result.slot]);
                        free_slot(pool, result.slot);
                } else {
                        finish_publishing(pool, pool->slots[result.slot], result.error);
                }
        }
}

static enum counter why_none(int r) {
        if (r == TABLE_E_TOO_LARGE)
                return COUNTER_UNWIND_TABLES_OVER_CAP;
        return r == TABLE_JOB_E_FAILED || r == TABLE_JOB_E_LATE ? COUNTER_UNWIND_TABLES_FAILED
                                                                : COUNTER_UNWIND_TABLES_NO_ROWS;
}

static PoolTable *owner_of(TableRequest *request) {
        return (PoolTable *)((char *)request - offsetof(PoolTable, request));
}

static void take_table(Pool *pool, TableResult *result) {
        PoolTable *table = owner_of(result->request);

        if (table->is_waiting_kept)
                pool->n_waiting--;
        table->is_waiting_kept = false;
        if (result->result == TABLE_QUEUE_E_DROPPED)
                free_table(pool, table);
        else if (result->result)
                give_up(pool, table, why_none(result->result));
        else
                publish(pool, table, &result->table);
        table_deinit(&result->table);
}

typedef int (*QueueStep)(TableQueue *queue, uint64_t budget, TableResult *result);

static int step_queue(Pool *pool, uint64_t budget, QueueStep step) {
        TableResult result = { 0 };
        int r = step(&pool->queue, budget, &result);

        if (r < 0)
                return error_fold(r);
        if (result.request)
                take_table(pool, &result);
        return r ? POOL_E_AGAIN : 0;
}

int pool_step(Pool *pool, uint64_t budget) {
        int here, workers;

        take_results(pool);
        here = step_queue(pool, budget, table_queue_step_here);
        workers = here < 0 ? here : step_queue(pool, budget, table_queue_step_workers);
        return workers < 0 ? workers : here ?: workers;
}

bool pool_has_requests(const Pool *pool) {
        return pool->queue.first;
}

int pool_fd(const Pool *pool) {
        return pool->epoll_fd;
}

uint64_t pool_changes(const Pool *pool) {
        return pool->n_changes;
}

size_t pool_bytes(const Pool *pool) {
        return pool->n_bytes;
}

/* SPDX-License-Identifier: Apache-2.0 */
#include "sampling/unwind/pool-private.h"

#include <errno.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/util/error.h"
#include "base/util/list.h"
#include "base/util/log.h"
#include "base/util/stat.h"
#include "sampling/unwind/bpfmap.h"

void pool_close_file(PoolTable *table) {
        if (table->fd >= 0)
                close(table->fd);
        table->fd = -1;
}

static void free_table(Pool *pool, PoolTable *table) {
        hashmap_remove(&pool->tables, table->object_id);
        pool_close_file(table);
        free(table);
}

Pool *pool_free(Pool *pool) {
        HashmapEntry *entry;
        uint32_t at = 0;

        if (!pool)
                return NULL;
        publisher_free(pool->publisher);
        table_builder_free(pool->builder);
        table_jobs_free(pool->jobs);
        closep(&pool->epoll_fd);
        /* Those that leave are known by their slot alone, the others by the map. */
        for (uint32_t i = 0; pool->slots && i < pool->config.n_slots; i++)
                if (pool->slots[i] && pool->slots[i]->state == POOL_LEAVING)
                        free(pool->slots[i]);
        while ((entry = hashmap_next(&pool->tables, &at))) {
                pool_close_file(entry->value);
                free(entry->value);
        }
        hashmap_deinit(&pool->tables);
        free(pool->slots);
        free(pool->free_slots);
        free(pool);
        return NULL;
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
        if (!r && config->zygotes)
                r = pool_make_makers(pool);
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
        table->fd = -1;
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
        (*tablep)->fd = fd;
        if (fd >= 0) {
                list_append(&pool->waiting, *tablep);
        } else {
                set_state(pool, *tablep, POOL_NONE);
                stat_add(COUNTER_UNWIND_TABLES_FAILED, 1);
        }
        return 0;
}

int pool_add_image(Pool *pool, uint64_t object_id, const void *image, size_t size, PoolTable **tablep) {
        int r = add(pool, object_id, tablep);

        if (r)
                return error_fold(r);
        (*tablep)->image = image;
        (*tablep)->image_size = size;
        list_append(&pool->waiting, *tablep);
        return 0;
}

/* Out of the kernel; until the thread has done it, the slot stays taken. */
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

void pool_use(Pool *pool, PoolTable *table) {
        if (table->n_users++ == 0 && table->state == POOL_READY) {
                list_remove(&pool->idle, table);
                pool->n_idle_bytes -= table->n_bytes;
        }
}

static void become_idle(Pool *pool, PoolTable *table) {
        list_append(&pool->idle, table);
        pool->n_idle_bytes += table->n_bytes;
        trim_idle(pool, pool->config.max_idle_bytes);
}

void pool_drop_waiting(Pool *pool, PoolTable *table) {
        list_remove(&pool->waiting, table);
        free_table(pool, table);
}

void pool_unuse(Pool *pool, PoolTable *table) {
        if (--table->n_users > 0)
                return;
        if (table->state == POOL_READY)
                become_idle(pool, table);
        else if (table->state == POOL_NONE)
                free_table(pool, table);
        else if (table->state == POOL_WAITING && !table->is_in_work)
                pool_drop_waiting(pool, table);
}

void pool_give_up(Pool *pool, PoolTable *table, enum counter why) {
        stat_add(why, 1);
        set_state(pool, table, POOL_NONE);
        if (table->n_users == 0)
                free_table(pool, table);
}

/* Room for @n_bytes and a slot: at the cost of tables that nobody uses. */
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

void pool_publish(Pool *pool, PoolTable *table, const Table *built) {
        int fd;

        stat_add(COUNTER_UNWIND_ENTRIES_BAD, sum_problems(&built->counts));
        if (!make_room(pool, built->size)) {
                pool_give_up(pool, table, COUNTER_UNWIND_TABLES_OVER_CAP);
                return;
        }
        fd = bpfmap_create_table(built->data, built->size);
        if (fd < 0) {
                pool_give_up(pool, table, COUNTER_UNWIND_TABLES_FAILED);
                return;
        }
        table->slot = pool->free_slots[--pool->n_free_slots];
        table->text_low = built->text_low;
        table->text_high = built->text_high;
        table->n_bytes = built->size;
        table->state = POOL_PUBLISHING;
        pool->slots[table->slot] = table;
        pool->n_bytes += built->size;
        publisher_set(pool->publisher, table->slot, fd);
}

static void free_slot(Pool *pool, uint32_t slot) {
        pool->slots[slot] = NULL;
        pool->free_slots[pool->n_free_slots++] = slot;
}

static void published(Pool *pool, PoolTable *table, int error) {
        if (error) {
                /* The slot is given back by way of the thread, which still has the table's descriptor. */
                log_debug("cannot publish a table of unwind rows: error %d", error);
                pool->n_bytes -= table->n_bytes;
                pool->slots[table->slot] = NULL;
                publisher_remove(pool->publisher, table->slot);
                pool_give_up(pool, table, COUNTER_UNWIND_TABLES_FAILED);
                return;
        }
        set_state(pool, table, POOL_READY);
        stat_add(COUNTER_UNWIND_TABLES_LOADED, 1);
        if (table->n_users == 0)
                become_idle(pool, table);
}

static void take_results(Pool *pool) {
        PublisherResult result;

        while (publisher_take(pool->publisher, &result)) {
                if (result.is_removal) {
                        free(pool->slots[result.slot]);
                        free_slot(pool, result.slot);
                } else {
                        published(pool, pool->slots[result.slot], result.error);
                }
        }
}

int pool_step(Pool *pool, uint64_t budget) {
        take_results(pool);
        return pool_build(pool, budget);
}

int pool_fd(const Pool *pool) {
        return pool->jobs ? pool->epoll_fd : publisher_fd(pool->publisher);
}

uint64_t pool_changes(const Pool *pool) {
        return pool->n_changes;
}

size_t pool_bytes(const Pool *pool) {
        return pool->n_bytes;
}

/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Finds a table by the object's id, counts its users, and keeps those without users in a list by their last
 * use; the oldest gives its slot to a new one. Where there is none, the greatest holder gives way:
 *
 *     attacker: 4,030 tables, 2 of them sampled ──▶ one of 4,028 leaves ──▶ the first table of a new program
 *
 * A slot is free only after its table has left the kernel, which takes some ms; so some are kept free.
 *
 * An area of made code has an id that nobody asks for again once its last user is gone: nothing of it is
 * kept. Its file is memory of ours, up to 16 MiB, so those that wait have a budget of bytes.
 */

#include "host/sampling/unwind/tables/pool.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/base/data/hashmap.h"
#include "core/base/data/list.h"
#include "core/base/util/clock.h"
#include "core/base/util/error.h"
#include "core/base/util/log.h"
#include "core/base/util/stat.h"
#include "host/sampling/process/made-areas.h"
#include "host/sampling/unwind/tables/bpfmap.h"
#include "host/sampling/unwind/tables/publisher.h"

enum {
        MAX_IDLE_NONE = 256,            /* files known to have no rows, without users */
        DEFAULT_MAX_IDLE_WAITING = 64,  /* files whose last user went before their turn came */
        FREE_PART = 64,                 /* of the slots, one in so many is kept free */
        MAX_OWN = 4,                    /* tables that displace others of the same holder, in a second */
        LEAST_HELD_BYTES = 1 << 20,     /* programs of a small machine have all their tables in it */
        MAX_MADE_BYTES = 32 << 20,      /* files of areas of made code that wait for their tables */
        STAT_BLOCK = 512,               /* bytes that `st_blocks` counts */
};

/* A table of the holder itself gives way only if no sample was in it for so long. */
#define OWN_AGE_NS (30 * NS_PER_SEC)
#define AGAIN_NS NS_PER_SEC             /* until a table is asked for again */

typedef struct IdleTables {
        PoolTable *first, *last;        /* without users, by last use */
} IdleTables;

struct Pool {
        PoolConfig config;
        Publisher *publisher;
        Hashmap tables;                 /* object id → PoolTable */
        PoolTable **slots;              /* slot → PoolTable, NULL = free */
        uint32_t *free_slots;
        uint32_t n_free_slots, n_loaded;        /* n_loaded: tables that are PUBLISHING or READY */
        uint32_t *leaving;              /* slots of tables that nodes may still name */
        uint32_t n_leaving;
        Shares shares;                  /* bytes, and for each slot its part of the bytes */
        uint64_t own_second, n_own;     /* tables in that second that displace others of the same holder */
        TableQueue queue;               /* requests of tables that are WAITING */
        IdleTables idle;                /* READY */
        IdleTables none;                /* tables that are NONE: their files say so */
        size_t n_bytes, n_idle_bytes;
        size_t held_bytes;              /* bytes that tables may have for now; 0 = as configured */
        uint32_t n_none;                /* without users */
        Shares waiting;                 /* files that wait without users */
        Shares made;                    /* bytes of files of made code that wait */
        uint64_t n_changes;
        uint32_t n_asked;               /* tables that were asked for since the queue was empty last */
        int epoll_fd;                   /* readable when the publisher or a worker has a result */
};

static void discharge(Pool *pool, PoolTable *table) {
        share_release(&pool->shares, table->request.share, table->n_charged);
        table->request.share = NULL;
        table->n_charged = 0;
}

/* A file that waits counts for little: what displaces others is what is loaded. Return: 0, -ENOMEM. */
static int charge(Pool *pool, PoolTable *table, const ShareOwner *owner) {
        int r = owner ? shares_hold(&pool->shares, owner, 1, &table->request.share) : 0;

        table->n_charged = owner && !r;
        return r;
}

static size_t slot_charge(const Pool *pool) {
        return pool->config.max_bytes / pool->config.n_slots;
}

static void charge_loaded(Pool *pool, PoolTable *table, size_t n_bytes) {
        size_t n = n_bytes + slot_charge(pool);

        if (!table->request.share)
                return;
        share_hold_more(table->request.share, n);
        table->n_charged += n;
}

static void unkeep_waiting(Pool *pool, PoolTable *table) {
        if (table->waiting_share)
                share_release(&pool->waiting, take(table->waiting_share), 1);
}

static bool is_made(const PoolTable *table) {
        return table->object_id >= MADE_FIRST_ID;
}

/* Counts the file of an area, as long as it waits. Return: 0, 1 = it has no room, -ENOMEM. */
static int hold_made(Pool *pool, PoolTable *table, int fd, const ShareOwner *owner) {
        struct stat status;
        size_t n;
        int r;

        if (!is_made(table))
                return 0;
        n = fstat(fd, &status) ? MAX_MADE_BYTES : MAX((size_t)status.st_blocks * STAT_BLOCK, (size_t)1);
        /* the first may have more than its part: the area of one process shall have rows */
        if (shares_held(&pool->made) ? !shares_leave_room(&pool->made, owner, n, MAX_MADE_BYTES)
                                     : n > MAX_MADE_BYTES)
                return 1;
        r = shares_hold(&pool->made, owner, n, &table->made_share);
        table->n_made_bytes = r ? 0 : n;
        return r;
}

static void release_made(Pool *pool, PoolTable *table) {
        share_release(&pool->made, take(table->made_share), table->n_made_bytes);
        table->n_made_bytes = 0;
}

static void free_table(Pool *pool, PoolTable *table) {
        unkeep_waiting(pool, table);
        release_made(pool, table);
        discharge(pool, table);
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

                discharge(pool, table);
                closep(&table->request.fd);
                free(table);
        }
        hashmap_deinit(&pool->tables);
        shares_deinit(&pool->shares);
        shares_deinit(&pool->waiting);
        shares_deinit(&pool->made);
        free(pool->slots);
        free(pool->free_slots);
        free(pool->leaving);
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
        if (!config->max_idle_waiting)
                pool->config.max_idle_waiting = DEFAULT_MAX_IDLE_WAITING;
        pool->epoll_fd = -1;
        pool->slots = calloc(config->n_slots, sizeof(*pool->slots));
        pool->free_slots = calloc(config->n_slots, sizeof(*pool->free_slots));
        pool->leaving = calloc(config->n_slots, sizeof(*pool->leaving));
        if (!pool->slots || !pool->free_slots || !pool->leaving)
                return error_origin(-ENOMEM);
        for (uint32_t i = 0; i < config->n_slots; i++)
                pool->free_slots[i] = config->n_slots - 1 - i;
        pool->n_free_slots = config->n_slots;
        r = publisher_new(&pool->publisher, config->array_fd, config->n_slots);
        if (!r)
                r = table_queue_init(&pool->queue, config->zygotes, config->cache);
        pool->queue.shares = &pool->shares;
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

static void ask(Pool *pool, PoolTable *table) {
        pool->n_asked = pool->queue.first ? pool->n_asked + 1 : 1;
        table_queue_add(&pool->queue, &table->request);
}

/* A file that had no room is asked for again by whoever brings it next. */
static void refuse_made(PoolTable *table, int fd) {
        stat_add(COUNTER_MADE_FUNCTIONS_OVER_CAP, !table->is_refused);
        close(fd);
        table->is_lost = table->is_refused = true;
        table->sampled_ns = 0;
}

int pool_add_file(Pool *pool, uint64_t object_id, int fd, const ShareOwner *owner, PoolTable **tablep) {
        PoolTable *table = NULL;
        int r = add(pool, object_id, &table);

        if (!r && fd >= 0)
                r = hold_made(pool, table, fd, owner);
        if (r > 0) {
                refuse_made(table, fd);
                set_state(pool, table, POOL_NONE);
                *tablep = table;
                return 0;
        }
        if (!r && fd >= 0)
                r = charge(pool, table, owner);
        if (r) {
                if (table)
                        free_table(pool, table);
                if (fd >= 0)
                        close(fd);
                return error_fold(r);
        }
        *tablep = table;
        (*tablep)->request.fd = fd;
        if (fd >= 0) {
                ask(pool, *tablep);
        } else {
                (*tablep)->is_lost = (*tablep)->is_unopened = true;
                set_state(pool, *tablep, POOL_NONE);
                stat_add(COUNTER_UNWIND_TABLES_FAILED, 1);
        }
        return 0;
}

int pool_retry(Pool *pool, PoolTable *table, int fd, const ShareOwner *owner) {
        int r;

        if (fd < 0)
                return 0;
        r = hold_made(pool, table, fd, owner);
        if (r > 0) {
                refuse_made(table, fd);
                return 0;
        }
        if (!r)
                r = charge(pool, table, owner);
        if (r) {
                release_made(pool, table);
                close(fd);
                return error_fold(r);
        }
        table->request.fd = fd;
        table->is_lost = table->is_unopened = table->is_refused = false;
        ask(pool, table);
        set_state(pool, table, POOL_WAITING);
        return 0;
}

int pool_add_image(Pool *pool, uint64_t object_id, const void *image, size_t size, PoolTable **tablep) {
        int r = add(pool, object_id, tablep);

        if (r)
                return error_fold(r);
        (*tablep)->request.image = image;
        (*tablep)->request.image_size = size;
        ask(pool, *tablep);
        return 0;
}

/* Removes a table from the kernel; its slot stays taken until the thread has done so. */
static void leave(Pool *pool, PoolTable *table) {
        pool->n_bytes -= table->n_bytes;
        pool->n_loaded--;
        discharge(pool, table);
        hashmap_remove(&pool->tables, table->object_id);
        table->state = POOL_LEAVING;
        publisher_remove(pool->publisher, table->slot);
}

static void evict(Pool *pool, PoolTable *table) {
        list_remove(&pool->idle, table);
        pool->n_idle_bytes -= table->n_bytes;
        leave(pool, table);
        stat_add(COUNTER_UNWIND_TABLES_EVICTED, 1);
}

static void trim_idle(Pool *pool, size_t max_bytes) {
        while (pool->idle.first && pool->n_idle_bytes > max_bytes)
                evict(pool, pool->idle.first);
}

void pool_hold(Pool *pool, bool holds) {
        if (holds && !pool->held_bytes) {
                trim_idle(pool, 0);
                pool->held_bytes = MAX(pool->n_bytes, (size_t)LEAST_HELD_BYTES);
        } else if (!holds) {
                pool->held_bytes = 0;
        }
}

/* Bytes that tables may have now. */
static size_t max_bytes(const Pool *pool) {
        return pool->held_bytes ? MIN(pool->held_bytes, pool->config.max_bytes) : pool->config.max_bytes;
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
                unkeep_waiting(pool, table);
                return;
        }
        stat_add(COUNTER_UNWIND_TABLES_KNOWN, 1);
}

static void become_idle(Pool *pool, PoolTable *table) {
        if (is_made(table)) {
                leave(pool, table);
                return;
        }
        list_append(&pool->idle, table);
        pool->n_idle_bytes += table->n_bytes;
        trim_idle(pool, pool->held_bytes ? 0 : pool->config.max_idle_bytes);
}

/* A file without rows is not read again for the next process. One that could not be read may be. */
static void keep_none(Pool *pool, PoolTable *table) {
        if (!table->is_known_none || is_made(table)) {
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

static PoolTable *owner_of(TableRequest *request) {
        return (PoolTable *)((char *)request - offsetof(PoolTable, request));
}

/* The oldest one that @share holds and nobody works on; NULL = there is none. */
static PoolTable *find_waiting(const Pool *pool, const Share *share) {
        for (TableRequest *request = pool->queue.first; request; request = request->next)
                if (owner_of(request)->waiting_share == share && !request->is_in_work)
                        return owner_of(request);
        return NULL;
}

/*
 * The next process of the same program finds it made: short ones would end before its turn for ever. The
 * greatest holder's gives way; of one user's those stay that came first.
 */
static void keep_waiting(Pool *pool, PoolTable *table) {
        const Share *holder = table->request.share;
        ShareOwner owner = holder ? *share_owner(holder) : (ShareOwner){ .group = 1 };
        PoolTable *evicted = table;

        if (table->request.is_in_work)
                return;
        owner.process = 0;              /* all of the user's are one: those that came first stay */
        if (!shares_hold(&pool->waiting, &owner, 1, &table->waiting_share)) {
                Share *victim = table->waiting_share;

                if (shares_held(&pool->waiting) <= pool->config.max_idle_waiting)
                        return;
                victim = shares_victim(&pool->waiting, victim, 0);
                if (victim != table->waiting_share)
                        evicted = find_waiting(pool, victim) ?: table;
        }
        table_queue_remove(&pool->queue, &evicted->request);
        free_table(pool, evicted);
}

void pool_unuse(Pool *pool, PoolTable *table) {
        if (--table->request.n_users > 0)
                return;
        if (table->state == POOL_READY) {
                become_idle(pool, table);
        } else if (table->state == POOL_NONE) {
                keep_none(pool, table);
        } else if (table->state == POOL_WAITING && is_made(table) && !table->request.is_in_work) {
                table_queue_remove(&pool->queue, &table->request);
                free_table(pool, table);
        } else if (table->state == POOL_WAITING) {
                keep_waiting(pool, table);
        }
}

/* The table never comes to be; @why counts it. This may be the end of @table. */
static void give_up(Pool *pool, PoolTable *table, enum counter why) {
        stat_add(why, 1);
        if (table->is_refused && table->request.share)
                shares_tell(&pool->shares, "tables of unwind rows", share_owner(table->request.share),
                            clock_monotonic_ns());
        discharge(pool, table);
        table->is_lost = why != COUNTER_UNWIND_TABLES_NO_ROWS;
        set_state(pool, table, POOL_NONE);
        table->is_known_none = why == COUNTER_UNWIND_TABLES_NO_ROWS;
        if (table->request.n_users == 0)
                keep_none(pool, table);
}

static bool is_full(const Pool *pool, size_t n_bytes) {
        return pool->n_loaded >= pool->config.n_slots - pool->config.n_slots / FREE_PART ||
               pool->n_bytes + n_bytes > max_bytes(pool);
}

/* Takes a table from its users; its slot stays taken until nodes do not name it any more. */
static void evict_used(Pool *pool, PoolTable *table) {
        pool->n_bytes -= table->n_bytes;
        pool->n_loaded--;
        pool->slots[table->slot] = NULL;
        pool->leaving[pool->n_leaving++] = table->slot;
        table->is_refused = true;
        give_up(pool, table, COUNTER_UNWIND_TABLES_EVICTED);
}

void pool_free_slots(Pool *pool) {
        while (pool->n_leaving)
                publisher_remove(pool->publisher, pool->leaving[--pool->n_leaving]);
}

/* The holder's table in which no sample was for the longest time, and none after @before_ns. NULL = none. */
static PoolTable *find_oldest(const Pool *pool, const Share *share, uint64_t before_ns) {
        PoolTable *oldest = NULL;

        for (uint32_t i = 0; i < pool->config.n_slots; i++) {
                PoolTable *table = pool->slots[i];

                if (table && table->state == POOL_READY && table->request.share == share &&
                    table->sampled_ns < before_ns && (!oldest || table->sampled_ns < oldest->sampled_ns))
                        oldest = table;
        }
        return oldest;
}

/* The table that gives way to another of @n_bytes. NULL = none. */
static PoolTable *find_victim(const Pool *pool, const PoolTable *table, size_t n_bytes) {
        Share *own = table->request.share, *victim;

        if (!own)
                return NULL;
        victim = shares_victim(&pool->shares, own, n_bytes + slot_charge(pool));
        if (victim != own)
                return find_oldest(pool, victim, UINT64_MAX);
        return table->sampled_ns > OWN_AGE_NS ? find_oldest(pool, own, table->sampled_ns - OWN_AGE_NS) : NULL;
}

/* Makes room for @n_bytes and a slot: of tables without users first, then of the greatest holder's. */
static bool make_room(Pool *pool, const PoolTable *table, size_t n_bytes) {
        while (pool->n_free_slots && is_full(pool, n_bytes)) {
                PoolTable *victim = pool->idle.first ? NULL : find_victim(pool, table, n_bytes);

                if (pool->idle.first)
                        evict(pool, pool->idle.first);
                else if (victim)
                        evict_used(pool, victim);
                else
                        return false;
        }
        return pool->n_free_slots > 0;
}

/* Whether a table of the same holder may be displaced in this second. */
static bool may_displace_own(Pool *pool, uint64_t now_ns) {
        if (pool->own_second != now_ns / NS_PER_SEC)
                pool->n_own = 0;
        pool->own_second = now_ns / NS_PER_SEC;
        return pool->n_own++ < MAX_OWN;
}

bool pool_is_wanted(Pool *pool, PoolTable *table, const ShareOwner *owner, uint64_t now_ns) {
        bool was_asked = table->sampled_ns && now_ns - table->sampled_ns < AGAIN_NS;
        PoolTable asking = { .sampled_ns = now_ns };
        bool is_refused = table->is_refused && table->state == POOL_NONE, is_wanted;

        if (is_refused && was_asked)
                return false;
        table->sampled_ns = now_ns;
        if (!is_refused)
                return false;
        if (!is_full(pool, table->n_bytes) || pool->idle.first)
                return true;
        if (charge(pool, &asking, owner))
                return false;
        is_wanted = shares_victim(&pool->shares, asking.request.share, table->n_bytes + slot_charge(pool)) !=
                            asking.request.share ||
                    (may_displace_own(pool, now_ns) && find_victim(pool, &asking, table->n_bytes));
        discharge(pool, &asking);
        return is_wanted;
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
        table->n_bytes = built->size;
        if (!make_room(pool, table, built->size)) {
                table->is_refused = true;
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
        table->map_fd = fd;
        table->state = POOL_PUBLISHING;
        pool->slots[table->slot] = table;
        pool->n_bytes += built->size;
        pool->n_loaded++;
        charge_loaded(pool, table, built->size);
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
                pool->n_loaded--;
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

static void take_table(Pool *pool, TableResult *result) {
        PoolTable *table = owner_of(result->request);

        unkeep_waiting(pool, table);
        release_made(pool, table);
        if (result->result == TABLE_QUEUE_E_DROPPED || (is_made(table) && table->request.n_users == 0))
                free_table(pool, table);
        else if (result->result)
                give_up(pool, table, why_none(result->result));
        else
                publish(pool, table, &result->table);
        table_queue_keep(&pool->queue, result);
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
        static const QueueStep steps[] = { table_queue_step_here, table_queue_step_cache,
                                           table_queue_step_workers };
        int r = 0;

        take_results(pool);
        for (size_t i = 0; i < ARRAY_SIZE(steps) && r >= 0; i++)
                r = step_queue(pool, budget, steps[i]) ?: r;
        return r;
}

void pool_want(Pool *pool, uint64_t object_id) {
        PoolTable *table = pool_find(pool, object_id);

        if (table && table->state == POOL_WAITING && table->request.n_walks < UINT32_MAX)
                table->request.n_walks++;
}

void pool_progress(const Pool *pool, uint32_t *n_madep, uint32_t *np) {
        *np = pool->queue.first ? pool->n_asked : 0;
        *n_madep = *np - MIN(*np, pool->queue.n);
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

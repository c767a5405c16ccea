/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Keeps the constants of each class in a hash table by index, as pointers into the bytes of the
 * checkpoints. Values that stand in place of references are copied, since the bytes of events do not stay.
 */

#include "core/jfr/pool.h"

#include <errno.h>

#include "core/base/data/intern.h"
#include "core/base/util/array.h"
#include "core/base/util/error.h"
#include "core/base/util/macro.h"

enum { FIRST_SLOTS = 64, MAX_AHEAD = 1 << 16, MAX_PENDING = 16 };

int jfr_pools_init(JfrPools *pools, const JfrMetadata *metadata, bool compressed) {
        *pools = (JfrPools){ .compressed = compressed, .n_pools = metadata->n_classes };
        /* odd: the recording chooses indexes, and not this */
        pools->seed = hash_bytes("pool", 4) | 1;
        pools->pools = calloc(MAX(metadata->n_classes, 1u), sizeof(*pools->pools));
        return pools->pools ? 0 : error_origin(-ENOMEM);
}

void jfr_pools_deinit(JfrPools *pools) {
        for (uint32_t i = 0; pools->pools && i < pools->n_pools; i++)
                free(pools->pools[i].slots);
        for (uint32_t i = 0; i < pools->n_buffers; i++)
                free(pools->buffers[i]);
        free(pools->pools);
        free(pools->buffers);
        arena_deinit(&pools->inlined);
        *pools = (JfrPools){ 0 };
}

static uint32_t home(const JfrPools *pools, uint64_t index) {
        return (uint32_t)(index * pools->seed >> 32);
}

static JfrConstant *probe(const JfrPools *pools, const JfrPool *pool, uint64_t index) {
        for (uint32_t at = home(pools, index);; at++) {
                JfrConstant *slot = &pool->slots[at & (pool->n_slots - 1)];

                if (!slot->data || slot->index == index)
                        return slot;
        }
}

static int grow(const JfrPools *pools, JfrPool *pool, uint32_t n_slots) {
        JfrPool bigger = { .n = pool->n, .n_slots = n_slots };

        bigger.slots = calloc(bigger.n_slots, sizeof(*bigger.slots));
        if (!bigger.slots)
                return error_origin(-ENOMEM);
        for (uint32_t i = 0; i < pool->n_slots; i++)
                if (pool->slots[i].data)
                        *probe(pools, &bigger, pool->slots[i].index) = pool->slots[i];
        free(pool->slots);
        *pool = bigger;
        return 0;
}

static int add_constant(const JfrPools *pools, JfrPool *pool, const JfrConstant *constant) {
        JfrConstant *slot;

        if ((pool->n + 1) * 2 > pool->n_slots) {
                int r = grow(pools, pool, pool->n_slots ? pool->n_slots * 2 : FIRST_SLOTS);

                if (r)
                        return r;
        }
        slot = probe(pools, pool, constant->index);
        if (slot->data)
                return 0;               /* the same value again, as flushed chunks have it */
        *slot = *constant;
        pool->n++;
        return 0;
}

/*
 * Room for as many as are announced, so that they are not moved again and again; of what a liar announces not
 * all.
 */
static int expect(const JfrPools *pools, JfrPool *pool, uint64_t n) {
        uint64_t wanted = MIN(2 * (pool->n + n), (uint64_t)MAX_AHEAD);
        uint32_t n_slots = MAX(pool->n_slots, (uint32_t)FIRST_SLOTS);

        while (n_slots < wanted)
                n_slots *= 2;
        return n_slots > pool->n_slots ? grow(pools, pool, n_slots) : 0;
}

/*
 * Reads a pool. Its places are looked for some constants behind the reading: by then memory has brought them.
 * An empty value is left out: it says nothing, and looks like a free slot.
 */
static int add_pool(JfrPools *pools, const JfrClass *class, JfrCursor *cursor) {
        uint32_t n = jfr_int(cursor), n_read = 0;
        JfrConstant ahead[MAX_PENDING];
        JfrPool *pool = &pools->pools[class->number];
        int r = class->wanted ? expect(pools, pool, MIN((size_t)n, jfr_left(cursor))) : 0;

        for (; n_read < n && !r && !cursor->failed; n_read++) {
                JfrConstant *constant = &ahead[n_read % MAX_PENDING];

                if (n_read >= MAX_PENDING && class->wanted)
                        r = add_constant(pools, pool, constant);
                *constant = (JfrConstant){ .index = jfr_long(cursor), .data = cursor->at };
                jfr_skip(cursor, class);
                constant->size = (uint32_t)(cursor->at - constant->data);
                if (class->wanted)
                        __builtin_prefetch(&pool->slots[home(pools, constant->index) & (pool->n_slots - 1)]);
        }
        n_read -= cursor->failed && n_read;
        for (uint32_t i = n_read - MIN(n_read, (uint32_t)MAX_PENDING); i < n_read && !r && class->wanted; i++)
                r = add_constant(pools, pool, &ahead[i % MAX_PENDING]);
        return r ? r : cursor->failed ? JFR_POOLS_E_MALFORMED : 0;
}

static int add_pools(JfrPools *pools, const JfrMetadata *metadata, JfrCursor *cursor, int64_t *deltap) {
        uint32_t n;

        jfr_long(cursor);               /* start time */
        jfr_long(cursor);               /* duration */
        *deltap = (int64_t)jfr_long(cursor);
        jfr_byte(cursor);               /* kind of the checkpoint */
        n = jfr_int(cursor);
        for (uint32_t i = 0; i < n && !cursor->failed; i++) {
                const JfrClass *class = jfr_class(metadata, jfr_long(cursor));
                int r = class ? add_pool(pools, class, cursor) : JFR_POOLS_E_MALFORMED;

                if (r)
                        return r;
        }
        return cursor->failed ? JFR_POOLS_E_MALFORMED : 0;
}

static int keep(JfrPools *pools, uint8_t *data) {
        int r = array_reserve(&pools->buffers, &pools->buffers_size, pools->n_buffers + 1u, 16);

        if (!r)
                pools->buffers[pools->n_buffers++] = data;
        return r;
}

int jfr_pools_add(JfrPools *pools, const JfrMetadata *metadata, uint8_t *data, size_t size, size_t at,
                  int64_t *deltap) {
        JfrCursor cursor = { data + at, data + size, pools->compressed, false };
        int r = keep(pools, data);

        *deltap = 0;
        if (r) {
                free(data);
                return r;
        }
        return add_pools(pools, metadata, &cursor, deltap);
}

static const JfrPool *pool_of(const JfrPools *pools, const JfrClass *class) {
        const JfrPool *pool = class && class->number < pools->n_pools ? &pools->pools[class->number] : NULL;

        return pool && pool->n_slots ? pool : NULL;
}

JfrConstant *jfr_constant(const JfrPools *pools, const JfrClass *class, uint64_t index) {
        const JfrPool *pool = pool_of(pools, class);
        JfrConstant *slot = pool ? probe(pools, pool, index) : NULL;

        return slot && slot->data ? slot : NULL;
}

uint32_t jfr_constant_known(const JfrPools *pools, const JfrClass *class, const JfrConstant *constant,
                            uint8_t use) {
        return pools->pools[class->number].use == use ? constant->known : 0;
}

/* Looks the constant up again: it has another place if its pool has grown since. */
void jfr_constant_know(JfrPools *pools, const JfrClass *class, uint64_t index, uint8_t use, uint32_t known) {
        JfrConstant *constant = jfr_constant(pools, class, index);
        JfrPool *pool = &pools->pools[class->number];

        if (!pool->use)
                pool->use = use;
        if (constant && pool->use == use)
                constant->known = known;
}

int jfr_pools_take(JfrPools *pools, JfrCursor *cursor, const JfrField *field, uint64_t *indexp) {
        JfrConstant constant = { .data = cursor->at };
        JfrPool *pool;
        uint8_t *copy;

        *indexp = field->pool ? jfr_long(cursor) : 0;
        if (field->pool)
                return 0;
        jfr_skip_field(cursor, field);
        if (cursor->failed)
                return 0;
        constant.size = (uint32_t)(cursor->at - constant.data);
        *indexp = constant.index = hash_bytes(constant.data, constant.size);
        pool = &pools->pools[field->class->number];
        if (pool->n_slots && probe(pools, pool, constant.index)->data)
                return 0;
        copy = arena_alloc(&pools->inlined, (size_t)constant.size + JFR_SLACK);
        if (!copy)
                return error_origin(-ENOMEM);
        memcpy(copy, constant.data, constant.size);
        memset(copy + constant.size, 0, JFR_SLACK);
        constant.data = copy;
        return add_constant(pools, pool, &constant);
}

uint64_t jfr_pools_number(const JfrPools *pools, JfrCursor *cursor, const JfrField *field) {
        JfrCursor constants = { 0 };

        for (;; field = &field->class->fields[0]) {
                if (field->pool) {
                        const JfrConstant *constant = jfr_constant(pools, field->class, jfr_long(cursor));

                        if (!constant)
                                return 0;
                        constants = jfr_constant_cursor(pools, constant);
                        cursor = &constants;
                }
                if (field->class->kind != JFR_STRUCT)
                        return jfr_number(cursor, field->class);
        }
}

void jfr_constant_prefetch(const JfrPools *pools, const JfrClass *class, uint64_t index) {
        const JfrPool *pool = pool_of(pools, class);

        if (pool)
                __builtin_prefetch(&pool->slots[home(pools, index) & (pool->n_slots - 1)]);
}

void jfr_value_prefetch(const JfrPools *pools, const JfrClass *class, uint64_t index) {
        enum { LINE = 64, LINES = 3 };
        const JfrConstant *constant = jfr_constant(pools, class, index);

        for (uint32_t i = 0; constant && i < LINES && i * LINE < constant->size; i++)
                __builtin_prefetch(constant->data + i * LINE);
}

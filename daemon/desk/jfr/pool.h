/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Constant Pools of a Chunk
 *
 * Values that events share (stacks, methods, threads, strings) stand in checkpoint events, one pool for each
 * class: index → value. Pools of one class may come in several checkpoints. A value stays as it stands in the
 * checkpoint's bytes, which are kept while the chunk is read; it is looked at when something refers to it,
 * and what it was turned into is remembered beside it. Of pools that nothing asks for, no value is kept.
 */

#include "desk/jfr/metadata.h"

typedef struct JfrConstant {
        uint64_t index;
        const uint8_t *data;            /* NULL = free slot */
        uint32_t size;
        uint32_t known;                 /* the user's; 0 = nothing yet */
} JfrConstant;

typedef struct JfrPool {
        JfrConstant *slots;
        uint32_t n_slots, n;
} JfrPool;

typedef struct JfrPools {
        JfrPool *pools;                 /* by number of the class */
        uint32_t n_pools;
        uint64_t seed;
        uint8_t **buffers;              /* bytes of checkpoints */
        uint32_t n_buffers, buffers_size;
        bool compressed;
} JfrPools;

enum {
        _JFR_POOLS_E_SUCCESS,
        JFR_POOLS_E_MALFORMED,          /* constants before the damage are there */
};

/* Return: 0, -ENOMEM. */
int jfr_pools_init(JfrPools *pools, const JfrMetadata *metadata, bool compressed);
void jfr_pools_deinit(JfrPools *pools);

/*
 * Adds what one checkpoint holds. @data is malloc()ed, with JFR_SLACK bytes more than @size, and becomes the
 * pools';
 * @at: offset in it behind the event's size and type. *deltap: from this checkpoint to the one before it, 0 =
 * there is none.
 */
int jfr_pools_add(JfrPools *pools, const JfrMetadata *metadata, uint8_t *data, size_t size, size_t at,
                  int64_t *deltap);

/* Return: the constant, or NULL. */
JfrConstant *jfr_constant(const JfrPools *pools, const JfrClass *class, uint64_t index);

/* Asks memory for a constant's slot, and, when that has come, for its first bytes. */
void jfr_constant_prefetch(const JfrPools *pools, const JfrClass *class, uint64_t index);
void jfr_value_prefetch(const JfrPools *pools, const JfrClass *class, uint64_t index);

static inline JfrCursor jfr_constant_cursor(const JfrPools *pools, const JfrConstant *constant) {
        return (JfrCursor){ constant->data, constant->data + constant->size, pools->compressed, false };
}

/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Constant Pools of a Chunk
 *
 * Values that events share (stacks, methods, threads, strings) stand in checkpoint events, one pool for each
 * class: index → value. Pools of one class may come in several checkpoints. A value stays as it stands in the
 * checkpoint's bytes, which are kept while the chunk is read; it is looked at when something refers to it,
 * and what it was turned into is remembered beside it. Of pools that nothing asks for, no value is kept.
 *
 * Whether a field holds a value or a reference to one is up to the writer. A value that stands where another
 * writer would refer to one becomes a constant as well, with an index that is a hash of its bytes: what reads
 * constants then reads either.
 */

#include "core/jfr/metadata.h"

enum { JFR_SLACK = 16 };                /* bytes behind events and constants that may be read */

typedef struct JfrConstant {
        uint64_t index;
        const uint8_t *data;            /* NULL = free slot */
        uint32_t size;
        uint32_t known;                 /* the user's; 0 = nothing yet */
} JfrConstant;

typedef struct JfrPool {
        JfrConstant *slots;
        uint32_t n_slots, n;
        uint8_t use;                    /* use of its constants; 0 = none yet */
} JfrPool;

typedef struct JfrPools {
        JfrPool *pools;                 /* by number of the class */
        uint32_t n_pools;
        uint64_t seed;
        uint8_t **buffers;              /* bytes of checkpoints */
        uint32_t n_buffers, buffers_size;
        Arena inlined;                  /* bytes of values that stood in place of references */
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

/*
 * What the constant was turned into by an earlier call with that @use (the caller's number, not 0), or 0. A
 * recording may use constants of one class in two ways: then the first way is remembered, and the other not.
 */
uint32_t jfr_constant_known(const JfrPools *pools, const JfrClass *class, const JfrConstant *constant,
                            uint8_t use);
void jfr_constant_know(JfrPools *pools, const JfrClass *class, uint64_t index, uint8_t use, uint32_t known);

/*
 * Index of the value of a field that is no array, which is in its pool, or right at @cursor.
 * Return: 0, -ENOMEM.
 */
int jfr_pools_take(JfrPools *pools, JfrCursor *cursor, const JfrField *field, uint64_t *indexp);

/*
 * The number in a field for which jfr_number_class() is not NULL. Of a float or double it is the bits of a
 * double; 0 where a reference leads nowhere.
 */
uint64_t jfr_pools_number(const JfrPools *pools, JfrCursor *cursor, const JfrField *field);

/* Asks memory for a constant's slot, and, when that has come, for its first bytes. */
void jfr_constant_prefetch(const JfrPools *pools, const JfrClass *class, uint64_t index);
void jfr_value_prefetch(const JfrPools *pools, const JfrClass *class, uint64_t index);

static inline JfrCursor jfr_constant_cursor(const JfrPools *pools, const JfrConstant *constant) {
        return (JfrCursor){ constant->data, constant->data + constant->size, pools->compressed, false };
}

/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Hands out memory from a list of blocks, newest first. Each new block is twice as large as the last, up to
 * a cap or up to the object that asked; a reset keeps the newest block alone.
 */

#include "core/base/data/arena.h"

#include <stdalign.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/util/macro.h"

enum {
        ARENA_FIRST_BLOCK = 4 << 10,
        ARENA_MAX_BLOCK = 128 << 10,    /* the last one is half unused, on average */
};

struct ArenaBlock {
        ArenaBlock *next;
        size_t size;                    /* bytes in data[] */
        alignas(8) uint8_t data[];
};

static void free_blocks(ArenaBlock *block) {
        while (block) {
                ArenaBlock *next = block->next;

                free(block);
                block = next;
        }
}

void arena_deinit(Arena *arena) {
        free_blocks(arena->blocks);
        *arena = (Arena){ 0 };
}

void arena_reset(Arena *arena) {
        if (!arena->blocks)
                return;
        free_blocks(arena->blocks->next);
        arena->blocks->next = NULL;
        arena->used = 0;
        arena->total = arena->blocks->size;
}

static int add_block(Arena *arena, size_t need) {
        size_t size = arena->blocks ? MIN(arena->blocks->size * 2, (size_t)ARENA_MAX_BLOCK)
                                    : ARENA_FIRST_BLOCK;
        ArenaBlock *block;

        size = MAX(size, need);
        block = malloc(sizeof(*block) + size);
        if (!block)
                return 1;
        block->size = size;
        block->next = arena->blocks;
        arena->blocks = block;
        arena->used = 0;
        arena->total += size;
        return 0;
}

void *arena_alloc(Arena *arena, size_t size) {
        void *p;

        if (size > SIZE_MAX - 8)
                return NULL;
        size = (size + 7) & ~(size_t)7;
        if (!arena->blocks || size > arena->blocks->size - arena->used)
                if (add_block(arena, size))
                        return NULL;
        p = arena->blocks->data + arena->used;
        arena->used += size;
        return p;
}

void *arena_zero(Arena *arena, size_t n, size_t size) {
        size_t bytes;
        void *p;

        if (__builtin_mul_overflow(n, size, &bytes))
                return NULL;
        p = arena_alloc(arena, bytes);
        return p ? memset(p, 0, bytes) : NULL;
}

void *arena_copy(Arena *arena, const void *data, size_t size) {
        void *p = arena_alloc(arena, size);

        return p && size ? memcpy(p, data, size) : p;
}

char *arena_string(Arena *arena, const char *text, size_t size) {
        char *p = arena_alloc(arena, size + 1);

        if (!p)
                return NULL;
        memcpy(p, text, size);
        p[size] = 0;
        return p;
}

/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Arena
 *
 * Memory that is given back all at once. Blocks double up to 256 KiB; objects never move.
 */

#include <stddef.h>
#include <stdint.h>

typedef struct ArenaBlock ArenaBlock;

typedef struct Arena {
        ArenaBlock *blocks;             /* newest first */
        size_t used;                    /* bytes used of the newest block */
        size_t total;                   /* bytes of all blocks, for caps */
} Arena;

void arena_deinit(Arena *arena);

/* Forgets every object; keeps the newest block for the next use. */
void arena_reset(Arena *arena);

/* @size bytes, 8-aligned, not cleared. Return: NULL without memory. */
void *arena_alloc(Arena *arena, size_t size);
void *arena_zero(Arena *arena, size_t n, size_t size);
void *arena_copy(Arena *arena, const void *data, size_t size);

/* Copy of @size bytes with a NUL behind. */
char *arena_string(Arena *arena, const char *text, size_t size);

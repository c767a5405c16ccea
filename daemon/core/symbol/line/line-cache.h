/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Line Cache
 *
 * What the process that reads DWARF has said about addresses of one object, each asked for once. Texts are
 * kept once.
 */

#include <stdint.h>

#include "core/base/data/arena.h"
#include "core/base/data/hashmap.h"
#include "core/base/data/intern.h"
#include "core/symbol/line/lines.h"

typedef struct LineRow LineRow;

typedef struct LineCache {
        Hashmap rows;                   /* address → LineRow, also of those of which nothing is known */
        Arena arena;
        Intern texts;
} LineCache;

void line_cache_init(LineCache *cache);
void line_cache_deinit(LineCache *cache);

/* NULL = the address was not asked for. */
const LineRow *line_cache_find(const LineCache *cache, uint64_t address);

/* Asks. Return: 0, LINES_E_* (what came before it is there), -ENOMEM. */
int line_cache_fill(LineCache *cache, int fd, const uint64_t *addresses, uint32_t n,
                    const LinesOptions *options);

/* Hands out what is known of @address, if anything. Return: 0, the sink's code. */
int line_cache_give(const LineCache *cache, uint64_t address, uint32_t index, LinesSink sink, void *userdata);

/* Bytes held. */
size_t line_cache_memory(const LineCache *cache);

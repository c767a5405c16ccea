/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Numbers byte strings: slots of a hash table hold item numbers, items hold the bytes' place in an arena
 * and their hash. Slots double; items grow by an eighth, since they are most of the memory.
 */

#define XXH_INLINE_ALL
#include "core/base/data/intern.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <xxhash.h>

#include "core/base/util/error.h"
#include "core/base/util/macro.h"

enum {
        INTERN_FIRST_SLOTS = 64,
        INTERN_LEAST_ITEMS = 32,        /* items that a table grows by, at least */
};

static uint64_t own_seed(void) {
        static uint64_t seed;

        if (!seed && getrandom(&seed, sizeof(seed), GRND_NONBLOCK) != sizeof(seed))
                seed = (uintptr_t)&seed;
        return seed;
}

uint64_t hash_bytes(const void *data, size_t size) {
        return XXH3_64bits_withSeed(data, size, own_seed());
}

/* The size is a constant: what is left of XXH3 then is a few instructions. */
uint64_t hash_number(uint64_t number) {
        return XXH3_64bits_withSeed(&number, sizeof(number), own_seed());
}

void intern_init(Intern *intern, uint32_t max_items) {
        *intern = (Intern){ .max_items = max_items };
}

void intern_deinit(Intern *intern) {
        arena_deinit(&intern->arena);
        free(intern->items);
        free(intern->slots);
        *intern = (Intern){ .max_items = intern->max_items };
}

void intern_reset(Intern *intern) {
        arena_reset(&intern->arena);
        intern->n_items = 0;
        if (intern->slots)
                memset(intern->slots, 0, intern->n_slots * sizeof(*intern->slots));
}

/* The slot of these bytes, or the free one where they belong. */
static uint32_t *probe(const Intern *intern, const void *data, size_t size, uint32_t hash) {
        for (uint32_t i = hash;; i++) {
                uint32_t *slot = &intern->slots[i & (intern->n_slots - 1)];
                const InternItem *item;

                if (!*slot)
                        return slot;
                item = &intern->items[*slot - 1];
                if (item->hash == hash && item->size == size && (!size || !memcmp(item->data, data, size)))
                        return slot;
        }
}

/* Keeps the load at or under one half. */
static int grow_slots(Intern *intern) {
        uint32_t n_slots = intern->n_slots ? intern->n_slots * 2 : INTERN_FIRST_SLOTS;
        uint32_t *slots = calloc(n_slots, sizeof(*slots));

        if (!slots)
                return error_origin(-ENOMEM);
        free(intern->slots);
        intern->slots = slots;
        intern->n_slots = n_slots;
        for (uint32_t i = 0; i < intern->n_items; i++) {
                uint32_t at = intern->items[i].hash;

                while (slots[at & (n_slots - 1)])
                        at++;
                slots[at & (n_slots - 1)] = i + 1;
        }
        return 0;
}

/* By an eighth: items are most of a table's memory, and half of them would be unused after doubling. */
static int grow_items(Intern *intern) {
        uint32_t size = intern->items_size + MAX(intern->items_size / 8, INTERN_LEAST_ITEMS);
        InternItem *items = realloc(intern->items, size * sizeof(*items));

        if (!items)
                return error_origin(-ENOMEM);
        intern->items = items;
        intern->items_size = size;
        return 0;
}

int intern_add(Intern *intern, const void *data, size_t size, uint32_t *indexp) {
        uint32_t hash = (uint32_t)hash_bytes(data, size);
        uint32_t *slot = NULL;
        void *copy;
        int r;

        if (intern->n_slots) {
                slot = probe(intern, data, size, hash);
                if (*slot) {
                        *indexp = *slot - 1;
                        return INTERN_E_FOUND;
                }
        }
        if (intern->n_items >= intern->max_items || size > UINT32_MAX)
                return INTERN_E_FULL;
        if (intern->n_items >= intern->items_size) {
                r = grow_items(intern);
                if (r)
                        return error_fold(r);
        }
        if (intern->n_items >= intern->n_slots / 2) {
                r = grow_slots(intern);
                if (r)
                        return error_fold(r);
                slot = probe(intern, data, size, hash);
        }
        copy = arena_copy(&intern->arena, data, size);
        if (!copy)
                return error_origin(-ENOMEM);
        intern->items[intern->n_items] = (InternItem){ .data = copy, .size = (uint32_t)size, .hash = hash };
        *indexp = intern->n_items++;
        *slot = intern->n_items;
        return 0;
}

int intern_find(const Intern *intern, const void *data, size_t size, uint32_t *indexp) {
        uint32_t *slot;

        if (!intern->n_slots)
                return 1;
        slot = probe(intern, data, size, (uint32_t)hash_bytes(data, size));
        if (!*slot)
                return 1;
        *indexp = *slot - 1;
        return 0;
}

uint64_t hash_stable(const void *data, size_t size) {
        return XXH3_64bits(data, size);
}

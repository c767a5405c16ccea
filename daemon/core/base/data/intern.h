/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Intern
 *
 * A table of distinct byte strings: equal bytes get equal indexes, 0, 1, 2, …
 * in order of arrival. It stores the bytes in an arena; index → bytes and
 * bytes → index are both O(1). Hash: XXH3, seeded per process against
 * targets that choose colliding bytes.
 */

#include <stddef.h>
#include <stdint.h>

#include "core/base/data/arena.h"

enum {
        _INTERN_E_SUCCESS,
        INTERN_E_FULL,                  /* the cap is reached and the bytes are new */
        INTERN_E_FOUND,                 /* only from intern_add(): was there already */
};

typedef struct InternItem {
        const void *data;
        uint32_t size;
        uint32_t hash;
} InternItem;

typedef struct Intern {
        Arena arena;
        InternItem *items;
        uint32_t *slots;                /* item index + 1, 0 = free; a power of two */
        uint32_t n_items, n_slots, max_items, items_size;
} Intern;

/* @max_items caps the table. */
void intern_init(Intern *intern, uint32_t max_items);
void intern_deinit(Intern *intern);
void intern_reset(Intern *intern);

/*
 * Looks @size bytes up and adds them if they are new.
 * Return: 0 = new, INTERN_E_FOUND = was there (both set *indexp), INTERN_E_FULL, -ENOMEM.
 */
int intern_add(Intern *intern, const void *data, size_t size, uint32_t *indexp);

/* Return: 0 and *indexp, or 1 = not there. */
int intern_find(const Intern *intern, const void *data, size_t size, uint32_t *indexp);

static inline const InternItem *intern_get(const Intern *intern, uint32_t index) {
        return &intern->items[index];
}

/* XXH3 over @size bytes with the per-process seed. */
uint64_t hash_bytes(const void *data, size_t size);

/* The same of the bytes of @number. */
uint64_t hash_number(uint64_t number);

/* XXH3 without a seed: the same everywhere and for ever, for files. */
uint64_t hash_stable(const void *data, size_t size);

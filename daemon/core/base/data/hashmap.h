/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Hash Map
 *
 * uint64_t → pointer, open addressing, grows and never shrinks below its peak.
 * Values are borrowed; NULL is no value.
 */

#include <stddef.h>
#include <stdint.h>

typedef struct HashmapEntry {
        uint64_t key;
        void *value;                    /* NULL = free */
} HashmapEntry;

typedef struct Hashmap {
        HashmapEntry *entries;
        uint32_t n_entries, n_slots;
} Hashmap;

void hashmap_deinit(Hashmap *map);

/* Return: the value, or NULL. */
void *hashmap_get(const Hashmap *map, uint64_t key);

/*
 * Fetches the key's place into the cache, without waiting. A large map is cold: many keys take a fraction of
 * the time if all are fetched first.
 */
void hashmap_prefetch(const Hashmap *map, uint64_t key);

/* Sets or replaces. Return: 0, -ENOMEM. */
int hashmap_put(Hashmap *map, uint64_t key, void *value);

/* Return: the value that was removed, or NULL. */
void *hashmap_remove(Hashmap *map, uint64_t key);

/*
 * Walks all entries: start with *atp = 0; NULL at the end. The map must not
 * change meanwhile, except that the entry just returned may be given a new value.
 */
HashmapEntry *hashmap_next(const Hashmap *map, uint32_t *atp);

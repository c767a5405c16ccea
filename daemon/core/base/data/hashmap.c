/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Finds a pointer by a number: linear probing from the number's hash, at most half full. A removal moves
 * later entries back into the hole, so no slot is ever marked as deleted.
 */

#include "core/base/data/hashmap.h"

#include <errno.h>
#include <stdlib.h>

#include "core/base/data/intern.h"
#include "core/base/util/error.h"

enum { HASHMAP_FIRST_SLOTS = 16 };

void hashmap_deinit(Hashmap *map) {
        free(map->entries);
        *map = (Hashmap){ 0 };
}

static uint32_t home(const Hashmap *map, uint64_t key) {
        return (uint32_t)hash_number(key) & (map->n_slots - 1);
}

static HashmapEntry *probe(const Hashmap *map, uint64_t key) {
        for (uint32_t i = home(map, key);; i = (i + 1) & (map->n_slots - 1))
                if (!map->entries[i].value || map->entries[i].key == key)
                        return &map->entries[i];
}

void *hashmap_get(const Hashmap *map, uint64_t key) {
        return map->n_slots ? probe(map, key)->value : NULL;
}

void hashmap_prefetch(const Hashmap *map, uint64_t key) {
        if (map->n_slots)
                __builtin_prefetch(&map->entries[home(map, key)]);
}

static int grow(Hashmap *map) {
        Hashmap bigger = { .n_entries = map->n_entries,
                           .n_slots = map->n_slots ? map->n_slots * 2 : HASHMAP_FIRST_SLOTS };

        bigger.entries = calloc(bigger.n_slots, sizeof(*bigger.entries));
        if (!bigger.entries)
                return error_origin(-ENOMEM);
        for (uint32_t i = 0; i < map->n_slots; i++)
                if (map->entries[i].value)
                        *probe(&bigger, map->entries[i].key) = map->entries[i];
        free(map->entries);
        *map = bigger;
        return 0;
}

int hashmap_put(Hashmap *map, uint64_t key, void *value) {
        HashmapEntry *entry;
        int r;

        if ((map->n_entries + 1) * 2 > map->n_slots) {
                r = grow(map);
                if (r)
                        return error_fold(r);
        }
        entry = probe(map, key);
        if (!entry->value)
                map->n_entries++;
        *entry = (HashmapEntry){ .key = key, .value = value };
        return 0;
}

void *hashmap_remove(Hashmap *map, uint64_t key) {
        HashmapEntry *entry;
        uint32_t hole, i;
        void *value;

        if (!map->n_slots)
                return NULL;
        entry = probe(map, key);
        value = entry->value;
        if (!value)
                return NULL;
        /* Close the hole: move back whatever probing would no longer reach across it. */
        hole = (uint32_t)(entry - map->entries);
        for (i = (hole + 1) & (map->n_slots - 1); map->entries[i].value; i = (i + 1) & (map->n_slots - 1)) {
                uint32_t from = home(map, map->entries[i].key);

                if (((i - from) & (map->n_slots - 1)) < ((i - hole) & (map->n_slots - 1)))
                        continue;
                map->entries[hole] = map->entries[i];
                hole = i;
        }
        map->entries[hole] = (HashmapEntry){ 0 };
        map->n_entries--;
        return value;
}

HashmapEntry *hashmap_next(const Hashmap *map, uint32_t *atp) {
        while (*atp < map->n_slots) {
                HashmapEntry *entry = &map->entries[(*atp)++];

                if (entry->value)
                        return entry;
        }
        return NULL;
}

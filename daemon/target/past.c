/* SPDX-License-Identifier: Apache-2.0 */
#include "target/past.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "util/error.h"
#include "util/macro.h"
#include "util/stat.h"

void past_deinit(Past *past) {
        for (size_t i = 0; i < past->n; i++)
                mapping_deinit(&past->items[i].mapping);
        free(past->items);
        *past = (Past){ 0 };
}

static void drop_first(Past *past, size_t n) {
        if (!n)
                return;
        for (size_t i = 0; i < n; i++)
                mapping_deinit(&past->items[i].mapping);
        past->n -= n;
        memmove(past->items, past->items + n, past->n * sizeof(*past->items));
}

static int reserve(Past *past) {
        size_t room = past->room ? past->room * 2 : 4;
        PastMapping *items;

        if (past->n < past->room)
                return 0;
        items = realloc(past->items, room * sizeof(*items));
        if (!items)
                return error_origin(-ENOMEM);
        past->items = items;
        past->room = room;
        return 0;
}

int past_add(Past *past, Mapping *mapping, uint64_t until_ns, uint64_t stale_ns) {
        int r;

        if (past->n >= PAST_MAX) {
                stat_add(COUNTER_MAPPINGS_PAST_DROPPED, 1);
                /* Nothing is sure of any sample until the kernel half has been told. */
                past->forgotten_ns = past->items[0].published_ns ? MAX(past->forgotten_ns, past->items[0].published_ns)
                                                                 : UINT64_MAX;
                drop_first(past, 1);
        }
        r = reserve(past);
        if (r) {
                mapping_deinit(mapping);
                return r;
        }
        past->items[past->n++] = (PastMapping){ .mapping = *mapping, .until_ns = until_ns, .stale_ns = stale_ns };
        *mapping = (Mapping){ 0 };
        return 0;
}

static bool holds(const PastMapping *item, uint64_t address) {
        return address >= item->mapping.start && address < item->mapping.end;
}

const Mapping *past_find(const Past *past, uint64_t address, uint64_t time_ns) {
        for (size_t i = 0; i < past->n; i++)
                if (time_ns < past->items[i].until_ns && holds(&past->items[i], address))
                        return &past->items[i].mapping;
        return NULL;
}

bool past_is_stale(const Past *past, uint64_t address, uint64_t time_ns) {
        if (time_ns < past->forgotten_ns)
                return true;
        for (size_t i = 0; i < past->n; i++) {
                const PastMapping *item = &past->items[i];

                if (time_ns >= item->stale_ns && (!item->published_ns || time_ns < item->published_ns) &&
                    holds(item, address))
                        return true;
        }
        return false;
}

bool past_reaches(const Past *past, uint64_t time_ns) {
        const PastMapping *last = past->n ? &past->items[past->n - 1] : NULL;

        return time_ns < past->forgotten_ns || (last && (!last->published_ns || time_ns < last->published_ns));
}

bool past_set_time(Past *past, uint64_t start, uint64_t end, uint64_t until_ns, uint64_t time_ns) {
        bool is_set = false;

        for (size_t i = 0; i < past->n; i++) {
                PastMapping *item = &past->items[i];

                if (item->until_ns != until_ns || item->mapping.end <= start || item->mapping.start >= end)
                        continue;
                item->until_ns = time_ns;
                item->stale_ns = time_ns;
                is_set = true;
        }
        return is_set;
}

void past_publish(Past *past, uint64_t now_ns) {
        size_t n_old = 0;

        if (past->forgotten_ns == UINT64_MAX)
                past->forgotten_ns = now_ns;
        for (size_t i = 0; i < past->n; i++)
                if (!past->items[i].published_ns)
                        past->items[i].published_ns = now_ns;
        while (n_old < past->n && past->items[n_old].published_ns + PAST_KEEP_NS < now_ns)
                n_old++;
        drop_first(past, n_old);
}

/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Keeps replaced mappings in the order in which they ended, with a cap, and searches them by address and
 * time.
 */

#include "host/sampling/process/mapping-history.h"

#include <stdlib.h>
#include <string.h>

#include "core/base/util/array.h"
#include "core/base/util/macro.h"
#include "core/base/util/stat.h"

void mapping_history_deinit(MappingHistory *history) {
        for (size_t i = 0; i < history->n; i++)
                mapping_deinit(&history->items[i].mapping);
        free(history->items);
        free(history->ends);
        *history = (MappingHistory){ 0 };
}

static void forget_before(MappingHistory *history, uint64_t time_ns) {
        history->forgotten_ns = MAX(history->forgotten_ns, time_ns);
}

/* The end that was first in time, which is not that of the order: a range may have ended again. */
static void drop_first_end(MappingHistory *history) {
        MappingEnd *first = history->ends;

        for (size_t i = 1; i < history->n_ends; i++)
                if (history->ends[i].until_ns < first->until_ns)
                        first = &history->ends[i];
        forget_before(history, first->until_ns);
        *first = history->ends[--history->n_ends];
}

/*
 * The same range may come and go at one place without end: it has one entry. A part of it has its own, since
 * the rest may be there still.
 */
static void note_end(MappingHistory *history, const PastMapping *item) {
        const MappingEnd end = { item->mapping.start, item->mapping.end, item->until_ns };

        if (item->mapping.kind == MAPPING_ANONYMOUS || !end.until_ns)
                return;
        for (size_t i = 0; i < history->n_ends; i++) {
                MappingEnd *old = &history->ends[i];

                if (old->start != end.start || old->end != end.end)
                        continue;
                old->until_ns = MAX(old->until_ns, end.until_ns);
                history->ended_ns = MAX(history->ended_ns, end.until_ns);
                return;
        }
        if (history->n_ends >= MAPPING_HISTORY_ENDS)
                drop_first_end(history);
        if (array_reserve(&history->ends, &history->ends_room, history->n_ends + 1, 4)) {
                forget_before(history, end.until_ns);
                return;
        }
        history->ends[history->n_ends++] = end;
        history->ended_ns = MAX(history->ended_ns, end.until_ns);
}

static void drop_first(MappingHistory *history, size_t n) {
        if (!n)
                return;
        for (size_t i = 0; i < n; i++) {
                note_end(history, &history->items[i]);
                mapping_deinit(&history->items[i].mapping);
        }
        history->n -= n;
        memmove(history->items, history->items + n, history->n * sizeof(*history->items));
}

int mapping_history_add(MappingHistory *history, Mapping *mapping, uint64_t until_ns, uint64_t stale_ns) {
        int r;

        if (history->n >= MAPPING_HISTORY_MAX) {
                stat_add(COUNTER_MAPPINGS_PAST_DROPPED, 1);
                /* Nothing is sure of any sample until the kernel half has been told. */
                history->forgotten_ns = history->items[0].published_ns
                        ? MAX(history->forgotten_ns, history->items[0].published_ns)
                        : UINT64_MAX;
                drop_first(history, 1);
        }
        r = array_reserve(&history->items, &history->room, history->n + 1, 4);
        if (r) {
                mapping_deinit(mapping);
                return r;
        }
        history->items[history->n++] = (PastMapping){ .mapping = *mapping,
                                                      .until_ns = until_ns,
                                                      .stale_ns = stale_ns };
        *mapping = (Mapping){ 0 };
        return 0;
}

static bool holds(const PastMapping *item, uint64_t address) {
        return address >= item->mapping.start && address < item->mapping.end;
}

const Mapping *mapping_history_find(const MappingHistory *history, uint64_t address, uint64_t time_ns) {
        for (size_t i = 0; i < history->n; i++)
                if (time_ns < history->items[i].until_ns && holds(&history->items[i], address))
                        return &history->items[i].mapping;
        return NULL;
}

bool mapping_history_is_stale(const MappingHistory *history, uint64_t address, uint64_t time_ns) {
        if (time_ns < history->forgotten_ns)
                return true;
        for (size_t i = 0; i < history->n_ends; i++)
                if (time_ns < history->ends[i].until_ns && address >= history->ends[i].start &&
                    address < history->ends[i].end)
                        return true;
        for (size_t i = 0; i < history->n; i++) {
                const PastMapping *item = &history->items[i];

                if (time_ns >= item->stale_ns && (!item->published_ns || time_ns < item->published_ns) &&
                    holds(item, address))
                        return true;
        }
        return false;
}

bool mapping_history_set_time(MappingHistory *history, uint64_t start, uint64_t end, uint64_t until_ns,
                              uint64_t time_ns) {
        bool is_set = false;

        for (size_t i = 0; i < history->n; i++) {
                PastMapping *item = &history->items[i];

                if (item->until_ns != until_ns || item->mapping.end <= start || item->mapping.start >= end)
                        continue;
                item->until_ns = time_ns;
                item->stale_ns = time_ns;
                is_set = true;
        }
        return is_set;
}

void mapping_history_publish(MappingHistory *history, uint64_t now_ns) {
        size_t n_old = 0;

        if (history->forgotten_ns == UINT64_MAX)
                history->forgotten_ns = now_ns;
        for (size_t i = 0; i < history->n; i++)
                if (!history->items[i].published_ns)
                        history->items[i].published_ns = now_ns;
        while (n_old < history->n && history->items[n_old].published_ns + MAPPING_HISTORY_KEEP_NS < now_ns)
                n_old++;
        drop_first(history, n_old);
}

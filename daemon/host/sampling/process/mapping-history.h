/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Past Mappings
 *
 * What was mapped in a process before it was replaced. Serves two questions about
 * a sample, which is always older than the newest table:
 *
 *     resolve   what lay at this address when it was taken?
 *     stale     could the kernel half have walked it by the rows of what lay there before?
 *
 *     time ─────┬──────────────────┬─────────────→
 *               A replaced by B    the kernel half is told
 *        A, A's rows   B, A's rows: stale     B, B's rows
 *
 * Bounded: over MAPPING_HISTORY_MAX the oldest is forgotten, and what is older than that is stale.
 *
 * Allocations that are still alive ask for much older stacks. For them the ranges of files that have ended
 * are kept, without what was there: an address in one is stale at all times before. Over
 * MAPPING_HISTORY_ENDS the first is forgotten as above.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "host/sampling/process/mapping.h"

enum {
        MAPPING_HISTORY_MAX = 256,
        MAPPING_HISTORY_ENDS = 64,
};

#define MAPPING_HISTORY_KEEP_NS UINT64_C(2000000000)

typedef struct PastMapping {
        Mapping mapping;
        uint64_t until_ns;              /* in force before this time */
        /* from here on something else lies there; UINT64_MAX = nothing does */
        uint64_t stale_ns;
        uint64_t published_ns;          /* when the kernel half was told; 0 = not yet */
} PastMapping;

/* Where something lay that is not in the history any more. */
typedef struct MappingEnd {
        uint64_t start, end, until_ns;
} MappingEnd;

typedef struct MappingHistory {
        PastMapping *items;             /* in the order of until_ns */
        size_t n, room;
        uint64_t forgotten_ns;          /* entries before this time may be missing */
        MappingEnd *ends;
        size_t n_ends, ends_room;
        uint64_t ended_ns;              /* the latest of all ends */
} MappingHistory;

void mapping_history_deinit(MappingHistory *history);

/* Takes @mapping over, also on an error. @until_ns: not before that of the last one. Return: 0, -ENOMEM. */
int mapping_history_add(MappingHistory *history, Mapping *mapping, uint64_t until_ns, uint64_t stale_ns);

/* Finds the mapping that was at @address at @time_ns and is not any more; NULL: look in the present. */
const Mapping *mapping_history_find(const MappingHistory *history, uint64_t address, uint64_t time_ns);

/* Whether the rows in force for @address at @time_ns could have been those of another mapping. */
bool mapping_history_is_stale(const MappingHistory *history, uint64_t address, uint64_t time_ns);

/* Whether any answer about @time_ns may differ from the present's. Asked for each sample. */
static inline bool mapping_history_reaches(const MappingHistory *history, uint64_t time_ns) {
        const PastMapping *last = history->n ? &history->items[history->n - 1] : NULL;

        return time_ns < history->forgotten_ns || time_ns < history->ended_ns ||
                (last && (!last->published_ns || time_ns < last->published_ns));
}

/*
 * The end of what ended at @until_ns in [@start, @end) is known better: it was @time_ns. Return: whether
 * anything was.
 */
bool mapping_history_set_time(MappingHistory *history, uint64_t start, uint64_t end, uint64_t until_ns,
                              uint64_t time_ns);

/* The kernel half knows the present since @now_ns. What is older than MAPPING_HISTORY_KEEP_NS is dropped. */
void mapping_history_publish(MappingHistory *history, uint64_t now_ns);

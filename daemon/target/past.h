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
 * Bounded: over PAST_MAX the oldest is forgotten, and what is older than that is stale.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "target/mapping.h"

enum {
        PAST_MAX = 256,
};

#define PAST_KEEP_NS UINT64_C(2000000000)

typedef struct PastMapping {
        Mapping mapping;
        uint64_t until_ns;              /* in force before this time */
        uint64_t stale_ns;              /* from here on something else lies there; UINT64_MAX = nothing does */
        uint64_t published_ns;          /* when the kernel half was told; 0 = not yet */
} PastMapping;

typedef struct Past {
        PastMapping *items;             /* in the order of until_ns */
        size_t n, room;
        uint64_t forgotten_ns;          /* what is older may lack an entry */
} Past;

void past_deinit(Past *past);

/* Takes @mapping over, also on an error. @until_ns: not before that of the last one. Return: 0, -ENOMEM. */
int past_add(Past *past, Mapping *mapping, uint64_t until_ns, uint64_t stale_ns);

/* What was at @address at @time_ns and is not any more, or NULL: look in the present. */
const Mapping *past_find(const Past *past, uint64_t address, uint64_t time_ns);

/* Whether the rows in force for @address at @time_ns could have been those of another mapping. */
bool past_is_stale(const Past *past, uint64_t address, uint64_t time_ns);

/* Whether any answer about @time_ns may differ from the present's. */
bool past_reaches(const Past *past, uint64_t time_ns);

/* The end of what ended at @until_ns in [@start, @end) is known better: it was @time_ns. Return: whether anything was. */
bool past_set_time(Past *past, uint64_t start, uint64_t end, uint64_t until_ns, uint64_t time_ns);

/* The kernel half knows the present since @now_ns. What is older than PAST_KEEP_NS is dropped. */
void past_publish(Past *past, uint64_t now_ns);

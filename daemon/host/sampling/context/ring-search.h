/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Search
 *
 * The processes whose memory is being searched for a context ring: when each is
 * searched, how thoroughly, and how much of it in one go. All of them together
 * never cost more than a share of a CPU, and one with much memory is searched
 * the less often.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/base/util/macro.h"

typedef struct Search Search;

typedef struct SearchFinding {
        uint64_t ring_address;          /* 0 = none (yet) */
        uint32_t ring_capacity;
        uint64_t context_address;       /* memory that begins like a process context; 0 = none */
        uint64_t stations_address;      /* stations of coroutines; 0 = none */
        bool is_swept;                  /* the sweep asked for this search, and no notice since */
} SearchFinding;

/*
 * Something was found. After a ring the process is not searched any further, after anything else it is: a
 * ring may be there too. Return: 0, or negative to end the work.
 */
typedef int (*SearchFound)(void *userdata, uint32_t tgid, uint64_t start_time_ns,
                           const SearchFinding *finding);

/* Return: 0, -ENOMEM. */
int search_new(Search **searchp);
Search *search_free(Search *search);
DEFINE_CLEANUP(Search, search_free)

/*
 * Searches a process from @now_ns on; again from the start if it is being searched already. At the cap
 * one that was searched gives way. Where none was, nothing happens but a count (RING_SCANS_SKIPPED): the
 * kernel half will name the process again.
 * Return: 0, -ENOMEM.
 */
int search_add(Search *search, uint32_t tgid, uint64_t start_time_ns, uint64_t now_ns);

/*
 * Tells what program it is: the same @kind for all that are likely to live as long and to publish as much,
 * never 0. Those that only end soon are searched in full later. Once a search; later ones change nothing.
 */
void search_set_kind(Search *search, uint32_t tgid, uint64_t start_time_ns, uint64_t kind);

/* When the first of those that were added since the last search_work() is due; UINT64_MAX = none was. */
uint64_t search_asked_ns(const Search *search);

/* A look at the starts of its regions, or @whole, unless it is being searched anyway. Return: 0, -ENOMEM. */
int search_look(Search *search, uint32_t tgid, uint64_t start_time_ns, bool whole, uint64_t now_ns);

/* The same of a process that the safety sweep came by; what is found in it is the sweep's. */
int search_sweep(Search *search, uint32_t tgid, uint64_t start_time_ns, bool whole, uint64_t now_ns);

/* A program has ended at @now_ns, of which the search needs not know. */
void search_remove(Search *search, uint32_t tgid, uint64_t now_ns);

/* Bytes of maps that may be read, shared with others (maps.h); once the first search_quick() is over. */
void search_set_text(Search *search, size_t *leftp);

/* The starts of all regions, of all processes that wait, at once. Callbacks must not add or remove. */
int search_quick(Search *search, uint64_t now_ns, SearchFound found, void *userdata);

/*
 * Searches what is due at @now_ns, up to a budget. *next_nsp: when there is more to do, UINT64_MAX = never.
 */
int search_work(Search *search, uint64_t now_ns, SearchFound found, void *userdata, uint64_t *next_nsp);

/* Processes that are known, waiting or idle. */
size_t search_count(const Search *search);

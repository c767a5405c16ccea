/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Suspended Time
 *
 * Adds up, from the events of one region, how long its coroutines were suspended, and where: by station and
 * address. What is still suspended when the sums are taken counts until then, and from then on the next time,
 * so that no nanosecond is in two sums. With events lost, or a death, after a suspend nobody knows when it
 * ended: from the last moment at which it was seen suspended nothing is counted but that. Opens and maps
 * nothing.
 */

#include <stdbool.h>
#include <stdint.h>

#include "base/util/intern.h"
#include "coro/station/station-read.h"

enum {
        /* sums by station and address; each takes up to six rows of a window */
        SUSPENDED_MAX_NAMED = 1 << 13,
        /* then by address alone, as many, and one for all the rest: no time is left out */
        SUSPENDED_MAX_PLACES = 1 << 10,
};

#define SUSPENDED_ANY_STATION UINT32_MAX

typedef struct SuspendedStation {
        uint64_t next;                  /* number of the event that must come next */
        /* what is not in a sum yet begins here; 0 = is not suspended, or nobody knows */
        uint64_t since_ns;
        uint64_t address;
        /* told of too much: a writer that was slow to publish had resumed by then */
        uint64_t debt_ns;
} SuspendedStation;

typedef struct SuspendedSum {
        uint32_t station;               /* SUSPENDED_ANY_STATION = of several */
        uint64_t address;
        uint64_t value_ns;
        uint64_t time_ns;               /* of the last moment that is in it */
} SuspendedSum;

typedef struct Suspended {
        SuspendedStation *stations;
        uint32_t n_stations;
        uint64_t begin_ns;              /* nothing before it is counted */
        Intern keys;                    /* {address, station} → number */
        SuspendedSum *sums;             /* by number */
        uint32_t sums_size;
        /* stretches: counted, cut for losses, not kept by station; the caller's to reset */
        uint64_t n_whole, n_unknown, n_folded;
} Suspended;

/* @begin_ns: when the region was found. Return: 0, -ENOMEM. */
int suspended_init(Suspended *suspended, uint32_t n_stations, uint64_t begin_ns);
void suspended_deinit(Suspended *suspended);

/* Events of one station in their order. Return: 0, -ENOMEM. */
int suspended_event(Suspended *suspended, const CoroEvent *event);

/* Station @station is dead: when that came about is not known. */
void suspended_died(Suspended *suspended, uint32_t station);

/* Whether it is suspended by its newest event. */
static inline bool suspended_is_open(const Suspended *suspended, uint32_t station) {
        return suspended->stations[station].since_ns != 0;
}

/*
 * Station @station is suspended still, at @now_ns: counts until then, and the rest later. Return: 0, -ENOMEM.
 */
int suspended_count_open(Suspended *suspended, uint32_t station, uint64_t now_ns);

typedef int (*SuspendedFunc)(void *userdata, const SuspendedSum *sum);

/* Hands all sums on and forgets them. @func may be NULL. Return: 0, or what @func returned. */
int suspended_take(Suspended *suspended, SuspendedFunc func, void *userdata);

/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Suspended Time
 *
 * Adds up, from the events of one region, how long its coroutines were suspended, by station and address.
 * Each nanosecond is in one sum at most. Opens and maps nothing.
 */

#include <stdbool.h>
#include <stdint.h>

#include "core/base/data/intern.h"
#include "core/coro/station-read.h"

enum {
        /* sums by station and address; each takes up to six rows of a window */
        SUSPENDED_MAX_NAMED = 1 << 13,
        /* then sums by address alone; then one sum for all the rest: no time is left out */
        SUSPENDED_MAX_ADDRESSES = 1 << 10,
};

#define SUSPENDED_ANY_STATION UINT32_MAX

typedef struct SuspendedStation {
        uint64_t next;                  /* number of the event that must come next */
        /* start of the time that is in no sum yet; 0 = it is not suspended, or that is unknown */
        uint64_t since_ns;
        uint64_t address;
        /* time that was counted too much: the coroutine had resumed, and its writer was slow to publish */
        uint64_t debt_ns;
} SuspendedStation;

typedef struct SuspendedSum {
        uint32_t station;               /* SUSPENDED_ANY_STATION = several stations */
        uint64_t address;
        uint64_t value_ns;
        uint64_t time_ns;               /* the last moment of the sum */
} SuspendedSum;

typedef struct Suspended {
        SuspendedStation *stations;
        uint32_t n_stations;
        uint64_t begin_ns;              /* nothing before it is counted */
        Intern keys;                    /* {address, station} → number */
        SuspendedSum *sums;             /* by number */
        uint32_t sums_size;
        /* stretches: counted; unknown for losses; not kept by station. The caller resets them */
        uint64_t n_whole, n_unknown, n_folded;
} Suspended;

/* @begin_ns: when the region was found. Return: 0, -ENOMEM. */
int suspended_init(Suspended *suspended, uint32_t n_stations, uint64_t begin_ns);
void suspended_deinit(Suspended *suspended);

/* Adds an event; events of one station come in their order. Return: 0, -ENOMEM. */
int suspended_event(Suspended *suspended, const CoroEvent *event);

/* Station @station is dead, since an unknown time. */
void suspended_died(Suspended *suspended, uint32_t station);

/* Whether the station is suspended by its newest event. */
static inline bool suspended_is_open(const Suspended *suspended, uint32_t station) {
        return suspended->stations[station].since_ns != 0;
}

/*
 * Counts the time of a station that is still suspended until @now_ns; the rest comes later. Return: 0,
 * -ENOMEM.
 */
int suspended_count_open(Suspended *suspended, uint32_t station, uint64_t now_ns);

typedef int (*SuspendedFunc)(void *userdata, const SuspendedSum *sum);

/* Hands on all sums and clears them. @func may be NULL. Return: 0, or what @func returned. */
int suspended_take(Suspended *suspended, SuspendedFunc func, void *userdata);

/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * EventHistory
 *
 * The recent events of one region, to be asked which coroutine ran on a thread at a time that is not long
 * ago: among the stations whose own newest event until then is a resume on that thread, the one that was
 * resumed last. A coroutine that resumes another stays resumed itself, so the innermost is meant.
 *
 * Holds a fixed number of events; of older ones it knows the last of each station. Opens nothing.
 */

#include <stdbool.h>
#include <stdint.h>

#include "base/util/hashmap.h"
#include "base/util/macro.h"
#include "coro/station/station-read.h"

enum { EVENT_HISTORY_EVENTS = 1 << 17, EVENT_HISTORY_MAX_THREADS = 1 << 16 };

typedef struct EventHistoryEntry {
        uint64_t time_ns;
        uint64_t before_of_station, after_of_station;   /* numbers of entries, from 1; 0 = none */
        uint64_t before_of_thread;
        uint32_t station, tid;
        bool active;
        bool gap;                       /* events of the station were lost right before this one */
} EventHistoryEntry;

/* The last event of a station that is not in the history any more. */
typedef struct EventHistoryStation {
        uint64_t newest;                /* its newest entry */
        uint64_t oldest;                /* its first entry after the one below; 0 = none yet */
        uint64_t old_ns;                /* 0 = none */
        uint32_t old_tid;
        uint32_t next;                  /* in the list of its thread; number + 1 */
        bool old_active, listed;
} EventHistoryStation;

typedef struct EventHistoryThread {
        uint64_t newest;
        /* stations that were active here when their event left the history; number + 1 */
        uint32_t first;
} EventHistoryThread;

typedef struct EventHistory {
        EventHistoryEntry *entries;          /* by number % EVENT_HISTORY_EVENTS */
        uint64_t n;                     /* number of the newest */
        /* of some station only events from then on are known: no time before can be told of */
        uint64_t since_ns;
        EventHistoryStation *stations;
        uint32_t n_stations;
        Hashmap threads;                /* tid → EventHistoryThread */
} EventHistory;

enum {
        _EVENT_HISTORY_E_SUCCESS,
        EVENT_HISTORY_E_NONE,                 /* no coroutine on that thread, as far as is known */
        EVENT_HISTORY_E_LAPPED,               /* events of that time were lost: it is not known */
};

/* Return: 0, -ENOMEM. */
int event_history_init(EventHistory *history, uint32_t n_stations);
void event_history_deinit(EventHistory *history);

/* Events of one station in their order; those of different stations may come in any. Return: 0, -ENOMEM. */
int event_history_add(EventHistory *history, const CoroEvent *event);

/*
 * @is_out: whether a station that would be the answer is out of the question (dead by then); may be NULL.
 * Return: 0 and *stationp, EVENT_HISTORY_E_*.
 */
int event_history_find(const EventHistory *history, uint32_t tid, uint64_t time_ns,
                       bool (*is_out)(void *userdata, uint32_t station), void *userdata, uint32_t *stationp);

/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Event History
 *
 * The recent events of one region, to be asked which coroutine ran on a thread at a time not long ago. Among
 * the stations whose own newest event until then is a resume on that thread, it is the one that was resumed
 * last: a coroutine that resumes another stays resumed itself, so the innermost is meant.
 *
 * Holds a fixed number of events; of older ones it knows the last of each station. Opens nothing.
 */

#include <stdbool.h>
#include <stdint.h>

#include "core/base/data/hashmap.h"
#include "core/base/util/macro.h"
#include "core/coro/station-read.h"

enum { EVENT_HISTORY_EVENTS = 1 << 17, EVENT_HISTORY_MAX_THREADS = 1 << 16 };

typedef struct EventHistoryEntry {
        uint64_t time_ns;
        uint64_t before_of_station, after_of_station;   /* numbers of entries, from 1; 0 = none */
        uint64_t before_of_thread;
        uint32_t station, tid;
        bool active;
        bool gap;                       /* events of its station were lost right before it */
} EventHistoryEntry;

/* A station, with its last event that has left the history. */
typedef struct EventHistoryStation {
        uint64_t newest;                /* number of its newest entry */
        uint64_t oldest;                /* number of its first entry after the event below; 0 = none yet */
        uint64_t old_ns;                /* time of that event; 0 = no event has left */
        uint32_t old_tid;
        uint32_t next;                  /* next station in the list of its thread; index + 1 */
        bool old_active, listed;
} EventHistoryStation;

typedef struct EventHistoryThread {
        uint64_t newest;
        /* first of the stations that were active here when their event left the history; index + 1 */
        uint32_t first;
        /* while events are linked: where the chain of this turn has come to */
        uint64_t *at, turn;
} EventHistoryThread;

typedef struct EventHistory {
        EventHistoryEntry *entries;          /* by number % EVENT_HISTORY_EVENTS */
        uint64_t n;                     /* number of the newest entry */
        uint64_t n_linked;              /* number of the newest entry that is in the chain of its thread */
        struct Unlinked *unlinked;      /* room to sort the others */
        uint64_t turn;                  /* turn of linking */
        /* events of some station are known only from then on: questions of earlier times have no answer */
        uint64_t since_ns;
        EventHistoryStation *stations;
        uint32_t n_stations;
        Hashmap threads;                /* tid → EventHistoryThread */
} EventHistory;

enum {
        _EVENT_HISTORY_E_SUCCESS,
        EVENT_HISTORY_E_NONE,                 /* no coroutine is known to have run on that thread */
        EVENT_HISTORY_E_LAPPED,               /* events of that time were lost: the answer is unknown */
};

/* Return: 0, -ENOMEM. */
int event_history_init(EventHistory *history, uint32_t n_stations);
void event_history_deinit(EventHistory *history);

/*
 * Adds an event. Events of one station come in their order, those of different stations in any. Return: 0,
 * -ENOMEM.
 */
int event_history_add(EventHistory *history, const CoroEvent *event);

/*
 * Finds the coroutine on thread @tid at @time_ns. @is_out: whether a candidate was dead by then; may be NULL.
 * Return: 0 and *stationp, EVENT_HISTORY_E_*.
 */
int event_history_find(EventHistory *history, uint32_t tid, uint64_t time_ns,
                       bool (*is_out)(void *userdata, uint32_t station), void *userdata, uint32_t *stationp);

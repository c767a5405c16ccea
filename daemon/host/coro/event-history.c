/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Tells which coroutine ran on a thread at a time: here, on thread 70 at 350. The chain of its events, newest
 * first, goes back in time; for each event of a resume, the next event of the same station decides whether it
 * still held at 350:
 *
 *      entry   time   station   thread   event       next event of the station
 *          5    400         6       71   suspend     –
 *          4    340         5       70   suspend     –
 *          3    320         6       70   resume      5, at 400: later than 350       ◀ station 6 ran
 *          2    300         5       70   resume      4, at 340: over
 *          1    100         7       70   resume      –                                (would be next)
 *
 * A gap (lost events) between an event and its successor makes the answer unknown, never a guess. The history
 * is a ring of 131,072 entries, linked by station and by thread. What leaves it is the last event known of
 * its station: a station that was resumed then and has run ever since goes into a list of its thread, which
 * is searched when the chain has no answer.
 *
 * A chain is in the order of time, but stations are read one after the other: of a burst of 1,000 stations
 * with eight events each, each event would be searched its place among 8,000. So events wait without a chain
 * until there is a question. Then they are sorted, and merged into the chains from the newest on.
 */

#include "host/coro/event-history.h"

#include <errno.h>
#include <stdlib.h>

#include "core/base/util/error.h"

enum {
        MAX_STEPS = 1 << 14,            /* entries that one question may walk: some 100 µs */
        MAX_UNLINKED = 1 << 15,         /* events that wait for a question */
};

typedef struct Unlinked {
        uint64_t time_ns, number;
} Unlinked;

int event_history_init(EventHistory *history, uint32_t n_stations) {
        *history = (EventHistory){ .n_stations = n_stations };
        history->entries = calloc(EVENT_HISTORY_EVENTS, sizeof(*history->entries));
        history->stations = calloc(n_stations, sizeof(*history->stations));
        history->unlinked = calloc(MAX_UNLINKED, sizeof(*history->unlinked));
        return history->entries && history->stations && history->unlinked ? 0 : error_origin(-ENOMEM);
}

void event_history_deinit(EventHistory *history) {
        HashmapEntry *entry;
        uint32_t at = 0;

        while ((entry = hashmap_next(&history->threads, &at)))
                free(entry->value);
        hashmap_deinit(&history->threads);
        free(history->entries);
        free(history->stations);
        free(history->unlinked);
        *history = (EventHistory){ 0 };
}

/* Return: NULL = the entry has left the history, or never was. */
static EventHistoryEntry *get(const EventHistory *history, uint64_t number) {
        return number && number + EVENT_HISTORY_EVENTS > history->n
                ? &history->entries[number % EVENT_HISTORY_EVENTS]
                : NULL;
}

static int find_thread(EventHistory *history, uint32_t tid, EventHistoryThread **threadp) {
        EventHistoryThread *thread = hashmap_get(&history->threads, tid);
        int r;

        *threadp = thread;
        if (thread || history->threads.n_entries >= EVENT_HISTORY_MAX_THREADS)
                return 0;
        thread = calloc(1, sizeof(*thread));
        if (!thread)
                return error_origin(-ENOMEM);
        r = hashmap_put(&history->threads, tid, thread);
        if (r)
                free(thread);
        else
                *threadp = thread;
        return r;
}

/* Keeps the entry that leaves the history as the last known event of its station. */
static void forget(EventHistory *history, const EventHistoryEntry *entry) {
        EventHistoryStation *station = &history->stations[entry->station];
        EventHistoryThread *thread = hashmap_get(&history->threads, entry->tid);

        station->oldest = entry->after_of_station;
        station->old_ns = entry->time_ns;
        station->old_active = entry->active;
        if (station->listed && station->old_tid != entry->tid)
                /* still in the list of another thread: rare, and rather unknown than wrong */
                station->old_active = false;
        else
                station->old_tid = entry->tid;
        if (!entry->active || station->listed || !thread)
                return;
        station->next = thread->first;
        thread->first = entry->station + 1;
        station->listed = true;
}

static int compare_newest_first(const void *left, const void *right) {
        const Unlinked *a = left, *b = right;

        return a->time_ns != b->time_ns ? (a->time_ns < b->time_ns) - (a->time_ns > b->time_ns)
                                        : (a->number < b->number) - (a->number > b->number);
}

/* Links the entry at the place in the chain of its thread that the one before it, which is newer, came to. */
static void link_to_thread(EventHistory *history, EventHistoryThread *thread, uint64_t number) {
        EventHistoryEntry *entry = get(history, number), *other;
        uint64_t *at = thread->turn == history->turn ? thread->at : &thread->newest;

        while ((other = get(history, *at)) && other->time_ns > entry->time_ns)
                at = &other->before_of_thread;
        entry->before_of_thread = *at;
        *at = number;
        thread->at = &entry->before_of_thread;
        thread->turn = history->turn;
}

/* Brings all events into the chains of their threads. */
static void link_all(EventHistory *history) {
        uint32_t n = 0;

        for (uint64_t number = history->n; number > history->n_linked; number--)
                history->unlinked[n++] = (Unlinked){ get(history, number)->time_ns, number };
        if (n > 1)
                qsort(history->unlinked, n, sizeof(*history->unlinked), compare_newest_first);
        history->turn++;
        for (uint32_t i = 0; i < n; i++) {
                uint64_t number = history->unlinked[i].number;

                link_to_thread(history, hashmap_get(&history->threads, get(history, number)->tid), number);
        }
        history->n_linked = history->n;
}

int event_history_add(EventHistory *history, const CoroEvent *event) {
        EventHistoryEntry *entry = &history->entries[(history->n + 1) % EVENT_HISTORY_EVENTS];
        EventHistoryStation *station;
        EventHistoryEntry *before;
        EventHistoryThread *thread;
        int r = find_thread(history, (uint32_t)event->tid, &thread);

        if (r || !thread || event->station >= history->n_stations)
                return r;
        if (history->n + 1 > EVENT_HISTORY_EVENTS)
                forget(history, entry);
        history->n++;
        /* earlier events of this station are unknown */
        if (event->number && !history->stations[event->station].newest)
                history->since_ns = MAX(history->since_ns, event->time_ns);
        *entry = (EventHistoryEntry){ .time_ns = event->time_ns,
                                      .station = event->station,
                                      .tid = (uint32_t)event->tid,
                                      .active = event->active,
                                      .gap = event->n_lost,
                                      .before_of_station = history->stations[event->station].newest };
        station = &history->stations[event->station];
        before = get(history, station->newest);
        if (before)
                before->after_of_station = history->n;
        if (!get(history, station->oldest))
                station->oldest = history->n;
        station->newest = history->n;
        if (history->n - history->n_linked == MAX_UNLINKED)
                link_all(history);
        return 0;
}

/* Finds the one that was resumed last on this thread among stations whose last event has left the history. */
static int find_old(const EventHistory *history, const EventHistoryThread *thread, uint32_t tid,
                    uint64_t time_ns, bool (*is_out)(void *, uint32_t), void *userdata, uint32_t *stationp) {
        uint64_t best_ns = 0;
        bool gap = false;
        int steps = 0;

        for (uint32_t at = thread->first; at && ++steps < MAX_STEPS; at = history->stations[at - 1].next) {
                const EventHistoryStation *station = &history->stations[at - 1];
                const EventHistoryEntry *next = get(history, station->oldest);

                if (!station->old_active || station->old_tid != tid || station->old_ns > time_ns ||
                    station->old_ns < best_ns)
                        continue;
                if ((next && next->time_ns <= time_ns) || (is_out && is_out(userdata, at - 1)))
                        continue;
                best_ns = station->old_ns;
                gap = next && next->gap;
                *stationp = at - 1;
        }
        return !best_ns ? EVENT_HISTORY_E_NONE : gap ? EVENT_HISTORY_E_LAPPED : 0;
}

int event_history_find(EventHistory *history, uint32_t tid, uint64_t time_ns,
                       bool (*is_out)(void *userdata, uint32_t station), void *userdata, uint32_t *stationp) {
        const EventHistoryThread *thread = hashmap_get(&history->threads, tid);
        const EventHistoryEntry *entry;
        int steps = 0;

        link_all(history);
        if (time_ns < history->since_ns)
                return EVENT_HISTORY_E_LAPPED;
        if (!thread)
                return EVENT_HISTORY_E_NONE;
        for (entry = get(history, thread->newest); entry; entry = get(history, entry->before_of_thread)) {
                const EventHistoryEntry *next = get(history, entry->after_of_station);

                if (++steps >= MAX_STEPS)
                        return EVENT_HISTORY_E_LAPPED;
                if (entry->time_ns > time_ns) {
                        const EventHistoryEntry *before = entry->gap ? get(history, entry->before_of_station)
                                                                     : NULL;

                        if (before && before->time_ns <= time_ns)
                                /* a lost event may have resumed it here */
                                return EVENT_HISTORY_E_LAPPED;
                        continue;
                }
                if (next && next->time_ns <= time_ns)
                        continue;               /* the station has a later event, here or on another thread */
                if (next && next->gap)
                        return EVENT_HISTORY_E_LAPPED;
                if (!entry->active || (is_out && is_out(userdata, entry->station)))
                        continue;
                *stationp = entry->station;
                return 0;
        }
        return find_old(history, thread, tid, time_ns, is_out, userdata, stationp);
}

/* SPDX-License-Identifier: Apache-2.0 */
#include "coro/station/joined.h"

#include <errno.h>
#include <stdlib.h>

#include "base/util/clock.h"
#include "base/util/error.h"
#include "base/util/stat.h"

Joined *joined_free(Joined *joined) {
        if (!joined)
                return NULL;
        region_scan_deinit(&joined->scan);
        event_history_deinit(&joined->journal);
        suspended_deinit(&joined->suspended);
        region_free(joined->region);
        free(joined->lives);
        free(joined->active);
        free(joined);
        return NULL;
}

int joined_new(Joined **joinedp, Region *region) {
        Joined *joined = calloc(1, sizeof(*joined));
        int r;

        if (!joined) {
                region_free(region);
                return error_origin(-ENOMEM);
        }
        joined->region = region;
        joined->lives = calloc(region->n_stations, sizeof(*joined->lives));
        joined->active = calloc(region->n_stations, sizeof(*joined->active));
        r = joined->lives && joined->active
                ? region_scan_init(&joined->scan, region, STATION_DIALECT_UNKNOWN, true)
                : error_origin(-ENOMEM);
        if (!r)
                r = event_history_init(&joined->journal, region->n_stations);
        if (!r)
                r = suspended_init(&joined->suspended, region->n_stations, clock_monotonic_ns());
        if (r)
                joined_free(joined);
        else
                *joinedp = joined;
        return r;
}

static int on_event(void *userdata, const CoroEvent *event) {
        Joined *joined = userdata;
        int r;

        if (event->n_lost)
                stat_add(COUNTER_CORO_EVENTS_LOST, event->n_lost);
        stat_add(COUNTER_CORO_EVENTS, 1);
        if (event->active && !joined->lives[event->station].listed) {
                joined->lives[event->station].listed = true;
                joined->active[joined->n_active++] = event->station;
        }
        r = suspended_event(&joined->suspended, event);
        return r ? r : event_history_add(&joined->journal, event);
}

void joined_look_at_life(Joined *joined, uint32_t station, uint64_t now_ns) {
        StationState *state = &joined->scan.states[station];
        Life *life = &joined->lives[station];

        if (!state->dead)
                station_look(&joined->region->stations[station], state);
        if (!state->dead)
                life->alive_ns = now_ns;
        else if (!life->dead_ns)
                life->dead_ns = now_ns;
}

/* Those that may be running, which are few: as many as threads, and their callers. */
static void look_at_lives(Joined *joined, uint64_t now_ns) {
        for (uint32_t i = 0; i < joined->n_active;) {
                uint32_t station = joined->active[i];

                joined_look_at_life(joined, station, now_ns);
                if (joined->scan.states[station].active && !joined->lives[station].dead_ns) {
                        i++;
                        continue;
                }
                joined->lives[station].listed = false;
                joined->active[i] = joined->active[--joined->n_active];
        }
}

int joined_scan(Joined *joined, RegionScanFound *found) {
        uint64_t now_ns = clock_monotonic_ns();
        int r = region_scan_run(&joined->scan, now_ns, on_event, joined, found);

        look_at_lives(joined, now_ns);
        joined->scanned_ns = now_ns;
        joined->cost_ns = clock_monotonic_ns() - now_ns;
        return r;
}

/*
 * While an event waits to be read nothing is known but that it was resumed since. One that died while it was
 * suspended did so nobody knows when.
 */
static int count_open(Joined *joined, uint32_t station, uint64_t now_ns) {
        const RegionScan *scan = &joined->scan;

        joined_look_at_life(joined, station, now_ns);
        if (station_is_ready(&joined->region->stations[station], scan->dialect, scan->states[station].next))
                return 0;
        if (scan->states[station].dead)
                suspended_died(&joined->suspended, station);
        return suspended_count_open(&joined->suspended, station, now_ns);
}

int joined_count_suspended(Joined *joined, uint64_t end_ns) {
        uint64_t now_ns = MIN(joined->scanned_ns, end_ns);

        for (uint32_t i = 0; i < joined->scan.n_seen; i++) {
                int r = suspended_is_open(&joined->suspended, i) ? count_open(joined, i, now_ns) : 0;

                if (r)
                        return r;
                if (region_is_cut(joined->region))      /* what it says now are zeros */
                        return 0;
        }
        return 0;
}

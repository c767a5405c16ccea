/* SPDX-License-Identifier: Apache-2.0 */
#include "coro/harvest.h"

#include <errno.h>
#include <stdlib.h>

#include "util/error.h"
#include "util/hashmap.h"

enum {
        PREFETCH = 8,                   /* stations ahead: each is a page's quarter, which the CPU does not foresee */
        LOOKS_PER_SCAN = 64,            /* the part of all stations whose death is looked for in one scan */
};

int harvest_init(Harvest *harvest, Region *region, StationDialect dialect, bool late) {
        *harvest = (Harvest){ .region = region, .dialect = dialect, .dialect_is_given = dialect != STATION_DIALECT_UNKNOWN,
                              .late = late };
        /* untouched zero pages: a large region that is little used costs little */
        harvest->alive = calloc(region->n_stations, sizeof(*harvest->alive));
        harvest->next = calloc(region->n_stations, sizeof(*harvest->next));
        harvest->states = calloc(region->n_stations, sizeof(*harvest->states));
        return harvest->alive && harvest->next && harvest->states ? 0 : error_origin(-ENOMEM);
}

void harvest_deinit(Harvest *harvest) {
        free(harvest->alive);
        free(harvest->next);
        free(harvest->states);
        *harvest = (Harvest){ 0 };
}

static void add_new(Harvest *harvest) {
        uint32_t n = region_allocated(harvest->region, &harvest->n_without);

        for (; harvest->n_seen < n; harvest->n_seen++)
                harvest->alive[harvest->n_alive++] = harvest->n_seen;
}

/* Stations that were written before we came: start at what is left of them, once the dialect is known. */
static void begin_late(Harvest *harvest, uint64_t now_ns) {
        for (uint32_t i = 0; i < harvest->n_seen; i++) {
                station_begin(&harvest->region->stations[i], harvest->dialect, now_ns, &harvest->states[i]);
                harvest->next[i] = harvest->states[i].next;
        }
}

static void find_dialect(Harvest *harvest, uint64_t now_ns) {
        for (uint32_t i = 0; i < harvest->n_seen; i++) {
                const struct spanprof_station *station = &harvest->region->stations[i];
                StationDialect dialect = station_dialect(station);

                if (dialect == STATION_DIALECT_UNKNOWN || station_dialect(station) != dialect)
                        continue;
                harvest->dialect = dialect;
                break;
        }
        if (harvest->dialect != STATION_DIALECT_UNKNOWN && harvest->late)
                begin_late(harvest, now_ns);
}

/* Reads what one station has. */
static int visit(Harvest *harvest, uint32_t index, uint64_t now_ns, HarvestEventFunc func, void *userdata,
                 HarvestFound *found) {
        const struct spanprof_station *station = &harvest->region->stations[index];
        StationState *state = &harvest->states[index];
        uint64_t before = state->next, n_lost = state->n_lost;
        CoroEvent event = { .station = index, .pid = harvest->pid };
        int r = 0, result = 0;

        /* not more than a ring: a writer that never stops must not keep us */
        for (int i = 0; i < SPANPROF_STATION_EPOCHS && !result && (!r || r == STATION_E_REJECTED); i++) {
                r = station_next(station, harvest->dialect, now_ns, state, &event);
                if (r)
                        continue;
                found->n_events++;
                result = func(userdata, &event);
        }
        harvest->next[index] = state->next;
        found->n_lost += state->n_lost - n_lost;
        found->n_most = MAX(found->n_most, (uint32_t)MIN(state->next - before, UINT32_MAX));
        return result;
}

/* Looks whether a part of the coroutines has died, and forgets those whose last event has been read. */
static void bury(Harvest *harvest, uint32_t n) {
        for (; n && harvest->n_alive; n--) {
                uint32_t at = harvest->look_at < harvest->n_alive ? harvest->look_at : 0, index = harvest->alive[at];
                const struct spanprof_station *station = &harvest->region->stations[index];
                StationState *state = &harvest->states[index];

                station_look(station, state);
                harvest->look_at = at + 1;
                if (!state->corrupt && (!state->dead || station_is_ready(station, harvest->dialect, state->next)))
                        continue;
                harvest->alive[at] = harvest->alive[--harvest->n_alive];
                harvest->look_at = at;
        }
}

static int scan_alive(Harvest *harvest, uint64_t now_ns, HarvestEventFunc func, void *userdata, HarvestFound *found) {
        const struct spanprof_station *stations = harvest->region->stations;
        bool document = harvest->dialect == STATION_DIALECT_DOCUMENT;

        for (uint32_t i = 0; i < harvest->n_alive; i++) {
                uint32_t index = harvest->alive[i];
                int r;

                if (i + PREFETCH < harvest->n_alive) {
                        uint32_t ahead = harvest->alive[i + PREFETCH];

                        __builtin_prefetch(&stations[ahead].epochs[(harvest->next[ahead] + document) % SPANPROF_STATION_EPOCHS].seq);
                }
                if (!station_is_ready(&stations[index], harvest->dialect, harvest->next[index]))
                        continue;
                r = visit(harvest, index, now_ns, func, userdata, found);
                if (r)
                        return r;
        }
        return 0;
}

int harvest_scan(Harvest *harvest, uint64_t now_ns, HarvestEventFunc func, void *userdata, HarvestFound *found) {
        int r;

        *found = (HarvestFound){ 0 };
        if (harvest->finished)
                return 0;
        add_new(harvest);
        if (harvest->dialect == STATION_DIALECT_UNKNOWN)
                find_dialect(harvest, now_ns);
        if (harvest->dialect == STATION_DIALECT_UNKNOWN)
                return 0;
        r = scan_alive(harvest, now_ns, func, userdata, found);
        bury(harvest, harvest->n_alive / LOOKS_PER_SCAN + 1);
        harvest->finished = region_is_cut(harvest->region);     /* what follows would be zeros */
        return r;
}

int harvest_finish(Harvest *harvest, uint64_t now_ns, HarvestEventFunc func, void *userdata, HarvestFound *found) {
        int r = 0;

        *found = (HarvestFound){ 0 };
        if (harvest->finished)
                return 0;
        add_new(harvest);
        if (harvest->dialect == STATION_DIALECT_UNKNOWN)
                find_dialect(harvest, now_ns);
        for (uint32_t i = 0; !r && i < harvest->n_seen && harvest->dialect != STATION_DIALECT_UNKNOWN; i++)
                r = visit(harvest, i, now_ns, func, userdata, found);
        for (uint32_t i = 0; i < harvest->n_seen && !region_is_cut(harvest->region); i++)
                station_finish(&harvest->region->stations[i], harvest->dialect, now_ns, &harvest->states[i]);
        harvest->finished = true;
        return r;
}

static void add_station(HarvestTotals *totals, const StationState *state) {
        totals->n_read += state->n_read;
        totals->n_lost += state->n_lost;
        totals->n_rejected += state->n_rejected;
        totals->n_skipped += state->n_skipped;
        totals->n_suspends += state->n_suspends;
        totals->n_resumes += state->n_resumes;
        totals->n_migrations += state->n_migrations;
        totals->n_lossy += state->n_lost > 0;
        totals->n_torn += state->torn;
        totals->n_corrupt += state->corrupt;
        totals->n_nameless += !state->birth_ns && state->next;
        totals->n_dead += state->dead;
        totals->n_never_ran += !state->next && !state->dead && !state->corrupt;
        totals->n_suspended += state->n_read && !state->active && !state->dead;
}

int harvest_totals(const Harvest *harvest, HarvestTotals *totals) {
        Hashmap probes = { 0 };
        int r = 0;

        *totals = (HarvestTotals){ .n_stations = harvest->n_seen, .n_without = harvest->n_without };
        for (uint32_t i = 0; !r && i < harvest->n_seen; i++) {
                const StationState *state = &harvest->states[i];

                add_station(totals, state);
                if (!state->probe_id)
                        continue;
                if (hashmap_get(&probes, state->probe_id))
                        totals->n_reused++;
                else
                        r = hashmap_put(&probes, state->probe_id, harvest->region);
        }
        hashmap_deinit(&probes);
        return r;
}

const char *station_dialect_text(StationDialect dialect) {
        static const char *const texts[] = { "none yet", "document", "seqlock" };

        return texts[dialect];
}

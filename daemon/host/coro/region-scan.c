/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Nothing tells which station has a new event. So a scan walks over one cache line of each living station,
 * the one in which its next event will come, and compares the seq there with the seq that the event will
 * have:
 *
 *      station   next   line (16 a station)        seq there   wanted      new?
 *            0     42   0 × 16 + 1 + 42 % 8 = 3           10       12      no
 *            1      8   1 × 16 + 1 +  8 % 8 = 17           4        4      yes: read until STATION_E_NONE
 *            7      0   7 × 16 + 1 +  0 % 8 = 113          0        2      no
 *
 * That takes 1 ns a station if the CPU may fetch the lines of a whole block of 32 at once. Written lines come
 * from the writer's cache, some 100 ns each, and are prefetched as well. One scan looks for dead stations in
 * a 64th of all; when the last event of a dead one has been read, the station is dropped from the walk.
 *
 * A coroutine that awaits things that are ready writes eight events, all that a station holds, in a quarter
 * of a microsecond: no scan comes back in time. So with `follow`, a scan stays at a station that alone has
 * news and whose last event is younger than 30 µs, up to 4,096 events. A writer whose lines are read at once
 * must fetch them again for the next lap, which slows it to the pace of its reader. After four waits in vain
 * (many coroutines with an event or two each) only one in 64 is made, until one is not in vain.
 */

#include "host/coro/region-scan.h"

#include <errno.h>
#include <stdlib.h>

#include "core/base/data/hashmap.h"
#include "core/base/util/clock.h"
#include "core/base/util/error.h"

enum {
        LINES = SPANPROF_STATION_SIZE / 64,     /* cache lines of a station */
        BLOCK = 32,                     /* stations that are looked at before the ready ones are read */
        LOOKS_PER_SCAN = 64,            /* scans until all stations were looked at for deaths */
        MAX_FOLLOWED = 4096,            /* events of one station, before the others are read */
        SPINS = 32,                     /* loads between looks at the clock, each some 15 ns */
        MAX_TRUST = 4,                  /* waits in vain until no other is made */
        TRIAL = 64,                     /* waits of which one is made all the same */
};

/* age of an event after which no other is awaited; its writer may be in the system call that wakes us */
#define FOLLOW_NS (30 * NS_PER_US)

int region_scan_init(RegionScan *scan, Region *region, StationDialect dialect, bool late) {
        *scan = (RegionScan){ .region = region,
                              .dialect = dialect,
                              .late = late };
        /* untouched zero pages: a large region that is little used costs little */
        scan->lines = calloc(region->n_stations, sizeof(*scan->lines));
        scan->wanted = calloc(region->n_stations, sizeof(*scan->wanted));
        scan->states = calloc(region->n_stations, sizeof(*scan->states));
        return scan->lines && scan->wanted && scan->states ? 0 : error_origin(-ENOMEM);
}

void region_scan_deinit(RegionScan *scan) {
        free(scan->lines);
        free(scan->wanted);
        free(scan->states);
        *scan = (RegionScan){ 0 };
}

static uint32_t index_at(const RegionScan *scan, uint32_t at) {
        return scan->lines[at] / LINES;
}

/* Sets the line and the seq of the next event. */
static void aim(RegionScan *scan, uint32_t at, uint32_t index) {
        uint64_t next = scan->states[index].next;

        scan->lines[at] = index * LINES + 1 + station_epoch_of(scan->dialect, next);
        scan->wanted[at] = station_seq_of(scan->dialect, next);
}

static void add_new(RegionScan *scan) {
        uint32_t n = region_allocated(scan->region, &scan->n_without);

        for (; scan->n_seen < n; scan->n_seen++)
                aim(scan, scan->n_alive++, scan->n_seen);
}

/* Begins with the events that are left, at stations that were in use before. */
static void begin(RegionScan *scan, uint64_t now_ns) {
        for (uint32_t i = 0; i < scan->n_seen && scan->late; i++)
                station_begin(&scan->region->stations[i], scan->dialect, now_ns, &scan->states[i]);
        for (uint32_t at = 0; at < scan->n_alive; at++)
                aim(scan, at, index_at(scan, at));
}

static void find_dialect(RegionScan *scan, uint64_t now_ns) {
        for (uint32_t i = 0; i < scan->n_seen; i++) {
                const struct spanprof_station *station = &scan->region->stations[i];
                StationDialect dialect = station_dialect(station);

                if (dialect == STATION_DIALECT_UNKNOWN || station_dialect(station) != dialect)
                        continue;
                scan->dialect = dialect;
                begin(scan, now_ns);
                break;
        }
}

static void relax(void) {
#if defined(__x86_64__)
        __builtin_ia32_pause();
#elif defined(__aarch64__)
        __asm__ volatile("isb" ::: "memory");
#endif
}

/*
 * Whether another event of the station is likely to come at once: it alone has news, the last are young, and
 * waits for others were worth it. @begin_ns: a time before now, which is enough to see that an event is old.
 */
static bool is_coming(RegionScan *scan, const StationState *state, uint64_t begin_ns) {
        if (!scan->follow || !scan->alone || !state->n_read)
                return false;
        if (begin_ns >= state->last_ns + FOLLOW_NS)
                return false;
        return scan->trust || ++scan->n_unawaited % TRIAL == 0;
}

/*
 * Waits for the next event of a station while the last one is young. A writer may date its events up to a
 * second ahead, so the wait has an end of its own. Return: whether it came.
 */
static bool await(RegionScan *scan, const struct spanprof_station *station, const StationState *state) {
        uint64_t now_ns, end_ns = 0;

        do {
                for (int i = 0; i < SPINS; i++) {
                        if (station_is_ready(station, scan->dialect, state->next)) {
                                scan->trust = MAX_TRUST;
                                return true;
                        }
                        relax();
                }
                now_ns = clock_monotonic_ns();
                if (!end_ns)
                        end_ns = MIN(state->last_ns, now_ns) + FOLLOW_NS;
        } while (now_ns < end_ns);
        scan->trust -= scan->trust > 0;
        return false;
}

/*
 * Reads the events of one station. Events of the future are nonsense, so the clock is read again here, and
 * after some events: a scan of a million stations lasts for seconds, and who takes the events may wait for a
 * disk.
 */
static int visit(RegionScan *scan, uint32_t index, RegionScanEventFunc func, void *userdata,
                 RegionScanFound *found) {
        const struct spanprof_station *station = &scan->region->stations[index];
        StationState *state = &scan->states[index];
        uint64_t before = state->next, n_lost = state->n_lost;
        CoroEvent event = { .station = index, .pid = scan->pid };
        /* a writer that never stops must not hold up the scan */
        unsigned n = 0, max = SPANPROF_STATION_EPOCHS;
        uint64_t now_ns = 0;
        StationRing ring;
        int r, result = 0;

        ring.filled = false;
        while (n < max && !result) {
                if (n % SPANPROF_STATION_EPOCHS == 0)
                        now_ns = clock_monotonic_ns();
                r = station_next(station, scan->dialect, now_ns, state, &ring, &event);
                if (!r) {
                        found->n_events++;
                        result = func(userdata, &event);
                } else if (r == STATION_E_CORRUPT ||
                           (r == STATION_E_NONE &&
                            (!is_coming(scan, state, now_ns) || !await(scan, station, state)))) {
                        break;
                }
                if (++n == max && scan->follow)
                        max = MAX_FOLLOWED;
        }
        found->n_lost += state->n_lost - n_lost;
        found->n_most = MAX(found->n_most, (uint32_t)MIN(state->next - before, UINT32_MAX));
        scan->depth = MIN(n, SPANPROF_STATION_EPOCHS - 1);
        return result;
}

/* Looks for deaths among @n stations, and drops the dead ones whose last event has been read. */
static void bury(RegionScan *scan, uint32_t n) {
        for (; n && scan->n_alive; n--) {
                uint32_t at = scan->look_at < scan->n_alive ? scan->look_at : 0, index = index_at(scan, at);
                const struct spanprof_station *station = &scan->region->stations[index];
                StationState *state = &scan->states[index];

                station_look(station, state);
                scan->look_at = at + 1;
                if (!state->corrupt &&
                    (!state->dead || station_is_ready(station, scan->dialect, state->next)))
                        continue;
                scan->n_alive--;
                scan->lines[at] = scan->lines[scan->n_alive];
                scan->wanted[at] = scan->wanted[scan->n_alive];
                scan->look_at = at;
        }
}

/* Finds the stations of a block that have a new event, without a branch for each. */
static unsigned look(const RegionScan *scan, uint32_t begin, uint32_t end, uint32_t *news) {
        const struct spanprof_epoch *lines = (const struct spanprof_epoch *)scan->region->stations;
        unsigned n = 0;

        for (uint32_t at = begin; at < end; at++) {
                news[n] = at;
                n += __atomic_load_n(&lines[scan->lines[at]].seq, __ATOMIC_RELAXED) >= scan->wanted[at];
        }
        __atomic_thread_fence(__ATOMIC_ACQUIRE);
        return n;
}

/* Prefetches the lines that reading a station will touch. */
static void prefetch(const RegionScan *scan, uint32_t at) {
        uint32_t index = index_at(scan, at), first = (scan->lines[at] - 1) % LINES;
        const struct spanprof_station *station = &scan->region->stations[index];
        const char *state = (const char *)&scan->states[index];

        for (uint32_t i = 1; i <= scan->depth; i++)
                __builtin_prefetch(&station->epochs[(first + i) % SPANPROF_STATION_EPOCHS]);
        for (size_t i = 0; i < sizeof(StationState); i += 64)
                __builtin_prefetch(state + i);
}

static int scan_alive(RegionScan *scan, RegionScanEventFunc func, void *userdata, RegionScanFound *found) {
        const struct spanprof_epoch *lines = (const struct spanprof_epoch *)scan->region->stations;

        for (uint32_t begin = 0; begin < scan->n_alive; begin += BLOCK) {
                uint32_t news[BLOCK], end = MIN(begin + BLOCK, scan->n_alive);
                unsigned n = look(scan, begin, end, news);

                scan->alone = n == 1 && !found->n_events;
                for (unsigned i = 0; i < n; i++)
                        prefetch(scan, news[i]);
                for (uint32_t at = end; n && at < MIN(end + BLOCK, scan->n_alive); at++)
                        __builtin_prefetch(&lines[scan->lines[at]].seq);
                for (unsigned i = 0; i < n; i++) {
                        uint32_t index = index_at(scan, news[i]);
                        int r = visit(scan, index, func, userdata, found);

                        aim(scan, news[i], index);
                        if (r)
                                return r;
                }
        }
        return 0;
}

int region_scan_run(RegionScan *scan, uint64_t now_ns, RegionScanEventFunc func, void *userdata,
                    RegionScanFound *found) {
        int r;

        *found = (RegionScanFound){ 0 };
        if (scan->finished)
                return 0;
        add_new(scan);
        if (scan->dialect == STATION_DIALECT_UNKNOWN)
                find_dialect(scan, now_ns);
        if (scan->dialect == STATION_DIALECT_UNKNOWN)
                return 0;
        r = scan_alive(scan, func, userdata, found);
        bury(scan, scan->n_alive / LOOKS_PER_SCAN + 1);
        scan->finished = region_is_cut(scan->region);     /* later loads would be zeros */
        return r;
}

int region_scan_finish(RegionScan *scan, uint64_t now_ns, RegionScanEventFunc func, void *userdata,
                       RegionScanFound *found) {
        int r = 0;

        *found = (RegionScanFound){ 0 };
        if (scan->finished)
                return 0;
        add_new(scan);
        if (scan->dialect == STATION_DIALECT_UNKNOWN)
                find_dialect(scan, now_ns);
        for (uint32_t i = 0; !r && i < scan->n_seen && scan->dialect != STATION_DIALECT_UNKNOWN; i++)
                r = visit(scan, i, func, userdata, found);
        for (uint32_t i = 0; i < scan->n_seen && !region_is_cut(scan->region); i++)
                station_finish(&scan->region->stations[i], scan->dialect, now_ns, &scan->states[i]);
        scan->finished = true;
        return r;
}

static void add_station(RegionScanTotals *totals, const StationState *state) {
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

int region_scan_totals(const RegionScan *scan, RegionScanTotals *totals) {
        Hashmap probes = { 0 };
        int r = 0;

        *totals = (RegionScanTotals){ .n_stations = scan->n_seen, .n_without = scan->n_without };
        for (uint32_t i = 0; !r && i < scan->n_seen; i++) {
                const StationState *state = &scan->states[i];

                add_station(totals, state);
                if (!state->probe_id)
                        continue;
                if (hashmap_get(&probes, state->probe_id))
                        totals->n_reused++;
                else
                        r = hashmap_put(&probes, state->probe_id, scan->region);
        }
        hashmap_deinit(&probes);
        return r;
}

const char *station_dialect_text(StationDialect dialect) {
        static const char *const texts[] = { "", " (document dialect)", " (seqlock dialect)" };

        return texts[dialect];
}

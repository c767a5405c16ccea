/* SPDX-License-Identifier: Apache-2.0 */

/*
 * A window ends at 1000. Station 3 suspends at address A and resumes in the next window; events of station 4
 * are lost:
 *
 *      station 3   suspend A at 600                          window 1: A, 400 ns (600 to 1000)
 *                  resume at 1300                            window 2: A, 300 ns (1000 to 1300)
 *      station 4   suspend B at 700                          window 1: B, 300 ns (700 to 1000)
 *                  resume at 1900, 2 events lost before it   window 2: nothing: when it ended is unknown
 *
 * So what is still suspended when sums are taken counts until then, and goes on from there. After a loss or a
 * death nothing more is counted than what was seen. A resume may be published late, with a time before the
 * last window's end: the excess is a debt of the station and is taken off its next stretches.
 *
 * Sums are kept by station and address for 8,192 pairs, then by address alone for 1,024, then as one sum: a
 * program with many coroutines costs a bounded part of a window, and no time is left out.
 */

#include "host/coro/suspended.h"

#include <errno.h>
#include <stdlib.h>

#include "core/base/util/array.h"
#include "core/base/util/error.h"
#include "core/base/util/macro.h"

/* Compared as bytes: no implicit padding. */
typedef struct SuspendedKey {
        uint64_t address;
        uint32_t station;
        uint32_t kind;                  /* KEY_* */
} SuspendedKey;

enum { KEY_NAMED, KEY_ADDRESS, KEY_REST };

int suspended_init(Suspended *suspended, uint32_t n_stations, uint64_t begin_ns) {
        *suspended = (Suspended){ .n_stations = n_stations, .begin_ns = begin_ns };
        intern_init(&suspended->keys, SUSPENDED_MAX_NAMED + SUSPENDED_MAX_ADDRESSES + 1);
        suspended->stations = calloc(n_stations, sizeof(*suspended->stations));
        return suspended->stations ? 0 : error_origin(-ENOMEM);
}

void suspended_deinit(Suspended *suspended) {
        intern_deinit(&suspended->keys);
        free(suspended->stations);
        free(suspended->sums);
        *suspended = (Suspended){ 0 };
}

/* Each of the three kinds has its part of the table. */
static bool has_room(const Suspended *suspended, int kind) {
        static const uint32_t limits[] = { SUSPENDED_MAX_NAMED, SUSPENDED_MAX_NAMED + SUSPENDED_MAX_ADDRESSES,
                                           UINT32_MAX };

        return suspended->keys.n_items < limits[kind];
}

/* *sump: valid until the next call. */
static int find_sum(Suspended *suspended, uint32_t station, uint64_t address, SuspendedSum **sump) {
        SuspendedKey keys[] = { { address, station, KEY_NAMED },
                                { address, SUSPENDED_ANY_STATION, KEY_ADDRESS },
                                { 0, SUSPENDED_ANY_STATION, KEY_REST } };

        for (int kind = KEY_NAMED;; kind++) {
                const SuspendedKey *key = &keys[kind];
                uint32_t number;
                int r = 0;

                if (intern_find(&suspended->keys, key, sizeof(*key), &number)) {
                        if (!has_room(suspended, kind))
                                continue;
                        r = array_reserve(&suspended->sums, &suspended->sums_size,
                                          suspended->keys.n_items + 1u, 64);
                        if (!r)
                                r = intern_add(&suspended->keys, key, sizeof(*key), &number);
                        if (r)
                                return error_fold(r);
                        suspended->sums[number] = (SuspendedSum){ .station = key->station,
                                                                  .address = key->address };
                }
                suspended->n_folded += kind != KEY_NAMED;
                *sump = &suspended->sums[number];
                return 0;
        }
}

/* Counts the stretch from since_ns to @end_ns. */
static int count(Suspended *suspended, uint32_t index, uint64_t end_ns) {
        SuspendedStation *station = &suspended->stations[index];
        uint64_t value_ns = end_ns - MIN(end_ns, station->since_ns),
                 paid_ns = MIN(value_ns, station->debt_ns);
        SuspendedSum *sum = NULL;
        int r;

        if (end_ns < station->since_ns)
                station->debt_ns += station->since_ns - end_ns;
        station->debt_ns -= paid_ns;
        value_ns -= paid_ns;
        if (!value_ns)
                return 0;
        r = find_sum(suspended, index, station->address, &sum);
        if (r)
                return r;
        sum->value_ns += value_ns;
        sum->time_ns = MAX(sum->time_ns, end_ns);
        return 0;
}

int suspended_event(Suspended *suspended, const CoroEvent *event) {
        SuspendedStation *station;
        bool follows;
        int r = 0;

        if (event->station >= suspended->n_stations)
                return 0;
        station = &suspended->stations[event->station];
        follows = event->number == station->next && !event->n_lost;
        station->next = event->number + 1;
        if (station->since_ns && follows) {
                suspended->n_whole++;
                r = count(suspended, event->station, MAX(event->time_ns, suspended->begin_ns));
        } else if (station->since_ns) {
                suspended->n_unknown++;
        }
        station->since_ns = event->active ? 0 : MAX(event->time_ns, suspended->begin_ns);
        station->address = event->active ? 0 : event->address;
        return r;
}

void suspended_died(Suspended *suspended, uint32_t station) {
        suspended->n_unknown += suspended_is_open(suspended, station);
        suspended->stations[station].since_ns = 0;
}

int suspended_count_open(Suspended *suspended, uint32_t station, uint64_t now_ns) {
        uint64_t since_ns = suspended->stations[station].since_ns;
        int r;

        if (!since_ns || since_ns >= now_ns)
                return 0;
        r = count(suspended, station, now_ns);
        suspended->stations[station].since_ns = now_ns;
        return r;
}

int suspended_take(Suspended *suspended, SuspendedFunc func, void *userdata) {
        int r = 0;

        for (uint32_t i = 0; i < suspended->keys.n_items && func && !r; i++)
                r = func(userdata, &suspended->sums[i]);
        intern_reset(&suspended->keys);
        return r;
}

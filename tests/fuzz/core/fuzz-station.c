/* SPDX-License-Identifier: Apache-2.0 */
#include <stdlib.h>
#include <string.h>

#include "core/coro/station-read.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define NOW UINT64_C(1000000000000)

/*
 * Input: one byte of how (bit 0: dialect, bit 1: come late), then the station's bytes as they are at the
 * first look, then patches: two bytes where, eight bytes what, one look after each.
 */
static void look(const struct spanprof_station *station, StationDialect dialect, StationState *state) {
        uint64_t before = state->next;
        StationRing ring = { 0 };
        CoroEvent event;

        for (int i = 0; i < 100; i++) {
                int r = station_next(station, dialect, NOW, state, &ring, &event);

                if (r == STATION_E_NONE || r == STATION_E_CORRUPT)
                        break;
                if (!r &&
                    (event.number < before || !event.tid || event.tid > 1 << 22 ||
                     event.time_ns >= NOW + 1000000000))
                        abort();
                before = state->next;
        }
        if (!state->corrupt &&
            state->next != state->n_skipped + state->n_read + state->n_lost + state->n_rejected)
                abort();
        if (state->n_lost > NOW)
                abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
        static struct spanprof_station station __attribute__((aligned(1024)));
        StationState state = { 0 };
        StationDialect dialect;

        if (!size)
                return 0;
        dialect = *data & 1 ? STATION_DIALECT_DOCUMENT : STATION_DIALECT_SEQLOCK;
        memset(&station, 0, sizeof(station));
        memcpy(&station, data + 1, size - 1 < sizeof(station) ? size - 1 : sizeof(station));
        station_dialect(&station);
        if (*data & 2)
                station_begin(&station, dialect, NOW, &state);
        look(&station, dialect, &state);
        for (size_t at = 1 + sizeof(station); at + 10 <= size; at += 10) {
                size_t where = (data[at] | data[at + 1] << 8) % (sizeof(station) - 7);

                memcpy((uint8_t *)&station + where, data + at + 2, 8);
                look(&station, dialect, &state);
        }
        station_finish(&station, dialect, NOW, &state);
        return 0;
}

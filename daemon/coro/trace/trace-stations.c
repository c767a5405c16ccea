/* SPDX-License-Identifier: Apache-2.0 */
#include "coro/trace/trace-stations.h"

#include <string.h>

#include "coro/trace/side-file.h"
#include "coro/trace/trace-db.h"

enum {
        N_COLUMNS = 19, N_ALWAYS = 15,
        ADDRESS_COLUMN = 13, FRAME_COLUMN = 17, CODE_COLUMN = 18,
};

int trace_station_parse(const char *line, size_t size, TraceStationEnd *endp) {
        const char *end = line + size;
        uint64_t cells[N_COLUMNS] = { 0 };

        if (size && end[-1] == '\r')
                end--;
        for (int i = 0; i < N_COLUMNS; i++) {
                const char *comma = memchr(line, ',', (size_t)(end - line)), *stop = comma ? comma : end;
                bool may_end = i >= N_ALWAYS - 1, must_end = i == N_COLUMNS - 1;
                bool hex = i == ADDRESS_COLUMN || i == FRAME_COLUMN || i == CODE_COLUMN;

                if ((comma ? must_end : !may_end) ||
                    !side_file_number(line, (size_t)(stop - line), hex, &cells[i]))
                        return TRACE_STATIONS_E_MALFORMED;
                if (!comma)
                        break;
                line = stop + 1;
        }
        *endp = (TraceStationEnd){ .pid = cells[0],
                                   .station = cells[1],
                                   .probe_id = cells[2],
                                   .birth_ns = cells[3],
                                   .dead = cells[4],
                                   .torn = cells[5],
                                   .corrupt = cells[6],
                                   .n_read = cells[7],
                                   .n_lost = cells[8],
                                   .n_rejected = cells[9],
                                   .n_skipped = cells[10],
                                   .last_ns = cells[11],
                                   .last_tid = cells[12],
                                   .last_address = cells[13],
                                   .active = cells[14],
                                   .until_ns = cells[15],
                                   .code = {
                                           .process = cells[16], .frame = cells[17], .address = cells[18] } };
        return 0;
}

typedef struct Reading {
        TraceStationFunc func;
        void *userdata;
        uint64_t *n_malformedp;
} Reading;

static int take_line(void *userdata, const char *line, size_t size) {
        Reading *reading = userdata;
        TraceStationEnd end;

        if (trace_station_parse(line, size, &end)) {
                ++*reading->n_malformedp;
                return 0;
        }
        return reading->func(reading->userdata, &end);
}

int trace_stations_read(const char *path, TraceForm form, TraceStationFunc func, void *userdata,
                        uint64_t *n_malformedp) {
        Reading reading = { func, userdata, n_malformedp };
        int r = form == TRACE_SQLITE ? trace_db_read_stations(path, take_line, &reading)
                                     : side_file_read(path, SIDE_FILE_STATIONS, take_line, &reading);

        return r == SIDE_FILE_E_NONE ? TRACE_STATIONS_E_NONE : r;
}

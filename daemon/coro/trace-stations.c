/* SPDX-License-Identifier: Apache-2.0 */
#include "coro/trace-stations.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "coro/trace-db.h"
#include "util/error.h"
#include "util/text.h"

enum { MAX_LINE = 1024, N_COLUMNS = 16, ADDRESS_COLUMN = 13 };

static bool read_cell(const char *text, size_t size, bool hex, uint64_t *valuep) {
        char copy[24];

        if (!size || size >= sizeof(copy))
                return false;
        memcpy(copy, text, size);
        copy[size] = 0;
        if (!hex)
                return !text_u64(copy, UINT64_MAX, valuep);
        return size > 2 && copy[0] == '0' && copy[1] == 'x' && !text_hex(copy + 2, copy + size, valuep);
}

int trace_station_parse(const char *line, size_t size, TraceStationEnd *endp) {
        const char *end = line + size;
        uint64_t cells[N_COLUMNS] = { 0 };

        if (size && end[-1] == '\r')
                end--;
        for (int i = 0; i < N_COLUMNS; i++) {
                const char *comma = memchr(line, ',', (size_t)(end - line)), *stop = comma ? comma : end;
                bool may_end = i >= N_COLUMNS - 2, must_end = i == N_COLUMNS - 1;

                if ((comma ? must_end : !may_end) || !read_cell(line, (size_t)(stop - line), i == ADDRESS_COLUMN, &cells[i]))
                        return TRACE_STATIONS_E_MALFORMED;
                if (!comma)
                        break;
                line = stop + 1;
        }
        *endp = (TraceStationEnd){ .pid = cells[0], .station = cells[1], .probe_id = cells[2], .birth_ns = cells[3],
                                   .dead = cells[4], .torn = cells[5], .corrupt = cells[6], .n_read = cells[7],
                                   .n_lost = cells[8], .n_rejected = cells[9], .n_skipped = cells[10], .last_ns = cells[11],
                                   .last_tid = cells[12], .last_address = cells[13], .active = cells[14],
                                   .until_ns = cells[15] };
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

static int read_file(const char *path, Reading *reading) {
        const char *dot = strrchr(path, '.');
        _cleanup_(freep) char *name = NULL;
        char line[MAX_LINE];
        bool first = true;
        FILE *file;
        int r = 0;

        if (!dot)
                return TRACE_STATIONS_E_NONE;
        if (asprintf(&name, "%.*s.stations.csv", (int)(dot - path), path) < 0) {
                name = NULL;
                return error_origin(-ENOMEM);
        }
        file = fopen(name, "re");
        if (!file)
                return TRACE_STATIONS_E_NONE;
        while (!r && fgets(line, sizeof(line), file)) {
                size_t size = strcspn(line, "\n");

                if (!first)
                        r = take_line(reading, line, size);
                first = false;
        }
        fclose(file);
        return r;
}

int trace_stations_read(const char *path, TraceForm form, TraceStationFunc func, void *userdata, uint64_t *n_malformedp) {
        Reading reading = { func, userdata, n_malformedp };

        return form == TRACE_SQLITE ? trace_db_read_stations(path, take_line, &reading) : read_file(path, &reading);
}

/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Turns a row of columns into an event, a station or a mapping, and counts rows that are none of these.
 */

#include "desk/coro/trace/trace-read.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "core/base/util/error.h"

enum { READ_SIZE = 1 << 20 };

static int take_station(const TraceTakers *to, const TraceRow *row, bool *goodp) {
        TraceStationEnd end;

        *goodp = !trace_row_station(row, &end);
        return *goodp ? to->station(to->userdata, &end) : 0;
}

static int take_mapping(const TraceTakers *to, const TraceRow *row, bool *goodp) {
        TraceMappingTexts texts;
        TraceMapping mapping;

        *goodp = *goodp && !trace_row_mapping(row, &texts, &mapping);
        return *goodp ? to->mapping(to->userdata, &mapping) : 0;
}

int trace_take_row(const TraceTakers *to, const TraceRow *row, TraceReadCounts *counts) {
        bool stations = row->table == TRACE_TABLE_STATIONS,
             good = counts->n_rows[row->table] < TRACE_MAX_MAPPINGS;
        int r;

        if (stations ? !to->station : !to->mapping)
                return 0;
        r = stations ? take_station(to, row, &good) : take_mapping(to, row, &good);
        counts->n_rows[row->table] += good;
        counts->n_malformed_rows[row->table] += !good;
        return r;
}

/* A line longer than TRACE_ROW_LINE, which no writer of ours makes, loses its end and is malformed. */
int trace_take_row_line(const TraceTakers *to, const char *line, size_t size, TraceReadCounts *counts) {
        char room[TRACE_ROW_LINE];
        TraceRow row = { 0 };

        if (!to->station && !to->mapping)
                return 0;
        if (!trace_row_parse(line, MIN(size, sizeof(room)), room, &row))
                return trace_take_row(to, &row, counts);
        counts->n_malformed_rows[row.table]++;
        return 0;
}

static void tell(Text *problem, uint64_t n, const char *what) {
        if (n)
                text_printf(problem, "%s%" PRIu64 " %s", problem->size ? "; " : "", n, what);
}

bool trace_read_tell(const TraceReadCounts *counts, Text *problem) {
        uint64_t n_stations = counts->n_malformed_rows[TRACE_TABLE_STATIONS],
                 n_mappings = counts->n_malformed_rows[TRACE_TABLE_MAPPINGS];

        tell(problem, counts->n_malformed,
             counts->cut ? "lines are no events and were left out, of which the last one is cut"
                         : "lines are no events and were left out");
        tell(problem, n_stations, "of its stations are malformed and were left out");
        tell(problem, n_mappings, "of its mappings are malformed and were left out");
        return counts->n_malformed || n_stations || n_mappings;
}

bool trace_mentions_payload(const char *path) {
        static const char word[] = "payload";
        _cleanup_(closep) int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
        static char buffer[READ_SIZE];
        size_t kept = 0;
        ssize_t n;

        if (fd < 0)
                return false;
        while ((n = read(fd, buffer + kept, READ_SIZE - kept)) > 0) {
                size_t size = kept + (size_t)n;

                if (memmem(buffer, size, word, sizeof(word) - 1))
                        return true;
                kept = MIN(size, sizeof(word) - 2);     /* the word may lie across the border */
                memmove(buffer, buffer + size - kept, kept);
        }
        return false;
}

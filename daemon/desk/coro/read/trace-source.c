/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Recognises the form of a trace by its first bytes, and gives its lines or rows to the reader of that
 * form. A line without an end is held back until another one shows that it was whole.
 */

#include "desk/coro/read/trace-source.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "core/base/util/error.h"
#include "core/base/util/log.h"
#include "desk/coro/trace/trace-db.h"

static const char json[] = "{\"probe_id\":", csv[] = "probe_id,tid,", sqlite[] = "SQLite format 3";

typedef struct Reading {
        const TraceTakers *to;
        TraceReadCounts *counts;
        TraceColumns columns;           /* n = 0: JSON lines */
        uint64_t n_lines;
        bool hold;                      /* the last line has no end: each waits until there is another one */
        bool held;
        CoroEvent event;
} Reading;

static bool begins(const uint8_t *data, size_t size, const char *with) {
        return size >= strlen(with) && !memcmp(data, with, strlen(with));
}

/* Both writers of this form begin with the probe id; a trace without an event has rows alone. */
bool trace_source_recognize(const uint8_t *data, size_t size) {
        return begins(data, size, json) || begins(data, size, csv) || begins(data, size, sqlite) ||
               trace_is_row((const char *)data, size);
}

static TraceForm form_of(const Source *source) {
        uint8_t head[16];
        size_t size = source_read(source, head, sizeof(head), 0);

        return begins(head, size, sqlite) ? TRACE_SQLITE : begins(head, size, csv) ? TRACE_CSV : TRACE_JSONL;
}

static int give(Reading *reading, const CoroEvent *event) {
        reading->counts->n_events++;
        return reading->to->event(reading->to->userdata, event);
}

static int give_held(Reading *reading) {
        bool held = reading->held;

        reading->held = false;
        return held ? give(reading, &reading->event) : 0;
}

static int take_line(void *userdata, const char *line, size_t size) {
        Reading *reading = userdata;
        CoroEvent event;
        bool bad;
        int r;

        if (!size || (size == 1 && *line == '\r'))
                return 0;
        if (trace_is_row(line, size))
                return trace_take_row_line(reading->to, line, size, reading->counts);
        if (!reading->to->event)
                return 0;
        if (!reading->n_lines++ && !trace_parse_csv_header(line, size, &reading->columns))
                return 0;
        if (reading->n_lines == 1)
                reading->columns.n = 0;
        bad = reading->columns.n ? trace_parse_csv(&reading->columns, line, size, &event)
                                 : trace_parse_jsonl(line, size, &event);
        r = give_held(reading);
        if (bad)
                reading->counts->n_malformed++;
        if (r || bad)
                return r;
        if (!reading->hold)
                return give(reading, &event);
        reading->event = event;
        reading->held = true;
        return 0;
}

/*
 * Whether the last line may be cut: a number at the end of CSV may have lost digits. JSON shows a cut by its
 * missing brace.
 */
static bool is_cut(const Source *source) {
        char last = '\n';

        return form_of(source) == TRACE_CSV && source->size &&
                source_read(source, &last, 1, source->size - 1) == 1 && last != '\n';
}

static int read_lines(const Source *source, Reading *reading) {
        int r;

        reading->hold = is_cut(source);
        r = source_lines(source, take_line, reading);
        if (!r && reading->held) {
                reading->counts->n_malformed++;
                reading->counts->cut = true;
        }
        return r;
}

static int read_database(const Source *source, const Reading *reading, Text *problem) {
        int r;

        if (source->fd < 0 || source->size != source->packed_size ||
            !strcmp(source->name, "standard input")) {
                text_printf(problem, "is a database, which can be read from a file alone, and not packed");
                return TRACE_SOURCE_E_UNREADABLE;
        }
        r = trace_db_read(source->name, reading->to, reading->counts);
        if (r != TRACE_E_FAILED)
                return r;
        text_printf(problem, "cannot be read as a database to its end");
        return TRACE_SOURCE_E_UNREADABLE;
}

/* Version 0.1 kept the rows of t.jsonl in t.stations.csv. */
static int warn_of_old(const Source *source) {
        const char *dot = strrchr(source->name, '.');
        _cleanup_(freep) char *beside = NULL;

        if (!dot || strchr(dot, '/'))
                return 0;
        if (asprintf(&beside, "%.*s.stations.csv", (int)(dot - source->name), source->name) < 0) {
                beside = NULL;
                return error_origin(-ENOMEM);
        }
        if (!access(beside, F_OK))
                log_warning("%s: %s, which an older version left beside it, is read no more, so that states and names are missing: record again, or use that version",
                            source->name, beside);
        return 0;
}

int trace_source_read(const Source *source, const TraceTakers *to, TraceReadCounts *counts, Text *problem) {
        Reading reading = { .to = to, .counts = counts };
        int r;

        *counts = (TraceReadCounts){ 0 };
        if (form_of(source) == TRACE_SQLITE)
                return read_database(source, &reading, problem);
        r = read_lines(source, &reading);
        return !r && to->station && !counts->n_rows[TRACE_TABLE_STATIONS] ? warn_of_old(source) : r;
}

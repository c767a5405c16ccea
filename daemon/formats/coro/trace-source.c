/* SPDX-License-Identifier: Apache-2.0 */
#include "formats/coro/trace-source.h"

#include <errno.h>
#include <string.h>

static const char json[] = "{\"probe_id\":", csv[] = "probe_id,tid,", sqlite[] = "SQLite format 3";

typedef struct Reading {
        TraceEventFunc func;
        void *userdata;
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

/* Both writers of this form begin with the probe id. */
bool trace_source_recognize(const uint8_t *data, size_t size) {
        return begins(data, size, json) || begins(data, size, csv) || begins(data, size, sqlite);
}

TraceForm trace_source_form(const Source *source) {
        uint8_t head[16];
        size_t size = source_read(source, head, sizeof(head), 0);

        return begins(head, size, sqlite) ? TRACE_SQLITE : begins(head, size, csv) ? TRACE_CSV : TRACE_JSONL;
}

static int give(Reading *reading, const CoroEvent *event) {
        reading->counts->n_events++;
        return reading->func(reading->userdata, event);
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
 * Of JSON it can be seen whether something is missing at the end of a line; a number of CSV may just have
 * lost digits.
 */
static bool is_cut(const Source *source) {
        char last = '\n';

        return trace_source_form(source) == TRACE_CSV && source->size &&
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

static int read_database(const Source *source, Reading *reading, Text *problem) {
        int r;

        if (source->fd < 0 || source->size != source->packed_size ||
            !strcmp(source->name, "standard input")) {
                text_printf(problem, "is a database, which can be read from a file alone, and not packed");
                return TRACE_SOURCE_E_UNREADABLE;
        }
        r = trace_read(source->name, TRACE_SQLITE, reading->func, reading->userdata, reading->counts);
        if (r != TRACE_E_FAILED)
                return r;
        text_printf(problem, "cannot be read as a database to its end");
        return TRACE_SOURCE_E_UNREADABLE;
}

int trace_source_read(const Source *source, TraceEventFunc func, void *userdata, TraceReadCounts *counts,
                      Text *problem) {
        Reading reading = { .func = func, .userdata = userdata, .counts = counts };

        *counts = (TraceReadCounts){ 0 };
        if (trace_source_form(source) == TRACE_SQLITE)
                return read_database(source, &reading, problem);
        return read_lines(source, &reading);
}

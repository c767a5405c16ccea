/* SPDX-License-Identifier: Apache-2.0 */
#include <stdlib.h>
#include <string.h>

#include "core/base/util/text.h"
#include "desk/coro/trace/trace-line.h"
#include "desk/coro/trace/trace-rows.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* What is accepted must come back the same from what we print of it. */
static void check(const CoroEvent *event) {
        char line[TRACE_LINE_MAX], again[TRACE_LINE_MAX];
        CoroEvent back;
        size_t n = trace_print_jsonl(line, event, true, &(TraceParts){ 0 }), m;

        if (n > sizeof(line) || trace_parse_jsonl(line, n - 1, &back))
                abort();
        m = trace_print_jsonl(again, &back, true, &(TraceParts){ 0 });
        if (m != n || memcmp(line, again, n))
                abort();
}

/* The row of a line, parsed beside a room that is as large as it must be. */
static int parse(const char *at, size_t size, char **roomp, TraceRow *row) {
        *roomp = malloc(size);
        return trace_row_parse(at, size, *roomp, row);
}

static void check_mapping(const TraceRow *row) {
        static TraceMappingTexts texts, back_texts;
        static char line[TRACE_ROW_LINE], again[TRACE_ROW_LINE];
        TraceMapping mapping, back;
        TraceRow back_row;
        char *room;
        size_t n;

        /* bytes that are no UTF-8 are not printed as they are */
        if (trace_row_mapping(row, &texts, &mapping) || !text_is_utf8(mapping.path, strlen(mapping.path)))
                return;
        n = trace_mapping_print(line, &mapping);
        if (!n || n > sizeof(line) || !trace_is_row(line, n) || parse(line, n - 1, &room, &back_row) ||
            trace_row_mapping(&back_row, &back_texts, &back) || trace_mapping_print(again, &back) != n ||
            memcmp(line, again, n))
                abort();
        free(room);
}

static void check_row(const char *at, size_t size) {
        TraceRow row;
        char *room;

        if (!parse(at, size, &room, &row)) {
                check_mapping(&row);
                trace_row_station(&row, &(TraceStationEnd){ 0 });
        }
        free(room);
}

/* Input: lines. Each as JSON, as CSV under the first, and as a row. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
        TraceColumns columns = { 0 };
        const char *at = (const char *)data, *end = at + size;
        bool first = true;

        while (at < end) {
                const char *newline = memchr(at, '\n', (size_t)(end - at));
                size_t n = (size_t)((newline ? newline : end) - at);
                CoroEvent event;

                check_row(at, n);
                if (!trace_parse_jsonl(at, n, &event))
                        check(&event);
                if (first && n && trace_parse_csv_header(at, n, &columns))
                        columns.n = 0;
                else if (!first && columns.n && !trace_parse_csv(&columns, at, n, &event))
                        check(&event);
                first = false;
                at += n + 1;
        }
        return 0;
}

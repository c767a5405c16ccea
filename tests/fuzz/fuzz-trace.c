/* SPDX-License-Identifier: Apache-2.0 */
#include <stdlib.h>
#include <string.h>

#include "coro/trace/trace-line.h"
#include "coro/trace/trace-rows.h"

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

static void check_mapping(const char *at, size_t size) {
        static TraceMappingTexts texts, back_texts;
        static char line[TRACE_MAPPING_LINE], again[TRACE_MAPPING_LINE];
        TraceMapping mapping, back;
        size_t n;

        if (trace_mapping_parse(at, size, &texts, &mapping))
                return;
        n = trace_mapping_print(line, &mapping);
        if (!n || n > sizeof(line) || trace_mapping_parse(line, n - 1, &back_texts, &back) ||
            trace_mapping_print(again, &back) != n || memcmp(line, again, n))
                abort();
}

/* Input: lines. Each as JSON, as CSV under the first, and as what stands beside a trace. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
        TraceColumns columns = { 0 };
        const char *at = (const char *)data, *end = at + size;
        bool first = true;

        while (at < end) {
                const char *newline = memchr(at, '\n', (size_t)(end - at));
                size_t n = (size_t)((newline ? newline : end) - at);
                CoroEvent event;

                check_mapping(at, n);
                trace_station_parse(at, n, &(TraceStationEnd){ 0 });
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

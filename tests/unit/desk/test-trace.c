/* SPDX-License-Identifier: Apache-2.0 */
#include <criterion/criterion.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>

#include "core/base/file/outfile.h"
#include "desk/coro/read/trace-source.h"
#include "desk/coro/trace/trace-read.h"
#include "desk/coro/trace/trace-writer.h"

static CoroEvent sample(void) {
        CoroEvent event = {
                .probe_id = 140737488346032,
                .tid = 4711,
                .address = 0x55D0ABC0,
                .seq = 6,
                .active = false,
                .time_ns = 987654321012,
                .station = 12,
                .number = 17,
                .birth_ns = 987000000000,
                .n_lost = 3,
        };

        return event;
}

/* The form of coroTracer's fixture: key order, 16 digits, no blanks. */
Test(trace, prints_lines_as_their_users_know_them) {
        CoroEvent event = sample();
        char line[TRACE_LINE_MAX + 1] = { 0 };

        trace_print_jsonl(line, &event, false, &(TraceParts){ 0 });
        cr_expect_str_eq(
                line,
                "{\"probe_id\":140737488346032,\"tid\":4711,\"addr\":\"0x0000000055d0abc0\",\"seq\":6,"
                "\"is_active\":false,\"ts\":987654321012}\n");
        memset(line, 0, sizeof(line));
        trace_print_csv(line, &event, false, &(TraceParts){ 0 });
        cr_expect_str_eq(line, "140737488346032,4711,0x0000000055d0abc0,6,false,987654321012\n");
        cr_expect_str_eq(trace_csv_header(false), "probe_id,tid,addr,seq,is_active,ts\n");
}

Test(trace, adds_what_else_is_known_behind_that) {
        CoroEvent event = sample();
        char line[TRACE_LINE_MAX + 1] = { 0 };

        event.active = true;
        event.has_payload = true;
        memcpy(event.payload, "\x01\xff", 2);
        trace_print_jsonl(line, &event, true, &(TraceParts){ 0 });
        cr_expect_not_null(strstr(
                line,
                "\"is_active\":true,\"ts\":987654321012,\"station\":12,\"event\":17,\"birth\":987000000000,"
                "\"lost\":3,\"payload\":\"01ff0000000000000000000000000000000000000000000000000000000000\"}\n"));
        memset(line, 0, sizeof(line));
        trace_print_jsonl(line, &event, false, &(TraceParts){ 0 });
        cr_expect_not_null(strstr(line, ",\"ts\":987654321012,\"payload\":\"01ff0"));
}

Test(trace, has_room_for_the_longest_line) {
        CoroEvent event;
        char line[TRACE_LINE_MAX];

        memset(&event, 0xFF, sizeof(event));
        event.active = event.has_payload = true;
        cr_expect_lt(trace_print_jsonl(line, &event, true, &(TraceParts){ 0 }), TRACE_LINE_MAX);
        cr_expect_lt(trace_print_csv(line, &event, true, &(TraceParts){ 0 }), TRACE_LINE_MAX);
}

static void expect_time(uint64_t time_ns, TraceParts *parts, TraceParts *json) {
        CoroEvent event = { .time_ns = time_ns, .number = time_ns, .seq = time_ns, .tid = time_ns };
        char line[TRACE_LINE_MAX + 1] = { 0 }, expected[TRACE_LINE_MAX];

        line[trace_print_csv(line, &event, true, parts)] = 0;
        snprintf(expected, sizeof(expected),
                 "0,%1$" PRIu64 ",0x0000000000000000,%1$" PRIu64 ",false,%1$" PRIu64 ",\n", time_ns);
        cr_assert_str_eq(line, expected);
        line[trace_print_jsonl(line, &event, true, json)] = 0;
        snprintf(expected, sizeof(expected),
                 "{\"probe_id\":0,\"tid\":%1$" PRIu64 ",\"addr\":\"0x0000000000000000\",\"seq\":%1$" PRIu64
                 ",\"is_active\":false,\"ts\":%1$" PRIu64 ",\"station\":0,\"event\":%1$" PRIu64 "}\n",
                 time_ns);
        cr_assert_str_eq(line, expected);
}

/* Each number may be the one before, one more, or any other. */
Test(trace, makes_digits_again_when_they_have_changed) {
        static const uint64_t edges[] = {
                0,         99999999,         100000000,         100000001,  199999999,
                200000000, 99999999,         UINT64_MAX - 1,    UINT64_MAX, 0,
                1,         9999999999999999, 10000000000000000, UINT64_MAX, UINT64_MAX
        };
        TraceParts parts = { 0 }, json = { 0 };

        for (size_t i = 0; i < sizeof(edges) / sizeof(*edges); i++)
                expect_time(edges[i], &parts, &json);
        for (uint64_t i = 0; i < 20000; i++)
                expect_time(i / 2, &parts, &json);
        for (uint64_t i = 0; i < 1000; i++)
                expect_time(i * 33333333, &parts, &json);
}

/* A station's birth may be seen late, numbers grow, and more stations than there are parts take turns. */
Test(trace, makes_the_same_line_of_parts_that_another_station_had) {
        TraceParts json = { 0 }, bare = { 0 }, csv = { 0 };

        for (uint64_t i = 0; i < 3000; i++) {
                uint64_t grown = UINT64_MAX >> i % 64;
                CoroEvent event = { .probe_id = i % 3 ? grown : 0,
                                    .birth_ns = i % 5 ? grown : 0,
                                    .station = i % 7 ? 1 : (uint32_t)grown,
                                    .pid = i % 11 ? 0 : (uint32_t)grown,
                                    .tid = grown,
                                    .number = grown,
                                    .seq = i,
                                    .time_ns = grown,
                                    .n_lost = i % 13 ? 0 : grown,
                                    .active = i % 2,
                                    .has_payload = i % 17 == 0 };
                char once[TRACE_LINE_MAX], again[TRACE_LINE_MAX];
                size_t size;

                size = trace_print_jsonl(once, &event, true, &(TraceParts){ 0 });
                cr_assert_eq(trace_print_jsonl(again, &event, true, &json), size);
                cr_assert_arr_eq(again, once, size);
                size = trace_print_jsonl(once, &event, false, &(TraceParts){ 0 });
                cr_assert_eq(trace_print_jsonl(again, &event, false, &bare), size);
                cr_assert_arr_eq(again, once, size);
                size = trace_print_csv(once, &event, true, &(TraceParts){ 0 });
                cr_assert_eq(trace_print_csv(again, &event, true, &csv), size);
                cr_assert_arr_eq(again, once, size);
        }
}

static void expect_same(const CoroEvent *a, const CoroEvent *b, bool extra) {
        cr_expect(a->probe_id == b->probe_id && a->tid == b->tid && a->address == b->address &&
                  a->seq == b->seq);
        cr_expect(a->active == b->active && a->time_ns == b->time_ns && a->has_payload == b->has_payload);
        cr_expect(!a->has_payload || !memcmp(a->payload, b->payload, sizeof(a->payload)));
        cr_expect(!extra ||
                  (a->station == b->station && a->number == b->number && a->birth_ns == b->birth_ns &&
                   a->n_lost == b->n_lost && a->pid == b->pid));
}

Test(trace, reads_back_what_it_prints) {
        const char *header = trace_csv_header(true);

        for (int i = 0; i < 8; i++) {
                CoroEvent event = sample(), back;
                bool extra = i & 1;
                TraceColumns columns;
                char line[TRACE_LINE_MAX];
                size_t size;

                event.active = i & 2;
                event.has_payload = i & 4;
                memset(event.payload, i & 4 ? 0xA5 : 0, sizeof(event.payload));
                size = trace_print_jsonl(line, &event, extra, &(TraceParts){ 0 });
                cr_assert_eq(trace_parse_jsonl(line, size - 1, &back), 0, "%.*s", (int)size, line);
                expect_same(&event, &back, extra);
                size = trace_print_csv(line, &event, true, &(TraceParts){ 0 });
                cr_assert_eq(trace_parse_csv_header(header, strlen(header) - 1, &columns), 0);
                cr_assert_eq(trace_parse_csv(&columns, line, size - 1, &back), 0, "%.*s", (int)size, line);
                expect_same(&event, &back, false);
        }
}

/* Lines of other programs: keys in another order, blanks, unknown keys, numbers as text. */
Test(trace, reads_json_of_others) {
        static const char *const good[] = {
                "{ \"ts\": 5, \"is_active\": true, \"seq\": 2, \"addr\": \"0x10\", \"tid\": 7, \"probe_id\": 9 }",
                "{\"probe_id\":9,\"tid\":7,\"addr\":\"0x0000000000000010\",\"seq\":2,\"is_active\":true,\"ts\":5,\"note\":\"x\",\"n\":-1.5}\r",
                "{\"probe_id\":\"9\",\"tid\":7,\"addr\":\"0x10\",\"seq\":2,\"is_active\":1,\"ts\":5}",
        };

        for (size_t i = 0; i < 3; i++) {
                CoroEvent event;

                cr_assert_eq(trace_parse_jsonl(good[i], strlen(good[i]), &event), 0, "%zu", i);
                cr_expect(event.probe_id == 9 && event.tid == 7 && event.address == 16 && event.seq == 2 &&
                          event.active && event.time_ns == 5 && !event.has_payload);
        }
}

Test(trace, refuses_lines_that_are_no_events) {
        static const char *const bad[] = {
                "",
                "{",
                "{}",
                "[]",
                "null",
                /* cut */
                "{\"probe_id\":9,\"tid\":7,\"addr\":\"0x10\",\"seq\":2,\"is_active\":true,\"ts\":5",
                /* no ts */
                "{\"probe_id\":9,\"tid\":7,\"addr\":\"0x10\",\"seq\":2,\"is_active\":true}",
                "{\"probe_id\":9,\"tid\":7,\"addr\":\"0x10\",\"seq\":2,\"is_active\":true,\"ts\":5}x",
                "{\"probe_id\":9,\"tid\":7,\"addr\":\"16\",\"seq\":2,\"is_active\":true,\"ts\":5}",
                "{\"probe_id\":9,\"tid\":7,\"addr\":\"0x11112222333344445\",\"seq\":2,\"is_active\":true,\"ts\":5}",
                "{\"probe_id\":9,\"tid\":7,\"addr\":\"0x10\",\"seq\":2,\"is_active\":2,\"ts\":5}",
                "{\"probe_id\":9,\"probe_id\":9,\"tid\":7,\"addr\":\"0x10\",\"seq\":2,\"is_active\":true,\"ts\":5}",
                "{\"probe_id\":18446744073709551616,\"tid\":7,\"addr\":\"0x10\",\"seq\":2,\"is_active\":true,\"ts\":5}",
                "{\"probe_id\":9,\"tid\":7,\"addr\":\"0x10\",\"seq\":2,\"is_active\":true,\"ts\":5,\"payload\":\"0\"}",
                "{\"probe_id\":9,\"tid\":7,\"addr\":\"0x10\",\"seq\":2,\"is_active\":true,\"ts\":5,\"station\":4294967296}",
        };

        for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
                CoroEvent event, untouched;

                memset(&event, 0x5A, sizeof(event));
                memset(&untouched, 0x5A, sizeof(untouched));
                cr_expect_eq(trace_parse_jsonl(bad[i], strlen(bad[i]), &event), TRACE_PARSE_E_MALFORMED, "%s",
                             bad[i]);
                cr_expect_eq(memcmp(&event, &untouched, sizeof(event)), 0, "%s", bad[i]);
        }
}

Test(trace, goes_by_the_names_of_columns) {
        TraceColumns columns;
        CoroEvent event;

        cr_assert_eq(trace_parse_csv_header("ts,what,is_active,seq,addr,tid,probe_id\r", 40, &columns), 0);
        cr_assert_eq(trace_parse_csv(&columns, "5,anything,true,2,0x10,7,9", 26, &event), 0);
        cr_expect(event.time_ns == 5 && event.active && event.probe_id == 9);
        cr_expect_eq(trace_parse_csv(&columns, "5,anything,true,2,0x10,7", 24, &event),
                     TRACE_PARSE_E_MALFORMED);
        cr_expect_eq(trace_parse_csv(&columns, "5,anything,true,2,0x10,7,9,1", 28, &event),
                     TRACE_PARSE_E_MALFORMED);
        cr_expect_eq(trace_parse_csv_header("ts,ts,is_active,seq,addr,tid,probe_id", 37, &columns),
                     TRACE_PARSE_E_MALFORMED);
        cr_expect_eq(trace_parse_csv_header("ts,is_active", 12, &columns), TRACE_PARSE_E_MALFORMED);
}

Test(trace, goes_by_the_ending_of_a_name) {
        TraceForm form;

        cr_expect(!trace_form_of("a.jsonl", &form) && form == TRACE_JSONL);
        cr_expect(!trace_form_of("dir.db/a.csv", &form) && form == TRACE_CSV);
        cr_expect(!trace_form_of("A.SQLITE", &form) && form == TRACE_SQLITE);
        cr_expect(!trace_form_of("-", &form) && form == TRACE_JSONL);
        cr_expect_eq(trace_form_of("trace", &form), TRACE_E_ENDING);
        cr_expect_eq(trace_form_of(".db", &form), TRACE_E_ENDING);
}

/* CSV of an older `spanprof coro` has all fields, also a database. */
Test(trace, reads_the_columns_that_are_no_longer_written) {
        static const char header[] = "probe_id,tid,addr,seq,is_active,ts,station,event,birth,lost,pid,payload",
                          line[] = "140737488346032,4711,0x55d0abc0,6,false,987654321012,12,17,987000000000,3,0,";
        TraceColumns columns;
        CoroEvent event, expected = sample();

        cr_assert_eq(trace_parse_csv_header(header, sizeof(header) - 1, &columns), 0);
        cr_assert_eq(trace_parse_csv(&columns, line, sizeof(line) - 1, &event), 0);
        expect_same(&event, &expected, true);
}

/* What a file of a trace says. */
typedef struct Read {
        CoroEvent last;
        uint64_t n_in_order;
        TraceStationEnd end;
        uint64_t start;                 /* of the mapping */
        TraceReadCounts counts;
} Read;

static int keep_last(void *userdata, const CoroEvent *event) {
        Read *read = userdata;

        read->n_in_order += event->number == read->n_in_order;
        read->last = *event;
        return 0;
}

static int keep_station(void *userdata, const TraceStationEnd *end) {
        ((Read *)userdata)->end = *end;
        return 0;
}

static int keep_mapping(void *userdata, const TraceMapping *mapping) {
        ((Read *)userdata)->start = mapping->start;
        return 0;
}

static Read read_file(const char *path) {
        _cleanup_(source_deinit) Source source = { .fd = -1 };
        _cleanup_(text_deinit) Text problem = { 0 };
        Read read = { 0 };
        const TraceTakers to = { keep_last, keep_station, keep_mapping, &read };

        cr_assert_eq(source_open(&source, path, &problem), 0);
        cr_assert_eq(trace_source_read(&source, &to, &read.counts, &problem), 0, "%s", path);
        return read;
}

static void write_file(const char *path, const CoroEvent *event) {
        static const StationState state = { .probe_id = UINT64_MAX, .dead = true, .n_lost = 7 };
        const TraceMapping mapping = { .process = 5, .start = 0x1000, .end = 0x2000, .build_id_gnu = "ab",
                                       .build_id_go = "", .build_id_htlhash = "", .path = "/srv/\"a, b\"" };
        TraceOptions options = { .extra = true, .mode = 0600 };
        _cleanup_(trace_writer_freep) TraceWriter *writer = NULL;
        uint64_t n_dropped = 77;
        CoroEvent one = *event;
        const char *problem;
        TraceForm form;

        cr_assert_eq(trace_form_of(path, &form), 0);
        cr_assert_eq(trace_writer_new(&writer, path, form, &options), 0);
        for (one.number = 0; one.number < 3000; one.number++)
                trace_writer_event(writer, &one);
        trace_writer_station(writer, &(TraceStation){ .index = 12, .state = &state, .until_ns = 9 });
        trace_writer_mapping(writer, &mapping);
        cr_assert_eq(trace_writer_close(writer, &n_dropped, &problem), 0);
        cr_expect_eq(n_dropped, 0);
}

/* Both forms with rows through a file, with the rows, and that of coroTracer without them. */
Test(trace, goes_through_files_of_each_form) {
        static const char *const names[] = { "t.jsonl", "t.db", "t.csv" };
        char directory[] = "/tmp/test-trace-XXXXXX";
        CoroEvent event = sample();

        cr_assert(mkdtemp(directory));
        cr_assert_eq(chdir(directory), 0);
        event.probe_id = UINT64_MAX;    /* above SQLite's integers */
        event.address = UINT64_MAX;
        event.has_payload = true;
        memset(event.payload, 0xEE, sizeof(event.payload));
        event.number = 2999;
        for (size_t i = 0; i < 3; i++) {
                bool extra = i < 2;
                Read read;

                write_file(names[i], &event);
                read = read_file(names[i]);
                cr_expect_eq(read.counts.n_events, 3000, "%s", names[i]);
                cr_expect_eq(read.n_in_order, extra ? 3000 : 1, "%s", names[i]);
                cr_expect_eq(read.counts.n_malformed, 0);
                event.has_payload = extra;
                expect_same(&event, &read.last, extra);
                cr_expect_eq(read.counts.n_rows[TRACE_TABLE_STATIONS], extra);
                cr_expect_eq(read.counts.n_rows[TRACE_TABLE_MAPPINGS], extra);
                cr_expect(!extra || (read.end.dead && read.end.station == 12 && read.end.until_ns == 9 &&
                                     read.end.probe_id == UINT64_MAX && read.end.n_lost == 7 &&
                                     read.start == 0x1000));
        }
        for (size_t i = 0; i < 3; i++)
                unlink(names[i]);
        rmdir(directory);
}

Test(trace, says_that_another_has_taken_its_name) {
        TraceOptions options = { .mode = 0600, .whole = true };
        _cleanup_(trace_writer_freep) TraceWriter *writer = NULL;
        char directory[] = "/tmp/test-trace-XXXXXX", path[64];
        const CoroEvent event = sample();
        const char *problem = "";
        uint64_t n_dropped;

        cr_assert_not_null(mkdtemp(directory));
        snprintf(path, sizeof(path), "%s/t.csv", directory);
        cr_assert_eq(trace_writer_new(&writer, path, TRACE_CSV, &options), 0);
        trace_writer_event(writer, &event);
        cr_assert_eq(mkdir(path, 0700), 0);
        cr_assert_eq(trace_writer_close(writer, &n_dropped, &problem), TRACE_E_FAILED);
        cr_expect_str_eq(problem, outfile_problem(OUTFILE_E_CHANGED));
        rmdir(path);
        writer = trace_writer_free(writer);
        rmdir(directory);
}

Test(trace, keeps_its_limit) {
        TraceOptions options = { .mode = 0600, .max_bytes = 1000 };
        _cleanup_(trace_writer_freep) TraceWriter *writer = NULL;
        char path[] = "/tmp/test-trace-XXXXXX.csv";
        CoroEvent event = sample();
        TraceReadCounts counts;
        const char *problem;
        uint64_t n_dropped;

        close(mkstemps(path, 4));
        cr_assert_eq(trace_writer_new(&writer, path, TRACE_CSV, &options), 0);
        for (int k = 0; k < 100; k++)
                trace_writer_event(writer, &event);
        cr_assert_eq(trace_writer_close(writer, &n_dropped, &problem), 0);
        counts = read_file(path).counts;
        cr_expect_eq(counts.n_events + n_dropped, 100);
        cr_expect_eq(counts.n_events, (1000 - 35) / 62);        /* header, lines */
        unlink(path);
}

/* SPDX-License-Identifier: Apache-2.0 */
#include <criterion/criterion.h>
#include <stdio.h>

#include "core/base/data/json-writer.h"
#include "desk/report/coroutines-private.h"

#define MS UINT64_C(1000000)

static CoroutineReport *report;

static void begin(void) {
        cr_assert_eq(coroutine_report_new(&report, NULL, 0), 0);
}

static void end(void) {
        report = coroutine_report_free(report);
}

static void event(uint64_t probe, bool active, uint64_t time_ms, uint64_t tid, uint64_t n_lost) {
        CoroEvent row = { .probe_id = probe,
                          .active = active,
                          .time_ns = time_ms * MS,
                          .tid = tid,
                          .address = 0x40,
                          .n_lost = n_lost };

        cr_assert_eq(coroutine_report_event(report, &row), 0);
}

TestSuite(coroutines, .init = begin, .fini = end);

Test(coroutines, sums_what_lies_between_neighbours) {
        const Coroutine *c;

        event(1, true, 1, 7, 0);
        event(1, false, 3, 7, 0);
        event(1, true, 13, 8, 0);
        event(1, false, 14, 8, 0);
        c = &report->coroutines[0];
        cr_assert_eq(c->sums.run_ns, 3 * MS);
        cr_assert_eq(c->sums.suspended_ns, 10 * MS);
        cr_assert_eq(c->longest_run_ns, 2 * MS);
        cr_assert_eq(c->sums.n_migrations, 1);
        cr_assert_eq(report->n_addresses, 1);
        cr_assert_eq(report->addresses[0].suspended_ns, 10 * MS);
}

Test(coroutines, guesses_nothing_where_events_were_lost) {
        event(1, true, 1, 7, 0);
        event(1, false, 5, 7, 2);       /* two were lost: a suspend and a resume */
        event(1, false, 6, 7, 0);       /* two suspends behind each other */
        event(1, true, 4, 7, 0);        /* back in time */
        cr_assert_eq(report->coroutines[0].sums.run_ns, 0);
        cr_assert_eq(report->coroutines[0].sums.suspended_ns, 0);
        cr_assert_eq(report->sums.n_unknown, 3);
        cr_assert_eq(report->sums.n_lost, 2);
}

Test(coroutines, suspects_who_waits_ten_times_longer_than_ever) {
        for (uint64_t i = 0; i < 3; i++) {      /* 1: waits of 10 ms; 2: waits of 200 ms; 3: never resumed */
                event(1, true, 300 * i + 1, 7, 0);
                event(1, false, 300 * i + 2, 7, 0);
                event(1, true, 300 * i + 12, 7, 0);
                event(1, false, 300 * i + 13, 7, 0);
                event(2, true, 300 * i + 14, 7, 0);
                event(2, false, 300 * i + 15, 7, 0);
                event(2, true, 300 * i + 215, 7, 0);
                event(2, false, 300 * i + 216, 7, 0);
        }
        event(3, false, 2, 7, 0);
        event(4, true, 1700, 7, 0);     /* runs; and says when the trace ends */
        cr_assert_eq(coroutine_end(report, &report->coroutines[0]), COROUTINE_SUSPENDED,
                     "a wait between the turns was as long");
        cr_assert_eq(coroutine_end(report, &report->coroutines[1]), COROUTINE_SUSPENDED);
        cr_assert_eq(coroutine_end(report, &report->coroutines[2]), COROUTINE_SUSPECT);
        cr_assert_eq(coroutine_end(report, &report->coroutines[3]), COROUTINE_RUNNING);
        cr_assert_eq(coroutine_report_station(report, &(TraceStationEnd){ .probe_id = 3, .dead = true }), 0);
        cr_assert_eq(coroutine_end(report, &report->coroutines[2]), COROUTINE_DEAD,
                     "who is dead waits for nothing");
}

/*
 * In a program that hangs as a whole, the last event of all comes soon after the last of the lost coroutine.
 */
Test(coroutines, waits_until_its_station_was_looked_at_for_the_last_time) {
        event(1, true, 1, 7, 0);
        event(1, false, 2, 7, 0);
        event(2, true, 3, 7, 0);
        cr_assert_eq(coroutine_end(report, &report->coroutines[0]), COROUTINE_SUSPENDED);
        cr_assert_eq(
                coroutine_report_station(report, &(TraceStationEnd){ .probe_id = 1, .until_ns = 202 * MS }),
                0);
        cr_assert_eq(coroutine_since_ns(report, &report->coroutines[0]), 200 * MS);
        cr_assert_eq(coroutine_end(report, &report->coroutines[0]), COROUTINE_SUSPECT);
        cr_assert_eq(coroutine_report_station(report, &(TraceStationEnd){ .probe_id = 1, .until_ns = 1 }), 0);
        cr_assert_eq(coroutine_since_ns(report, &report->coroutines[0]), 0, "nonsense");
}

Test(coroutines, keeps_the_longest_stretches_of_many) {
        for (uint64_t i = 1; i <= 3 * COROUTINES_TOP; i++) {
                event(i, false, 1000, 7, 0);
                event(i, true, 1000 + (i * 7919) % 1000, 7, 0);
        }
        coroutine_report_sort(report);
        cr_assert_eq(report->suspensions.n, COROUTINES_TOP);
        for (uint32_t i = 1; i < report->suspensions.n; i++)
                cr_assert_geq(report->suspensions.rows[i - 1].ns, report->suspensions.rows[i].ns);
        for (uint64_t i = 1, n = 0; i <= 3 * COROUTINES_TOP; i++) {
                n += (i * 7919) % 1000 * MS > report->suspensions.rows[COROUTINES_TOP - 1].ns;
                cr_assert_lt(n, COROUTINES_TOP, "none that is longer than the last one is missing");
        }
}

Test(coroutines, draws_as_much_time_as_it_sums) {
        double run_ns = 0, suspended_ns = 0;

        for (uint64_t i = 0; i < 1000; i++) {
                event(1, true, 10 * i, 7, 0);
                event(1, false, 10 * i + 3, 7, 0);
        }
        for (int i = 0; i < COROUTINES_BINS; i++) {
                run_ns += (double)report->coroutines[0].timeline[i].run_ns;
                suspended_ns += (double)report->coroutines[0].timeline[i].suspended_ns;
        }
        cr_assert_float_eq(run_ns, (double)(3000 * MS), 1e-4 * (double)(3000 * MS));
        cr_assert_float_eq(suspended_ns, (double)(7 * 999 * MS), 1e-4 * (double)(7000 * MS));
}

/* A trace may say anything: the whole range of the clock in one stretch, and back. */
Test(coroutines, draws_any_times) {
        static const uint64_t times[] = { 0, UINT64_MAX, UINT64_MAX - 1, UINT64_C(1) << 63, 5, UINT64_MAX,
                                          0, 1 };
        double run_ns = 0;

        for (size_t i = 0; i < 4 * ARRAY_SIZE(times); i++) {
                CoroEvent row = { .probe_id = i < 2 ? 1 : 2 + i % 3,
                                  .active = i % 2 == 0,
                                  .time_ns = times[i % ARRAY_SIZE(times)],
                                  .tid = 7 };

                cr_assert_eq(coroutine_report_event(report, &row), 0);
        }
        for (int bin = 0; bin < COROUTINES_BINS; bin++)
                run_ns += (double)report->coroutines[0].timeline[bin].run_ns;
        cr_expect_float_eq(run_ns, (double)report->coroutines[0].sums.run_ns, 1e-4 * run_ns);
        cr_expect_gt(run_ns, 1e19, "one of them takes all of the time that there is");
}

/* @end: what stands behind the address. */
static int parse_station(const char *probe_id, const char *end, TraceStationEnd *row) {
        char line[512], room[512];
        TraceRow cells;
        int n = snprintf(line, sizeof(line),
                         "{\"coro_stations\":{\"pid\":1,\"station\":2,\"probe_id\":%s,\"birth\":4,\"dead\":1,\"torn\":0,"
                         "\"corrupt\":0,\"read\":5,\"lost\":6,\"rejected\":7,\"skipped\":8,\"last_ts\":9,\"last_tid\":10,"
                         "\"last_addr\":\"0x11\"%s",
                         probe_id, end);
        int r = trace_row_parse(line, (size_t)n, room, &cells);

        return r ? r : trace_row_station(&cells, row);
}

Test(coroutines, reads_a_station_to_the_letter) {
        TraceStationEnd row;

        cr_assert_eq(parse_station("3", ",\"is_active\":0}}", &row), 0);
        cr_assert(row.dead && !row.active && row.n_lost == 6 && row.last_address == 0x11);
        cr_assert_neq(parse_station("3", "}}", &row), 0);
        cr_assert_eq(row.until_ns, 0, "an older trace");
        cr_assert_eq(parse_station("3", ",\"is_active\":0,\"until\":12}}", &row), 0);
        cr_assert_eq(row.until_ns, 12);
        cr_assert_neq(parse_station("3", ",\"is_active\":0,}}", &row), 0);
        cr_assert_neq(parse_station("3", ",\"is_active\":0,\"is_active\":0}}", &row), 0);
        cr_assert_neq(parse_station("3", ",\"is_active\":0}},0", &row), 0);
        cr_assert_neq(parse_station("\"x\"", ",\"is_active\":0}}", &row), 0);
        cr_assert_neq(parse_station("", ",\"is_active\":0}}", &row), 0);
}

/* Functions' names are in a page of coroutines; in JSON for programs they stay as they are. */
Test(coroutines, mask_texts_in_a_page_alone) {
        for (int in_markup = 0; in_markup < 2; in_markup++) {
                char data[64] = "";
                FILE *out = fmemopen(data, sizeof(data), "w");
                JsonWriter json = { .out = out, .in_markup = in_markup };

                cr_assert_not_null(out);
                json_text(&json, NULL, "a\xE2\x80\xAE<b\n\xD0\x96");
                fclose(out);
                cr_expect_str_eq(data,
                                 in_markup ? "\"a\xEF\xBF\xBD\\u003cb\xEF\xBF\xBD\xD0\x96\""
                                           : "\"a\xE2\x80\xAE<b\\u000a\xD0\x96\"");
        }
}

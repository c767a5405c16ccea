/* SPDX-License-Identifier: Apache-2.0 */

/* A report of coroutines as JSON: for programs, and for the script of its page. */

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>

#include "core/base/data/json-writer.h"
#include "core/base/util/error.h"
#include "desk/report/coroutines-page.h"
#include "desk/report/coroutines-private.h"
#include "desk/report/sheet.h"

static void add_hex(JsonWriter *json, const char *key, uint64_t value) {
        char text[24];

        snprintf(text, sizeof(text), "0x%" PRIx64, value);
        json_text(json, key, text);
}

/* Writes an address, and its function, if that is known. */
static void add_address(JsonWriter *json, const CoroutineFormat *format, const char *key,
                        const char *function_key, const Coroutine *c, uint64_t address) {
        const char *name = format->name ? format->name(format->userdata, c, address) : NULL;

        add_hex(json, key, address);
        if (name)
                json_text(json, function_key, name);
}

static void add_identity(JsonWriter *json, const Coroutine *c) {
        add_hex(json, "probe_id", c->probe_id);
        if (c->birth_ns) {
                json_number(json, "station", c->station);
                json_number(json, "birth_ns", c->birth_ns);
        }
        if (c->pid)
                json_number(json, "pid", c->pid);
}

/* A character for each bin: how much of it ran (a to j), or else was suspended (0 to 9); blank = neither. */
static void add_timeline(JsonWriter *json, const CoroutineReport *report, const Coroutine *c) {
        char text[COROUTINES_BINS + 1];
        int n = 0;

        if (!c->timeline)
                return;
        for (int i = 0; i < COROUTINES_BINS; i++) {
                double run = (double)c->timeline[i].run_ns / (double)report->bin_ns;
                double suspended = (double)c->timeline[i].suspended_ns / (double)report->bin_ns;

                text[i] = run > 0       ? (char)('a' + MIN((int)(run * 10), 9))
                        : suspended > 0 ? (char)('0' + MIN((int)(suspended * 10), 9))
                                        : ' ';
                if (text[i] != ' ')
                        n = i + 1;
        }
        text[n] = 0;
        json_text(json, "timeline", text);
}

static void add_coroutine(JsonWriter *json, const CoroutineReport *report, const CoroutineFormat *format,
                          const Coroutine *c, bool timeline) {
        json_open(json, NULL, '{');
        add_identity(json, c);
        json_text(json, "state", coroutine_end_text(coroutine_end(report, c)));
        json_number(json, "state_ns", coroutine_since_ns(report, c));
        json_number(json, "events", c->sums.n_events);
        json_number(json, "resumes", c->sums.n_resumes);
        json_number(json, "suspends", c->sums.n_suspends);
        json_real(json, "resumes_per_second", coroutine_resumes_per_second(c));
        json_number(json, "lost", c->sums.n_lost);
        json_number(json, "unknown_stretches", c->sums.n_unknown);
        json_number(json, "migrations", c->sums.n_migrations);
        json_number(json, "run_ns", c->sums.run_ns);
        json_number(json, "suspended_ns", c->sums.suspended_ns);
        json_number(json, "longest_run_ns", c->longest_run_ns);
        json_number(json, "longest_suspend_ns", c->longest_suspend_ns);
        json_number(json, "first_ns", c->first_ns);
        json_number(json, "last_ns", c->last_ns);
        json_number(json, "last_thread", c->last_tid);
        add_address(json, format, "last_address", "last_function", c, c->last_address);
        json_bool(json, "torn", c->torn);
        json_bool(json, "corrupt", c->corrupt);
        if (timeline)
                add_timeline(json, report, c);
        json_close(json, '}');
}

static void add_stretches(JsonWriter *json, const CoroutineReport *report, const CoroutineFormat *format,
                          const char *key, const Stretches *stretches, uint32_t top) {
        json_open(json, key, '[');
        for (uint32_t i = 0; i < MIN(stretches->n, top); i++) {
                const Stretch *row = &stretches->rows[i];

                json_open(json, NULL, '{');
                add_identity(json, &report->coroutines[row->coroutine]);
                json_number(json, "ns", row->ns);
                json_number(json, "start_ns", row->start_ns);
                json_number(json, "thread", row->tid);
                add_address(json, format, "address", "function", &report->coroutines[row->coroutine],
                            row->address);
                json_close(json, '}');
        }
        json_close(json, ']');
}

static void add_addresses(JsonWriter *json, const CoroutineReport *report, const CoroutineFormat *format,
                          uint32_t top) {
        json_open(json, "addresses", '[');
        for (uint32_t i = 0; i < MIN(report->n_addresses, top); i++) {
                json_open(json, NULL, '{');
                add_address(json, format, "address", "function", NULL, report->addresses[i].address);
                json_number(json, "suspended_ns", report->addresses[i].suspended_ns);
                json_number(json, "times", report->addresses[i].n);
                json_close(json, '}');
        }
        json_close(json, ']');
}

static void add_totals(JsonWriter *json, const CoroutineReport *report, const CoroutineFormat *format) {
        json_number(json, "traces", format->n_files);
        json_number(json, "malformed", format->n_malformed);
        json_number(json, "start_ns", report->sums.n_events ? report->first_ns : 0);
        json_number(json, "end_ns", report->last_ns);
        json_number(json, "events", report->sums.n_events);
        json_number(json, "resumes", report->sums.n_resumes);
        json_number(json, "suspends", report->sums.n_suspends);
        json_number(json, "lost", report->sums.n_lost);
        json_number(json, "filtered", report->n_filtered);
        json_number(json, "unknown_stretches", report->sums.n_unknown);
        json_number(json, "events_left_out", report->n_left_out);
        json_number(json, "suspensions_left_out", report->n_placeless);
        json_number(json, "threads", report->threads.n_entries);
        json_number(json, "migrations", report->sums.n_migrations);
        json_number(json, "run_ns", report->sums.run_ns);
        json_number(json, "suspended_ns", report->sums.suspended_ns);
        json_bool(json, "stations_known", report->stations_known);
        json_number(json, "timeline_start_ns", report->origin_ns);
        json_number(json, "timeline_bin_ns", report->bin_ns);
        json_number(json, "n_coroutines", report->n_coroutines);
}

static int add_coroutines(JsonWriter *json, const CoroutineReport *report, const CoroutineFormat *format,
                          uint32_t top, bool timelines) {
        _cleanup_(freep) uint32_t *order = coroutine_order(report, coroutine_by_run);

        if (!order)
                return error_origin(-ENOMEM);
        json_open(json, "coroutines", '[');
        for (uint32_t i = 0; i < MIN(report->n_coroutines, top); i++)
                add_coroutine(json, report, format, &report->coroutines[order[i]], timelines);
        json_close(json, ']');
        return 0;
}

static int add_suspects(JsonWriter *json, const CoroutineReport *report, const CoroutineFormat *format) {
        _cleanup_(freep) uint32_t *order = coroutine_order(report, coroutine_by_wait);

        if (!order)
                return error_origin(-ENOMEM);
        json_open(json, "lost_wakeups", '[');
        for (uint32_t i = 0; i < report->n_coroutines; i++)
                if (coroutine_end(report, &report->coroutines[order[i]]) == COROUTINE_SUSPECT)
                        add_coroutine(json, report, format, &report->coroutines[order[i]], false);
        json_close(json, ']');
        return 0;
}

static int coroutines_write_json(JsonWriter *json, CoroutineReport *report, const CoroutineFormat *format,
                                 bool timelines) {
        uint32_t top = format->top ? format->top : SHEET_DEFAULT_TOP;
        int r;

        coroutine_report_sort(report);
        json_open(json, NULL, '{');
        add_totals(json, report, format);
        r = add_suspects(json, report, format);
        r = r ? r : add_coroutines(json, report, format, top, timelines);
        add_stretches(json, report, format, "longest_suspensions", &report->suspensions, top);
        add_stretches(json, report, format, "longest_runs", &report->runs, top);
        add_addresses(json, report, format, top);
        json_close(json, '}');
        return r;
}

int coroutine_report_print_json(CoroutineReport *report, const CoroutineFormat *format, FILE *out) {
        JsonWriter json = { .out = out };
        int r = coroutines_write_json(&json, report, format, false);

        fputc('\n', out);
        return r ? error_fold(r) : 0;
}

/* The page: the same JSON between the halves of coroutines.html. */

int coroutine_report_print_page(CoroutineReport *report, const CoroutineFormat *format, FILE *out) {
        JsonWriter json = { .out = out, .in_markup = true };
        CoroutineFormat all = *format;
        int r;

        all.top = COROUTINES_MAX_TIMELINES;
        fwrite(coroutines_html_head, 1, coroutines_html_head_size, out);
        r = coroutines_write_json(&json, report, &all, true);
        fwrite(coroutines_html_tail, 1, coroutines_html_tail_size, out);
        return r ? error_fold(r) : 0;
}

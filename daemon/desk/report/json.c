/* SPDX-License-Identifier: Apache-2.0 */

/*
 * The report as JSON, for programs: the same numbers as the text, not rounded and without shares.
 * Numbers are plain (up to 2^63), text is UTF-8.
 */
#include <stdlib.h>
#include <string.h>

#include "core/base/data/json-writer.h"
#include "core/base/util/error.h"
#include "core/base/util/text.h"
#include "desk/report/report-private.h"

enum { DEFAULT_TOP = 20 };

typedef struct Json {
        JsonWriter writer;
        const Report *report;
        uint32_t top;
} Json;

static void add_function(Json *json, uint32_t function) {
        const Report *report = json->report;
        const ReportFunction *row = report_function(report, function);

        json_text(&json->writer, "function", report_function_name(report, function));
        json_text(&json->writer, "object", report_object_name(report, row->object));
        json_text(&json->writer, "path", report_string(report, report_object(report, row->object)->path));
}

static void add_stack(Json *json, uint32_t stack) {
        size_t n;
        const uint32_t *functions = report_stack(json->report, stack, &n);

        json_open(&json->writer, "frames", '[');
        for (size_t i = 0; i < n; i++) {
                json_open(&json->writer, NULL, '{');
                add_function(json, functions[i]);
                json_close(&json->writer, '}');
        }
        json_close(&json->writer, ']');
}

static void add_link(Json *json, const uint32_t *key) {
        char hex[33];

        text_to_hex(hex, (const uint8_t *)(key + 2), 16);
        json_text(&json->writer, "trace_id", hex);
        text_to_hex(hex, (const uint8_t *)(key + 6), 8);
        json_text(&json->writer, "span_id", hex);
        if (json->report->has_operations)
                json_text(&json->writer, "operation", report_operation_name(json->report, key[1]));
}

static void add_coroutine(Json *json, const uint32_t *key) {
        const Report *report = json->report;
        const ReportCoroutine *row = report_coroutine(report, key[1]);
        uint64_t pid;

        if (row->station)
                json_number(&json->writer, "station", row->station - 1u);
        if (row->probe_id)
                json_text(&json->writer, "probe_id", report_string(report, row->probe_id));
        if (row->birth_ns)
                json_number(&json->writer, "birth_ns", row->birth_ns);
        if (row->id)
                json_text(&json->writer, "id", report_string(report, row->id));
        if (row->name)
                json_text(&json->writer, "name", report_string(report, row->name));
        if (!text_u64(report_attribute(report, row->process, "process.pid"), UINT32_MAX, &pid))
                json_number(&json->writer, "pid", pid);
        json_text(&json->writer, "state", report_string(report, key[2]));
        json_number(&json->writer, "suspended_ns", report_suspended_ns(report, key[1]));
}

static void add_object(Json *json, uint32_t object) {
        const Report *report = json->report;
        const ReportObject *row = report_object(report, object);

        json_text(&json->writer, "object", report_object_name(report, object));
        json_text(&json->writer, "path", report_string(report, row->path));
        json_text(&json->writer, "build_id_gnu", report_string(report, row->build_id_gnu));
        json_text(&json->writer, "build_id_htlhash", report_string(report, row->build_id_htlhash));
        json_text(&json->writer, "names", report_object_state(report, object));
}

/* Of a span: its id, and its operation where that is known; nothing where there is none. */
static void add_wait_span(Json *json, const char *prefix, uint32_t operation, const uint8_t span[static 8]) {
        char id[17], key[32];

        if (operation == OPERATION_NO_SPAN)
                return;
        if (operation == OPERATION_NOT_LISTED) {
                text_to_hex(id, span, 8);
                snprintf(key, sizeof(key), "%sspan_id", prefix);
                json_text(&json->writer, key, id);
                return;
        }
        snprintf(key, sizeof(key), "%soperation", prefix);
        json_text(&json->writer, key, report_operation_name(json->report, operation));
}

static void add_wait(Json *json, const ReportWaitKey *wait) {
        const Report *report = json->report;

        add_wait_span(json, "", wait->operation, wait->span);
        json_text(&json->writer, "state", report_string(report, wait->state));
        json_text(&json->writer, "on", report_string(report, wait->reason));
        if (wait->file)
                json_text(&json->writer, "file", report_string(report, wait->file));
        if (wait->lock_kind)
                json_text(&json->writer, "lock", report_string(report, wait->lock_kind));
        if (wait->lock_class)
                json_text(&json->writer, "lock_class", report_string(report, wait->lock_class));
        if (wait->lock_owner)
                json_number(&json->writer, "lock_owner_thread", wait->lock_owner);
        json_text(&json->writer, "ended_by", report_string(report, wait->waker));
        add_wait_span(json, "ended_by_", wait->waker_operation, wait->waker_span);
        if (wait->waker_thread)
                json_number(&json->writer, "ended_by_thread", wait->waker_thread);
        if (wait->waker_function)
                json_text(&json->writer, "ended_in",
                          report_string(report, report_function(report, wait->waker_function - 1)->name));
}

static int add_rows(Json *json, const char *key, ReportTable table, uint32_t section, uint32_t operation);

static int add_row(Json *json, ReportTable table, const TallyRow *row) {
        const Report *report = json->report;

        if (table == REPORT_FUNCTIONS) {
                add_function(json, row->key[2]);
                json_number(&json->writer, "self", row->self);
                json_number(&json->writer, "total", row->total);
                return 0;
        }
        if (table == REPORT_STACKS)
                add_stack(json, row->key[1]);
        else if (table == REPORT_WAITS)
                add_wait(json, (const ReportWaitKey *)row->key);
        else if (table == REPORT_LINKS)
                add_link(json, row->key);
        else if (table == REPORT_REASONS)
                json_text(&json->writer, "reason", report_string(report, row->key[1]));
        else if (table == REPORT_COROUTINES)
                add_coroutine(json, row->key);
        else if (table == REPORT_OBJECTS)
                add_object(json, row->key[1]);
        else
                json_text(&json->writer, "operation", report_operation_name(report, row->key[1]));
        json_number(&json->writer, "value", row->self);
        return table == REPORT_OPERATIONS
                ? add_rows(json, "functions", REPORT_FUNCTIONS, row->key[0], row->key[1])
                : 0;
}

static int add_rows(Json *json, const char *key, ReportTable table, uint32_t section, uint32_t operation) {
        _cleanup_(freep) TallyRow *rows = NULL;
        size_t n;
        int r = report_rows(json->report, table, section, operation, &rows, &n);

        if (r)
                return error_fold(r);
        json_open(&json->writer, key, '[');
        for (size_t i = 0; i < MIN(n, (size_t)json->top) && !r; i++) {
                json_open(&json->writer, NULL, '{');
                r = add_row(json, table, &rows[i]);
                json_close(&json->writer, '}');
        }
        json_close(&json->writer, ']');
        return r ? error_fold(r) : 0;
}

static int add_section(Json *json, uint32_t section) {
        static const struct {
                const char *key;
                ReportTable table;
        } tables[] = {
                { "truncated_by", REPORT_REASONS }, { "functions", REPORT_FUNCTIONS },
                { "objects", REPORT_OBJECTS },      { "stacks", REPORT_STACKS },
                { "waits", REPORT_WAITS },          { "spans", REPORT_LINKS },
                { "coroutines", REPORT_COROUTINES },
        };
        const ReportSums *sums = &json->report->sums[section];
        int r = 0;

        json_number(&json->writer, "value", sums->value);
        json_number(&json->writer, "events", sums->n_events);
        json_number(&json->writer, "with_span", sums->linked);
        json_number(&json->writer, "truncated", sums->truncated);
        json_number(&json->writer, "period_min", (uint64_t)sums->period_min);
        json_number(&json->writer, "period_max", (uint64_t)sums->period_max);
        for (size_t i = 0; i < ARRAY_SIZE(tables) && !r; i++)
                r = add_rows(json, tables[i].key, tables[i].table, section, OPERATION_ALL);
        json_number(&json->writer, "in_coroutines", sums->in_coroutines);
        return r ? error_fold(r) : 0;
}

static void add_attributes(Json *json, uint32_t process) {
        size_t n;
        const uint32_t *pairs = report_process(json->report, process, &n);

        json_open(&json->writer, "attributes", '{');
        for (size_t i = 0; i < n; i++)
                json_text(&json->writer, report_string(json->report, pairs[2 * i]),
                          report_string(json->report, pairs[2 * i + 1]));
        json_close(&json->writer, '}');
}

static int add_processes(Json *json, uint32_t kind) {
        _cleanup_(freep) uint32_t *sections = NULL;
        size_t n;
        int r = report_process_sections(json->report, kind, &sections, &n);

        if (r)
                return error_fold(r);
        json_open(&json->writer, "processes", '[');
        for (size_t i = 0; i < n && !r; i++) {
                json_open(&json->writer, NULL, '{');
                add_attributes(json, report_section(json->report, sections[i])->process);
                r = add_section(json, sections[i]);
                json_close(&json->writer, '}');
        }
        json_close(&json->writer, ']');
        return r ? error_fold(r) : 0;
}

static int add_kind(Json *json, uint32_t kind) {
        const Report *report = json->report;
        const ReportKind *row = report_kind(report, kind);
        uint32_t section;
        int r;

        if (report_find_section(report, 0, kind, &section))
                return 0;
        json_open(&json->writer, NULL, '{');
        json_text(&json->writer, "type", report_string(report, row->type));
        json_text(&json->writer, "unit", report_string(report, row->unit));
        json_text(&json->writer, "period_type", report_string(report, row->period_type));
        json_text(&json->writer, "period_unit", report_string(report, row->period_unit));
        r = add_section(json, section);
        if (!r && report->has_operations)
                r = add_rows(json, "operations", REPORT_OPERATIONS, section, OPERATION_ALL);
        if (!r)
                r = add_processes(json, kind);
        json_close(&json->writer, '}');
        return r ? error_fold(r) : 0;
}

int report_print_json(const Report *report, const ReportFormat *format, FILE *out) {
        Json json = { .writer = { .out = out },
                      .report = report,
                      .top = format->top ? format->top : DEFAULT_TOP };
        int r = 0;

        json_open(&json.writer, NULL, '{');
        json_number(&json.writer, "files", format->n_files);
        json_number(&json.writer, "start_unix_nano",
                    report->start_ns < report->end_ns ? report->start_ns : 0);
        json_number(&json.writer, "end_unix_nano", report->end_ns);
        json_number(&json.writer, "processes", report_n_processes(report));
        json_number(&json.writer, "processes_filtered", report_n_filtered(report));
        json_number(&json.writer, "profiles_repeated", report->n_repeated + format->n_repeated);
        json_number(&json.writer, "rows_left_out", report->n_left_out);
        json_open(&json.writer, "profiles", '[');
        for (uint32_t kind = 0; kind < report->kinds.n_items && !r; kind++)
                r = add_kind(&json, kind);
        json_close(&json.writer, ']');
        json_close(&json.writer, '}');
        fputc('\n', out);
        return r ? error_fold(r) : 0;
}

/* SPDX-License-Identifier: Apache-2.0 */

/*
 * The report as JSON, for programs: the same numbers as the text, not rounded and without shares.
 * Numbers are plain (up to 2^63), text is UTF-8.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "report/report-private.h"
#include "util/error.h"
#include "util/text.h"

enum { DEFAULT_TOP = 20 };

typedef struct Json {
        const Report *report;
        FILE *out;
        uint32_t top;
        bool comma;                     /* something stands before in this object or list */
} Json;

static void separate(Json *json) {
        if (json->comma)
                fputc(',', json->out);
        json->comma = true;
}

static void print_string(Json *json, const char *text) {
        fputc('"', json->out);
        for (const unsigned char *c = (const unsigned char *)text; *c; c++) {
                if (*c == '"' || *c == '\\')
                        fprintf(json->out, "\\%c", *c);
                else if (*c < 0x20 || *c == 0x7f)
                        fprintf(json->out, "\\u%04x", *c);
                else
                        fputc(*c, json->out);
        }
        fputc('"', json->out);
}

static void print_key(Json *json, const char *key) {
        separate(json);
        if (key) {
                print_string(json, key);
                fputc(':', json->out);
        }
}

/* @key NULL: in a list. */
static void open_group(Json *json, const char *key, char bracket) {
        print_key(json, key);
        fputc(bracket, json->out);
        json->comma = false;
}

static void close_group(Json *json, char bracket) {
        fputc(bracket, json->out);
        json->comma = true;
}

static void add_text(Json *json, const char *key, const char *text) {
        print_key(json, key);
        print_string(json, text);
}

static void add_number(Json *json, const char *key, uint64_t number) {
        print_key(json, key);
        fprintf(json->out, "%" PRIu64, number);
}

static void add_function(Json *json, uint32_t function) {
        const Report *report = json->report;
        const ReportFunction *row = report_function(report, function);

        add_text(json, "function", report_function_name(report, function));
        add_text(json, "object", report_object_name(report, row->object));
        add_text(json, "path", report_string(report, report_object(report, row->object)->path));
}

static void add_stack(Json *json, uint32_t stack) {
        size_t n;
        const uint32_t *functions = report_stack(json->report, stack, &n);

        open_group(json, "frames", '[');
        for (size_t i = 0; i < n; i++) {
                open_group(json, NULL, '{');
                add_function(json, functions[i]);
                close_group(json, '}');
        }
        close_group(json, ']');
}

static void add_link(Json *json, const uint32_t *key) {
        char hex[33];

        text_to_hex(hex, (const uint8_t *)(key + 2), 16);
        add_text(json, "trace_id", hex);
        text_to_hex(hex, (const uint8_t *)(key + 6), 8);
        add_text(json, "span_id", hex);
        if (json->report->options.spans)
                add_text(json, "operation", report_operation_name(json->report, key[1]));
}

static void add_object(Json *json, uint32_t object) {
        const Report *report = json->report;
        const ReportObject *row = report_object(report, object);

        add_text(json, "object", report_object_name(report, object));
        add_text(json, "path", report_string(report, row->path));
        add_text(json, "build_id_gnu", report_string(report, row->build_id_gnu));
        add_text(json, "build_id_htlhash", report_string(report, row->build_id_htlhash));
        add_text(json, "names", report_object_state(report, object));
}

static int add_rows(Json *json, const char *key, ReportTable table, uint32_t section, uint32_t operation);

static int add_row(Json *json, ReportTable table, const TallyRow *row) {
        const Report *report = json->report;

        if (table == REPORT_FUNCTIONS) {
                add_function(json, row->key[2]);
                add_number(json, "self", row->self);
                add_number(json, "total", row->total);
                return 0;
        }
        if (table == REPORT_STACKS)
                add_stack(json, row->key[1]);
        else if (table == REPORT_LINKS)
                add_link(json, row->key);
        else if (table == REPORT_REASONS)
                add_text(json, "reason", report_string(report, row->key[1]));
        else if (table == REPORT_OBJECTS)
                add_object(json, row->key[1]);
        else
                add_text(json, "operation", report_operation_name(report, row->key[1]));
        add_number(json, "value", row->self);
        return table == REPORT_OPERATIONS ? add_rows(json, "functions", REPORT_FUNCTIONS, row->key[0], row->key[1]) : 0;
}

static int add_rows(Json *json, const char *key, ReportTable table, uint32_t section, uint32_t operation) {
        _cleanup_(freep) TallyRow *rows = NULL;
        size_t n;
        int r = report_rows(json->report, table, section, operation, &rows, &n);

        if (r)
                return error_fold(r);
        open_group(json, key, '[');
        for (size_t i = 0; i < MIN(n, (size_t)json->top) && !r; i++) {
                open_group(json, NULL, '{');
                r = add_row(json, table, &rows[i]);
                close_group(json, '}');
        }
        close_group(json, ']');
        return r ? error_fold(r) : 0;
}

static int add_section(Json *json, uint32_t section) {
        static const struct {
                const char *key;
                ReportTable table;
        } tables[] = {
                { "truncated_by", REPORT_REASONS }, { "functions", REPORT_FUNCTIONS }, { "objects", REPORT_OBJECTS },
                { "stacks", REPORT_STACKS },        { "spans", REPORT_LINKS },
        };
        const ReportSums *sums = &json->report->sums[section];
        int r = 0;

        add_number(json, "value", sums->value);
        add_number(json, "events", sums->n_events);
        add_number(json, "with_span", sums->linked);
        add_number(json, "truncated", sums->truncated);
        add_number(json, "period_min", (uint64_t)sums->period_min);
        add_number(json, "period_max", (uint64_t)sums->period_max);
        for (size_t i = 0; i < ARRAY_SIZE(tables) && !r; i++)
                r = add_rows(json, tables[i].key, tables[i].table, section, OPERATION_ALL);
        return r ? error_fold(r) : 0;
}

static void add_attributes(Json *json, uint32_t process) {
        size_t n;
        const uint32_t *pairs = report_process(json->report, process, &n);

        open_group(json, "attributes", '{');
        for (size_t i = 0; i < n; i++)
                add_text(json, report_string(json->report, pairs[2 * i]), report_string(json->report, pairs[2 * i + 1]));
        close_group(json, '}');
}

static int add_processes(Json *json, uint32_t kind) {
        _cleanup_(freep) uint32_t *sections = NULL;
        size_t n;
        int r = report_process_sections(json->report, kind, &sections, &n);

        if (r)
                return error_fold(r);
        open_group(json, "processes", '[');
        for (size_t i = 0; i < n && !r; i++) {
                open_group(json, NULL, '{');
                add_attributes(json, report_section(json->report, sections[i])->process);
                r = add_section(json, sections[i]);
                close_group(json, '}');
        }
        close_group(json, ']');
        return r ? error_fold(r) : 0;
}

static int add_kind(Json *json, uint32_t kind) {
        const Report *report = json->report;
        const ReportKind *row = report_kind(report, kind);
        uint32_t section;
        int r;

        if (report_find_section(report, 0, kind, &section))
                return 0;
        open_group(json, NULL, '{');
        add_text(json, "type", report_string(report, row->type));
        add_text(json, "unit", report_string(report, row->unit));
        add_text(json, "period_type", report_string(report, row->period_type));
        add_text(json, "period_unit", report_string(report, row->period_unit));
        r = add_section(json, section);
        if (!r && report->options.spans)
                r = add_rows(json, "operations", REPORT_OPERATIONS, section, OPERATION_ALL);
        if (!r)
                r = add_processes(json, kind);
        close_group(json, '}');
        return r ? error_fold(r) : 0;
}

int report_print_json(const Report *report, const ReportFormat *format, FILE *out) {
        Json json = { .report = report, .out = out, .top = format->top ? format->top : DEFAULT_TOP };
        int r = 0;

        open_group(&json, NULL, '{');
        add_number(&json, "files", format->n_files);
        add_number(&json, "start_unix_nano", report->start_ns < report->end_ns ? report->start_ns : 0);
        add_number(&json, "end_unix_nano", report->end_ns);
        add_number(&json, "processes", report_n_processes(report));
        add_number(&json, "processes_filtered", report_n_filtered(report));
        add_number(&json, "profiles_repeated", report->n_repeated);
        add_number(&json, "rows_left_out", report->n_left_out);
        open_group(&json, "profiles", '[');
        for (uint32_t kind = 0; kind < report->kinds.n_items && !r; kind++)
                r = add_kind(&json, kind);
        close_group(&json, ']');
        close_group(&json, '}');
        fputc('\n', out);
        return r ? error_fold(r) : 0;
}

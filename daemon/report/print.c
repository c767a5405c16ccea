/* SPDX-License-Identifier: Apache-2.0 */

/*
 * The report as text: what was measured, how good it is, then tables over all processes, then
 * a shorter section for each process.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "report/report-private.h"
#include "report/text-table.h"
#include "util/clock.h"
#include "util/error.h"
#include "util/text.h"

enum {
        DEFAULT_TOP = 20,
        DEFAULT_WIDTH = 100,
        INDENT = 2,
        VALUE_MAX = 32,
        STACK_FRAMES = 24,              /* of a longer stack the middle is left out */
};

/* Where a table prints to and what it counts. */
typedef struct Printer {
        const Report *report;
        FILE *out;
        uint32_t top;
        unsigned width;
        uint32_t section;
        const char *unit;
        uint64_t value;                 /* of the section: what shares are of */
} Printer;

static double share(uint64_t part, uint64_t whole) {
        return whole ? 100.0 * (double)part / (double)whole : 0;
}

static const char *scaled(char *to, double value, const char *const *units, const double *steps, size_t n) {
        size_t i = 0;

        while (i + 1 < n && value >= steps[i]) {
                value /= steps[i];
                i++;
        }
        snprintf(to, VALUE_MAX, value < 10 && i ? "%.2f %s" : value < 100 && i ? "%.1f %s" : "%.0f %s", value, units[i]);
        return to;
}

/* A value with its unit, short; numbers of other units are printed as they are. */
static const char *format_value(char *to, const char *unit, double value) {
        static const char *const times[] = { "ns", "µs", "ms", "s" }, *const sizes[] = { "B", "KiB", "MiB", "GiB" };
        static const double time_steps[] = { 1000, 1000, 1000 }, size_steps[] = { 1024, 1024, 1024 };

        if (!strcmp(unit, "nanoseconds"))
                return scaled(to, value, times, time_steps, ARRAY_SIZE(times));
        if (!strcmp(unit, "bytes"))
                return scaled(to, value, sizes, size_steps, ARRAY_SIZE(sizes));
        snprintf(to, VALUE_MAX, "%.0f", value);
        return to;
}

static void print_time(uint64_t realtime_ns, FILE *out) {
        time_t seconds = (time_t)(realtime_ns / NS_PER_SEC);
        struct tm tm;
        char text[64];

        if (!gmtime_r(&seconds, &tm) || !strftime(text, sizeof(text), "%Y-%m-%d %H:%M:%S", &tm))
                return;
        fprintf(out, "%s.%03u UTC", text, (unsigned)(realtime_ns % NS_PER_SEC / NS_PER_MS));
}

static void print_summary(const Report *report, const ReportFormat *format, FILE *out) {
        uint32_t n_filtered = report_n_filtered(report), n_processes = report_n_processes(report);
        char duration[VALUE_MAX];

        fprintf(out, "Files       %zu\n", format->n_files);
        if (report->start_ns < report->end_ns) {
                fputs("Time        ", out);
                print_time(report->start_ns, out);
                format_value(duration, "nanoseconds", (double)(report->end_ns - report->start_ns));
                fprintf(out, ", %s\n", duration);
        }
        fprintf(out, "Processes   %" PRIu32, n_processes);
        if (n_filtered)
                fprintf(out, " (and %" PRIu32 " that were not asked for)", n_filtered);
        fputc('\n', out);
        if (report->n_repeated)
                fprintf(out, "Repeated    %" PRIu64 " profiles that were there before (same profile id), counted once\n",
                        report->n_repeated);
        if (report->n_left_out)
                fprintf(out, "Left out    %" PRIu64 " rows beyond the limits of this report: its tables are too small\n",
                        report->n_left_out);
        if (!n_processes)
                fputs("There are no samples to report.\n", out);
}

static void print_more(const Printer *printer, size_t n_rows, const char *what) {
        if (n_rows > printer->top)
                fprintf(printer->out, "%*s… and %zu more %s\n", INDENT, "", n_rows - printer->top, what);
}

static void add_value(TextTable *table, const Printer *printer, uint64_t value) {
        char text[VALUE_MAX];

        text_table_add(table, "%s", format_value(text, printer->unit, (double)value));
        text_table_add(table, "%.1f%%", share(value, printer->value));
}

static int finish_table(const Printer *printer, TextTable *table, size_t n_rows, const char *title, const char *what) {
        int r = 0;

        if (n_rows) {
                fprintf(printer->out, "\n%s\n", title);
                r = text_table_print(table, INDENT, printer->width, printer->out);
                print_more(printer, n_rows, what);
        }
        text_table_deinit(table);
        return r;
}

static int print_functions(const Printer *printer, uint32_t operation, const char *title) {
        static const Column columns[] = { { "self", COLUMN_RIGHT }, { "", COLUMN_RIGHT }, { "total", COLUMN_RIGHT },
                                          { "", COLUMN_RIGHT }, { "function", COLUMN_CUT }, { "object", COLUMN_CUT } };
        const Report *report = printer->report;
        _cleanup_(freep) TallyRow *rows = NULL;
        TextTable table;
        size_t n;
        int r = report_rows(report, REPORT_FUNCTIONS, printer->section, operation, &rows, &n);

        if (r)
                return error_fold(r);
        text_table_init(&table, columns, ARRAY_SIZE(columns));
        for (size_t i = 0; i < MIN(n, (size_t)printer->top); i++) {
                add_value(&table, printer, rows[i].self);
                add_value(&table, printer, rows[i].total);
                text_table_add(&table, "%s", report_function_name(report, rows[i].key[2]));
                text_table_add(&table, "%s",
                               report_object_name(report, report_function(report, rows[i].key[2])->object));
        }
        return finish_table(printer, &table, n, title, "functions");
}

static int print_objects(const Printer *printer) {
        static const Column columns[] = { { "self", COLUMN_RIGHT }, { "", COLUMN_RIGHT }, { "object", COLUMN_CUT },
                                          { "build id", COLUMN_LEFT }, { "names", COLUMN_CUT } };
        const Report *report = printer->report;
        _cleanup_(freep) TallyRow *rows = NULL;
        TextTable table;
        size_t n;
        int r = report_rows(report, REPORT_OBJECTS, printer->section, 0, &rows, &n);

        if (r)
                return error_fold(r);
        text_table_init(&table, columns, ARRAY_SIZE(columns));
        for (size_t i = 0; i < MIN(n, (size_t)printer->top); i++) {
                const ReportObject *object = report_object(report, rows[i].key[1]);
                const char *id = report_string(report, object->build_id_gnu);

                add_value(&table, printer, rows[i].self);
                text_table_add(&table, "%s", report_object_name(report, rows[i].key[1]));
                text_table_add(&table, "%.12s%s", id, strlen(id) > 12 ? "…" : "");
                text_table_add(&table, "%s", report_object_state(report, rows[i].key[1]));
        }
        return finish_table(printer, &table, n, "Objects", "objects");
}

/* Words separated by arrows, wrapped at the width. */
typedef struct Wrap {
        FILE *out;
        size_t indent, width, at;
} Wrap;

static void wrap_word(Wrap *wrap, const char *text, bool is_first) {
        size_t n = text_columns(text) + (is_first ? 0 : 2);

        if (wrap->at + 1 + n > wrap->width && wrap->at > wrap->indent) {
                fprintf(wrap->out, "\n%*s", (int)wrap->indent, "");
                wrap->at = wrap->indent;
        }
        if (wrap->at > wrap->indent) {
                fputc(' ', wrap->out);
                wrap->at++;
        }
        if (!is_first)
                fputs("← ", wrap->out);
        print_clean(text, wrap->out);
        wrap->at += n;
}

/* Frames without a name are told by their object, a row of them by how many they are: `[libz.so.1] ×3`. */
static const char *frame_text(const Report *report, const uint32_t *functions, size_t n, size_t *n_samep, char *to,
                              size_t size) {
        const char *object = report_object_name(report, report_function(report, functions[0])->object);
        size_t n_same = 1;
        int length;

        *n_samep = 1;
        if (report_function(report, functions[0])->name)
                return report_function_name(report, functions[0]);
        while (n_same < n && functions[n_same] == functions[0])
                n_same++;
        length = snprintf(to, size - 32, object[0] == '[' ? "%.200s" : "[%.200s]", object);
        if (n_same > 1)
                snprintf(to + length, 32, " ×%zu", n_same);
        *n_samep = n_same;
        return to;
}

static void print_stack(const Printer *printer, uint32_t stack, size_t indent) {
        const Report *report = printer->report;
        Wrap wrap = { printer->out, indent, printer->width, indent };
        size_t n, n_same;
        const uint32_t *functions = report_stack(report, stack, &n);
        char text[256];

        if (!n)
                wrap_word(&wrap, "(no stack)", true);
        for (size_t i = 0; i < n; i += n_same) {
                if (n > STACK_FRAMES && i >= STACK_FRAMES / 2 && i < n - STACK_FRAMES / 2) {
                        n_same = n - STACK_FRAMES / 2 - i;
                        snprintf(text, sizeof(text), "(%zu more)", n_same);
                        wrap_word(&wrap, text, false);
                        continue;
                }
                wrap_word(&wrap, frame_text(report, functions + i, n - i, &n_same, text, sizeof(text)), i == 0);
        }
        fputc('\n', printer->out);
}

static int print_stacks(const Printer *printer) {
        _cleanup_(freep) TallyRow *rows = NULL;
        char value[VALUE_MAX];
        size_t n;
        int r = report_rows(printer->report, REPORT_STACKS, printer->section, 0, &rows, &n);

        if (r || !n)
                return r ? error_fold(r) : 0;
        fputs("\nStacks, the innermost function first\n", printer->out);
        for (size_t i = 0; i < MIN(n, (size_t)printer->top); i++) {
                format_value(value, printer->unit, (double)rows[i].self);
                fprintf(printer->out, "%*s%*s%8s  %5.1f%%  ", INDENT, "", (int)(strlen(value) - text_columns(value)), "",
                        value, share(rows[i].self, printer->value));
                print_stack(printer, rows[i].key[1], INDENT + 8 + 2 + 6 + 2);
        }
        print_more(printer, n, "stacks");
        return 0;
}

static int print_spans(const Printer *printer) {
        static const Column columns[] = { { "value", COLUMN_RIGHT }, { "", COLUMN_RIGHT }, { "trace", COLUMN_LEFT },
                                          { "span", COLUMN_LEFT }, { "operation", COLUMN_CUT } };
        const Report *report = printer->report;
        _cleanup_(freep) TallyRow *rows = NULL;
        TextTable table;
        size_t n;
        int r = report_rows(report, REPORT_LINKS, printer->section, 0, &rows, &n);

        if (r)
                return error_fold(r);
        text_table_init(&table, columns, ARRAY_SIZE(columns) - !report->options.spans);
        for (size_t i = 0; i < MIN(n, (size_t)printer->top); i++) {
                char trace[33], span[17];

                text_to_hex(trace, (const uint8_t *)(rows[i].key + 2), 16);
                text_to_hex(span, (const uint8_t *)(rows[i].key + 6), 8);
                add_value(&table, printer, rows[i].self);
                text_table_add(&table, "%s", trace);
                text_table_add(&table, "%s", span);
                if (report->options.spans)
                        text_table_add(&table, "%s", report_operation_name(report, rows[i].key[1]));
        }
        return finish_table(printer, &table, n, "Spans", "spans");
}

static int print_operation_functions(const Printer *printer, const TallyRow *rows, size_t n) {
        for (size_t i = 0; i < MIN(n, (size_t)printer->top); i++) {
                const char *name = report_operation_name(printer->report, rows[i].key[1]);
                Printer part = *printer;
                char title[128];
                int r;

                part.value = rows[i].self;
                part.top = MAX(printer->top / 4, UINT32_C(3));
                snprintf(title, sizeof(title), "Functions of %.100s", name);
                r = print_functions(&part, rows[i].key[1], title);
                if (r)
                        return error_fold(r);
        }
        return 0;
}

static int print_operations(const Printer *printer) {
        static const Column columns[] = { { "value", COLUMN_RIGHT }, { "", COLUMN_RIGHT }, { "operation", COLUMN_CUT } };
        const Report *report = printer->report;
        _cleanup_(freep) TallyRow *rows = NULL;
        TextTable table;
        size_t n;
        int r;

        if (!report->options.spans)
                return 0;
        r = report_rows(report, REPORT_OPERATIONS, printer->section, 0, &rows, &n);
        if (r)
                return error_fold(r);
        text_table_init(&table, columns, ARRAY_SIZE(columns));
        for (size_t i = 0; i < MIN(n, (size_t)printer->top); i++) {
                add_value(&table, printer, rows[i].self);
                text_table_add(&table, "%s", report_operation_name(report, rows[i].key[1]));
        }
        r = finish_table(printer, &table, n, "Operations", "operations");
        return r ? error_fold(r) : print_operation_functions(printer, rows, n);
}

static int print_reasons(const Printer *printer) {
        const Report *report = printer->report;
        const ReportSums *sums = &report->sums[printer->section];
        _cleanup_(freep) TallyRow *rows = NULL;
        char value[VALUE_MAX];
        size_t n;
        int r = report_rows(report, REPORT_REASONS, printer->section, 0, &rows, &n);

        if (r)
                return error_fold(r);
        fprintf(printer->out, "%*struncated   %5.1f%%", INDENT, "", share(sums->truncated, sums->value));
        for (size_t i = 0; i < MIN(n, (size_t)10); i++) {
                fputs(i ? ", " : "  ", printer->out);
                print_clean(report_string(report, rows[i].key[1]), printer->out);
                fprintf(printer->out, " %s", format_value(value, printer->unit, (double)rows[i].self));
        }
        fputc('\n', printer->out);
        return 0;
}

/* How much there is and how good it is. */
static int print_sums(const Printer *printer) {
        const Report *report = printer->report;
        const ReportSums *sums = &report->sums[printer->section];
        const ReportKind *kind = report_kind(report, report_section(report, printer->section)->kind);
        char value[VALUE_MAX];

        fprintf(printer->out, "%*svalue       %s", INDENT, "", format_value(value, printer->unit, (double)sums->value));
        if (sums->measured > 0 && !strcmp(printer->unit, "count")) {
                format_value(value, report_string(report, kind->period_unit), sums->measured);
                fprintf(printer->out, ", which is %s of ", value);
                print_clean(report_string(report, kind->period_type), printer->out);
        }
        fprintf(printer->out, "\n%*swith span   %5.1f%%\n", INDENT, "", share(sums->linked, sums->value));
        return print_reasons(printer);
}

static void print_kind_title(const Printer *printer) {
        const Report *report = printer->report;
        const ReportSums *sums = &report->sums[printer->section];
        const ReportKind *kind = report_kind(report, report_section(report, printer->section)->kind);
        const char *unit = report_string(report, kind->period_unit);
        char value[VALUE_MAX];

        fputs("\nProfile     ", printer->out);
        print_clean(report_string(report, kind->type), printer->out);
        fputs(" in ", printer->out);
        print_clean(report_string(report, kind->unit), printer->out);
        if (sums->period_max) {
                fprintf(printer->out, ", one every %s", format_value(value, unit, (double)sums->period_min));
                if (sums->period_max != sums->period_min)
                        fprintf(printer->out, " to %s", format_value(value, unit, (double)sums->period_max));
                fputs(" of ", printer->out);
                print_clean(report_string(report, kind->period_type), printer->out);
        }
        fputc('\n', printer->out);
}

static int print_attributes(const Printer *printer, uint32_t process) {
        static const Column columns[] = { { "attribute", COLUMN_LEFT }, { "value", COLUMN_CUT } };
        const Report *report = printer->report;
        TextTable table;
        size_t n;
        const uint32_t *pairs = report_process(report, process, &n);

        text_table_init(&table, columns, ARRAY_SIZE(columns));
        for (size_t i = 0; i < n; i++) {
                text_table_add(&table, "%s", report_string(report, pairs[2 * i]));
                text_table_add(&table, "%s", report_string(report, pairs[2 * i + 1]));
        }
        return finish_table(&(Printer){ .out = printer->out, .width = printer->width, .top = UINT32_MAX }, &table, n,
                            "Resource", "");
}

static int print_tables(const Printer *printer) {
        int r = print_functions(printer, OPERATION_ALL, "Functions");

        if (!r)
                r = print_stacks(printer);
        if (!r)
                r = print_spans(printer);
        return r ? error_fold(r) : 0;
}

static Printer printer_for(const Printer *printer, uint32_t section) {
        const Report *report = printer->report;
        Printer part = *printer;

        part.section = section;
        part.unit = report_string(report, report_kind(report, report_section(report, section)->kind)->unit);
        part.value = report->sums[section].value;
        return part;
}

/* What a process is called in a heading: `checkout (pid 4711)`. */
static void name_process(const Report *report, uint32_t process, char *to, size_t size) {
        const char *name = report_attribute(report, process, "process.executable.name");
        const char *service = report_attribute(report, process, "service.name");
        const char *pid = report_attribute(report, process, "process.pid");

        snprintf(to, size, "%.100s%s%.20s%s", name[0] ? name : service[0] ? service : "unnamed", pid[0] ? " (pid " : "",
                 pid, pid[0] ? ")" : "");
}

static int print_process_list(const Printer *printer, const uint32_t *sections, size_t n) {
        static const Column columns[] = { { "value", COLUMN_RIGHT }, { "", COLUMN_RIGHT },
                                          { "with span", COLUMN_RIGHT }, { "truncated", COLUMN_RIGHT },
                                          { "process", COLUMN_CUT }, { "service", COLUMN_CUT } };
        const Report *report = printer->report;
        TextTable table;

        text_table_init(&table, columns, ARRAY_SIZE(columns));
        for (size_t i = 0; i < MIN(n, (size_t)printer->top); i++) {
                const ReportSums *sums = &report->sums[sections[i]];
                uint32_t process = report_section(report, sections[i])->process;
                char name[160];

                name_process(report, process, name, sizeof(name));
                add_value(&table, printer, sums->value);
                text_table_add(&table, "%.1f%%", share(sums->linked, sums->value));
                text_table_add(&table, "%.1f%%", share(sums->truncated, sums->value));
                text_table_add(&table, "%s", name);
                text_table_add(&table, "%s", report_attribute(report, process, "service.name"));
        }
        return finish_table(printer, &table, n, "Processes", "processes");
}

static int print_process(const Printer *printer, uint32_t section) {
        Printer part = printer_for(printer, section);
        uint32_t process = report_section(printer->report, section)->process;
        char name[160];
        int r;

        name_process(printer->report, process, name, sizeof(name));
        fputs("\nProcess     ", part.out);
        print_clean(name, part.out);
        fputc('\n', part.out);
        part.top = MAX(printer->top / 4, UINT32_C(3));
        r = print_sums(&part);
        if (!r)
                r = print_attributes(&part, process);
        return r ? error_fold(r) : print_tables(&part);
}

static int print_processes(const Printer *printer, const uint32_t *sections, size_t n) {
        for (size_t i = 0; i < MIN(n, (size_t)printer->top); i++) {
                int r = print_process(printer, sections[i]);

                if (r)
                        return error_fold(r);
        }
        return 0;
}

static int print_kind(const Printer *base, uint32_t kind) {
        const Report *report = base->report;
        _cleanup_(freep) uint32_t *sections = NULL;
        Printer printer;
        uint32_t section;
        size_t n;
        int r;

        if (report_find_section(report, 0, kind, &section))
                return 0;
        r = report_process_sections(report, kind, &sections, &n);
        if (r)
                return error_fold(r);
        printer = printer_for(base, section);
        print_kind_title(&printer);
        r = print_sums(&printer);
        if (!r)
                r = n == 1 ? print_attributes(&printer, report_section(report, sections[0])->process)
                           : print_process_list(&printer, sections, n);
        if (!r)
                r = print_operations(&printer);
        if (!r)
                r = print_objects(&printer);
        if (!r)
                r = print_tables(&printer);
        if (!r && n > 1)
                r = print_processes(&printer, sections, n);
        return r ? error_fold(r) : 0;
}

int report_print(const Report *report, const ReportFormat *format, FILE *out) {
        Printer printer = {
                .report = report, .out = out,
                .top = format->top ? format->top : DEFAULT_TOP,
                .width = format->width ? MIN(MAX(format->width, 80u), 200u) : DEFAULT_WIDTH,
        };

        print_summary(report, format, out);
        for (uint32_t kind = 0; kind < report->kinds.n_items; kind++) {
                int r = print_kind(&printer, kind);

                if (r)
                        return error_fold(r);
        }
        return 0;
}

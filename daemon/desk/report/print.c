/* SPDX-License-Identifier: Apache-2.0 */

/*
 * The report for people, as text or Markdown: what was measured, how good it is, then tables over all
 * processes, then a shorter section for each process.
 */

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/data/short-name.h"
#include "core/base/util/error.h"
#include "core/base/util/text.h"
#include "core/profile/shown.h"
#include "desk/report/glossary.h"
#include "desk/report/report-private.h"
#include "desk/report/sheet.h"

typedef struct Printer {
        const Report *report;
        Sheet sheet;
        uint32_t top;
        uint32_t section;
        const char *unit;
        uint64_t value;                 /* of the section: what shares are of */
        bool has_spans;                 /* some sample of the report has one */
} Printer;

/* Tables: each of one section. */

enum { STACK_FRAMES = 24 };             /* of a longer stack the middle is left out */

static void add_value(TextTable *table, const Printer *printer, uint64_t value) {
        char text[SHEET_VALUE_MAX];

        text_table_add(table, "%s", sheet_value(text, printer->unit, (double)value));
        text_table_add(table, "%.1f%%", sheet_share(value, printer->value));
}

/* What a process is called in a heading: `checkout (pid 4711)`. */
static void print_process_name(const Report *report, uint32_t process, char *to, size_t size) {
        const char *name = report_attribute(report, process, "process.executable.name");
        const char *service = report_attribute(report, process, "service.name");
        const char *pid = report_attribute(report, process, "process.pid");

        snprintf(to, size, "%.100s%s%.20s%s",
                 name[0]              ? name
                         : service[0] ? service
                                      : "unnamed",
                 pid[0] ? " (pid " : "", pid, pid[0] ? ")" : "");
}

static int print_functions(const Printer *printer, uint32_t operation, const char *title) {
        static const Column columns[] = { { "self", COLUMN_RIGHT },   { "", COLUMN_RIGHT },
                                          { "total", COLUMN_RIGHT },  { "", COLUMN_RIGHT },
                                          { "function", COLUMN_NAME }, { "object", COLUMN_CUT } };
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
        return sheet_table(&printer->sheet, &table, title, n, "functions");
}

static int print_objects(const Printer *printer) {
        static const Column columns[] = { { "self", COLUMN_RIGHT },
                                          { "", COLUMN_RIGHT },
                                          { "object", COLUMN_CUT },
                                          { "build id", COLUMN_LEFT },
                                          { "names", COLUMN_CUT } };
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
        return sheet_table(&printer->sheet, &table, "Objects", n, "objects");
}

/* Where code of a virtual machine ran: whether it was interpreted, compiled, or none of its own. */
static int print_frame_kinds(const Printer *printer) {
        static const Column columns[] = { { "self", COLUMN_RIGHT },
                                          { "", COLUMN_RIGHT },
                                          { "kind", COLUMN_LEFT } };
        const Report *report = printer->report;
        _cleanup_(freep) TallyRow *rows = NULL;
        TextTable table;
        size_t n;
        int r;

        if (!report->has_compilations)
                return 0;
        r = report_rows(report, REPORT_FRAME_KINDS, printer->section, 0, &rows, &n);
        if (r)
                return error_fold(r);
        text_table_init(&table, columns, ARRAY_SIZE(columns));
        for (size_t i = 0; i < MIN(n, (size_t)printer->top); i++) {
                add_value(&table, printer, rows[i].self);
                text_table_add(&table, "%s", report_string(report, rows[i].key[1]));
        }
        return sheet_table(&printer->sheet, &table, "Innermost frames", n, "kinds of frames");
}

/* Bytes of anonymous memory alone: a fault of a file may be for many pages, and a huge page is not known. */
static bool has_bytes(const Report *report, const char *memory) {
        return report->page_bytes && !report->has_page_sizes &&
                (!strcmp(memory, "heap") || !strcmp(memory, "stack") || !strcmp(memory, "anonymous"));
}

static int print_memory(const Printer *printer) {
        static const Column columns[] = { { "faults", COLUMN_RIGHT },
                                          { "", COLUMN_RIGHT },
                                          { "about", COLUMN_RIGHT },
                                          { "memory", COLUMN_CUT } };
        const Report *report = printer->report;
        _cleanup_(freep) TallyRow *rows = NULL;
        TextTable table;
        size_t n;
        int r = report_rows(report, REPORT_MEMORY, printer->section, 0, &rows, &n);

        if (r || !n)
                return error_fold(r);
        text_table_init(&table, columns, ARRAY_SIZE(columns));
        for (size_t i = 0; i < MIN(n, (size_t)printer->top); i++) {
                const char *memory = report_string(report, rows[i].key[1]);
                char text[SHEET_VALUE_MAX] = "";

                if (has_bytes(report, memory))
                        sheet_value(text, "bytes", (double)rows[i].self * (double)report->page_bytes);
                add_value(&table, printer, rows[i].self);
                text_table_add(&table, "%s", text);
                text_table_add(&table, "%s", memory);
        }
        return sheet_table(&printer->sheet, &table, "Memory", n, "kinds of memory");
}

/* Words separated by arrows, wrapped at the width; Markdown wraps by itself. */
typedef struct Wrap {
        const Sheet *sheet;
        size_t indent, at;
} Wrap;

static void wrap_word(Wrap *wrap, const char *text, bool is_first) {
        size_t n = text_columns(text) + (is_first ? 0 : 2);
        FILE *out = wrap->sheet->out;

        if (!wrap->sheet->markdown && wrap->at + 1 + n > wrap->sheet->width && wrap->at > wrap->indent) {
                fprintf(out, "\n%*s", (int)wrap->indent, "");
                wrap->at = wrap->indent;
        }
        if (wrap->at > wrap->indent) {
                fputc(' ', out);
                wrap->at++;
        }
        if (!is_first)
                fputs("← ", out);
        sheet_print(wrap->sheet, text);
        wrap->at += n;
}

/* Frames without a name are told by their object, a row of them by how many they are: `[libz.so.1] ×3`. */
static const char *frame_text(const Report *report, const uint32_t *functions, size_t n, size_t *n_samep,
                              char *to, size_t size) {
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
        Wrap wrap = { &printer->sheet, indent, indent };
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
                wrap_word(&wrap, frame_text(report, functions + i, n - i, &n_same, text, sizeof(text)),
                          i == 0);
        }
        fputs(printer->sheet.markdown ? " |\n" : "\n", printer->sheet.out);
}

static void begin_stack(const Printer *printer, uint64_t value) {
        char text[SHEET_VALUE_MAX];

        sheet_value(text, printer->unit, (double)value);
        if (printer->sheet.markdown)
                fprintf(printer->sheet.out, "| %s | %.1f%% | ", text, sheet_share(value, printer->value));
        else
                fprintf(printer->sheet.out, "%*s%*s%8s  %5.1f%%  ", SHEET_INDENT, "",
                        (int)(strlen(text) - text_columns(text)), "", text,
                        sheet_share(value, printer->value));
}

static int print_stacks(const Printer *printer) {
        _cleanup_(freep) TallyRow *rows = NULL;
        size_t n;
        int r = report_rows(printer->report, REPORT_STACKS, printer->section, 0, &rows, &n);

        if (r || !n)
                return r ? error_fold(r) : 0;
        sheet_title(&printer->sheet, "Stacks, the innermost function first");
        if (printer->sheet.markdown)
                fputs("| self | % | stack |\n|---:|---:|---|\n", printer->sheet.out);
        for (size_t i = 0; i < MIN(n, (size_t)printer->top); i++) {
                begin_stack(printer, rows[i].self);
                print_stack(printer, rows[i].key[1], SHEET_INDENT + 8 + 2 + 6 + 2);
        }
        sheet_more(&printer->sheet, n, printer->top, "stacks");
        return 0;
}

static int print_spans(const Printer *printer) {
        static const Column columns[] = { { "value", COLUMN_RIGHT },
                                          { "", COLUMN_RIGHT },
                                          { "trace", COLUMN_LEFT },
                                          { "span", COLUMN_LEFT },
                                          { "operation", COLUMN_CUT } };
        const Report *report = printer->report;
        _cleanup_(freep) TallyRow *rows = NULL;
        TextTable table;
        size_t n;
        int r = report_rows(report, REPORT_LINKS, printer->section, 0, &rows, &n);

        if (r)
                return error_fold(r);
        text_table_init(&table, columns, ARRAY_SIZE(columns) - !report->has_operations);
        for (size_t i = 0; i < MIN(n, (size_t)printer->top); i++) {
                char trace[33], span[17];

                text_to_hex(trace, (const uint8_t *)(rows[i].key + 2), 16);
                text_to_hex(span, (const uint8_t *)(rows[i].key + 6), 8);
                add_value(&table, printer, rows[i].self);
                text_table_add(&table, "%s", trace);
                text_table_add(&table, "%s", span);
                if (report->has_operations)
                        text_table_add(&table, "%s", report_operation_name(report, rows[i].key[1]));
        }
        return sheet_table(&printer->sheet, &table, "Spans", n, "spans");
}

/* `checkout`, or `span 0000000000000014`. */
static void add_span(TextTable *table, const Report *report, uint32_t operation,
                     const uint8_t span[static 8]) {
        char id[17];

        text_to_hex(id, span, 8);
        if (operation == OPERATION_NOT_LISTED)
                text_table_add(table, "span %s", id);
        else
                text_table_add(table, "%s", report_operation_name(report, operation));
}

static void add_waker(TextTable *table, const Report *report, const ReportWaitKey *wait) {
        if (wait->waker_operation != OPERATION_NO_SPAN)
                add_span(table, report, wait->waker_operation, wait->waker_span);
        else if (wait->waker_thread)
                text_table_add(table, "thread %" PRIu32, wait->waker_thread);
        else
                text_table_add(table, "%s", report_string(report, wait->waker));
}

/* Where the waker was as it ended the wait. */
static void add_waker_function(TextTable *table, const Report *report, const ReportWaitKey *wait) {
        const char *name = "";

        if (wait->waker_function) {
                uint32_t function = report_function(report, wait->waker_function - 1)->name;

                name = function ? report_string(report, function) : "(no name)";
        }
        text_table_add(table, "%s", name);
}

/* `read pipe`, or `futex monitor shop.Cart of thread 4712`. */
static void add_reason(TextTable *table, const Report *report, const ReportWaitKey *wait) {
        const uint32_t words[] = { wait->reason, wait->file, wait->lock_kind, wait->lock_class };
        char text[256] = "", owner[24] = "";

        for (size_t i = 0; i < ARRAY_SIZE(words); i++) {
                size_t size = strlen(text);

                if (words[i])
                        snprintf(text + size, sizeof(text) - size, "%s%s", i ? " " : "",
                                 report_string(report, words[i]));
        }
        if (wait->lock_owner)
                snprintf(owner, sizeof(owner), " of thread %" PRIu32, wait->lock_owner);
        text_table_add(table, "%s%s", text, owner);
}

/* What each span, or operation, had no CPU for, and who ended that. */
static int print_waits(const Printer *printer) {
        static const Column columns[] = { { "value", COLUMN_RIGHT }, { "", COLUMN_RIGHT },
                                          { "who", COLUMN_CUT },     { "state", COLUMN_LEFT },
                                          { "on", COLUMN_LEFT },     { "ended by", COLUMN_CUT },
                                          { "in", COLUMN_CUT } };
        const Report *report = printer->report;
        _cleanup_(freep) TallyRow *rows = NULL;
        TextTable table;
        bool has_functions = false;
        size_t n;
        int r = report_rows(report, REPORT_WAITS, printer->section, 0, &rows, &n);

        if (r)
                return error_fold(r);
        if (!n)
                return 0;
        for (size_t i = 0; i < n; i++)
                has_functions = has_functions || ((const ReportWaitKey *)rows[i].key)->waker_function;
        text_table_init(&table, columns, ARRAY_SIZE(columns) - !has_functions);
        for (size_t i = 0; i < MIN(n, (size_t)printer->top); i++) {
                const ReportWaitKey *wait = (const ReportWaitKey *)rows[i].key;

                add_value(&table, printer, rows[i].self);
                add_span(&table, report, wait->operation, wait->span);
                text_table_add(&table, "%s", report_string(report, wait->state));
                add_reason(&table, report, wait);
                add_waker(&table, report, wait);
                if (has_functions)
                        add_waker_function(&table, report, wait);
        }
        return sheet_table(&printer->sheet, &table, "Waits", n, "kinds of waits");
}

/* `3`, or nothing where it is not known. */
static void add_known(TextTable *table, uint64_t number, bool known) {
        if (known)
                text_table_add(table, "%" PRIu64, number);
        else
                text_table_add(table, "%s", "");
}

/* Where more than one process is told of, each row says whose it is. */
static void add_coroutine(TextTable *table, const Printer *printer, const ReportCoroutine *coroutine,
                          const char *state) {
        const Report *report = printer->report;
        char process[160];

        add_known(table, coroutine->station - 1u, coroutine->station);
        text_table_add(table, "%s", report_string(report, coroutine->probe_id));
        add_known(table, coroutine->birth_ns, coroutine->birth_ns);
        text_table_add(table, "%s", state);
        print_process_name(report, coroutine->process, process, sizeof(process));
        if (!report_section(report, printer->section)->process)
                text_table_add(table, "%s", process);
}

/* Tasks have names, and neither a station nor a birth: they have a table of their own. Return: how many. */
static size_t take_tasks(const Printer *printer, TallyRow *rows, size_t n, bool are_tasks) {
        size_t n_taken = 0;

        for (size_t i = 0; i < n; i++) {
                const ReportCoroutine *coroutine = report_coroutine(printer->report, rows[i].key[1]);
                bool is_task = coroutine->name && !coroutine->station;

                if (is_task == are_tasks)
                        rows[n_taken++] = rows[i];
        }
        return n_taken;
}

static int print_tasks(const Printer *printer) {
        static const Column columns[] = { { "value", COLUMN_RIGHT }, { "", COLUMN_RIGHT },
                                          { "task", COLUMN_CUT }, { "process", COLUMN_CUT } };
        const Report *report = printer->report;
        bool one_process = report_section(report, printer->section)->process;
        _cleanup_(freep) TallyRow *rows = NULL;
        TextTable table;
        size_t n;
        int r = report_rows(report, REPORT_COROUTINES, printer->section, 0, &rows, &n);

        if (r)
                return error_fold(r);
        n = take_tasks(printer, rows, n, true);
        text_table_init(&table, columns, ARRAY_SIZE(columns) - one_process);
        for (size_t i = 0; i < MIN(n, (size_t)printer->top); i++) {
                const ReportCoroutine *task = report_coroutine(report, rows[i].key[1]);
                char process[160];

                add_value(&table, printer, rows[i].self);
                text_table_add(&table, "%s", report_string(report, task->name));
                print_process_name(report, task->process, process, sizeof(process));
                if (!one_process)
                        text_table_add(&table, "%s", process);
        }
        return sheet_table(&printer->sheet, &table, "Tasks", n, "tasks");
}

static int print_coroutines(const Printer *printer) {
        static const Column columns[] = { { "value", COLUMN_RIGHT },     { "", COLUMN_RIGHT },
                                          { "suspended", COLUMN_RIGHT }, { "station", COLUMN_RIGHT },
                                          { "probe id", COLUMN_LEFT },   { "birth", COLUMN_RIGHT },
                                          { "state", COLUMN_CUT },       { "process", COLUMN_CUT } };
        const Report *report = printer->report;
        bool one_process = report_section(report, printer->section)->process;
        _cleanup_(freep) TallyRow *rows = NULL;
        char suspended[SHEET_VALUE_MAX];
        TextTable table;
        size_t n;
        int r = report_rows(report, REPORT_COROUTINES, printer->section, 0, &rows, &n);

        if (r)
                return error_fold(r);
        n = take_tasks(printer, rows, n, false);
        text_table_init(&table, columns, ARRAY_SIZE(columns) - one_process);
        for (size_t i = 0; i < MIN(n, (size_t)printer->top); i++) {
                add_value(&table, printer, rows[i].self);
                text_table_add(&table, "%s",
                               sheet_value(suspended, "nanoseconds",
                                           (double)report_suspended_ns(report, rows[i].key[1])));
                add_coroutine(&table, printer, report_coroutine(report, rows[i].key[1]),
                              report_string(report, rows[i].key[2]));
        }
        return sheet_table(&printer->sheet, &table, "Coroutines", n, "coroutines");
}

/* Functions of samples without an operation are counted with a list alone. */
static int print_operation_functions(const Printer *printer, const TallyRow *rows, size_t n) {
        for (size_t i = 0; i < MIN(n, (size_t)printer->top); i++) {
                const char *name = report_operation_name(printer->report, rows[i].key[1]);
                Printer part = *printer;
                char title[128];
                int r;

                if (rows[i].key[1] < OPERATION_FIRST && !printer->report->options.spans)
                        continue;
                part.value = rows[i].self;
                part.top = MAX(printer->top / 4, UINT32_C(3));
                snprintf(title, sizeof(title), "Functions of %.100s", name);
                r = print_functions(&part, rows[i].key[1], title);
                if (r)
                        return error_fold(r);
        }
        return 0;
}

static int print_operation_table(const Printer *printer, const TallyRow *rows, size_t n) {
        static const Column columns[] = { { "value", COLUMN_RIGHT },
                                          { "", COLUMN_RIGHT },
                                          { "operation", COLUMN_CUT } };
        TextTable table;

        text_table_init(&table, columns, ARRAY_SIZE(columns));
        for (size_t i = 0; i < MIN(n, (size_t)printer->top); i++) {
                add_value(&table, printer, rows[i].self);
                text_table_add(&table, "%s", report_operation_name(printer->report, rows[i].key[1]));
        }
        return sheet_table(&printer->sheet, &table, "Operations", n, "operations");
}

/* @with_functions: then the functions of each operation. */
static int print_operations(const Printer *printer, bool with_functions) {
        _cleanup_(freep) TallyRow *rows = NULL;
        size_t n;
        int r;

        if (!printer->report->has_operations)
                return 0;
        r = report_rows(printer->report, REPORT_OPERATIONS, printer->section, 0, &rows, &n);
        if (!r)
                r = print_operation_table(printer, rows, n);
        return r || !with_functions ? error_fold(r) : print_operation_functions(printer, rows, n);
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
        return sheet_table(&printer->sheet, &table, "Resource", n, "attributes");
}

static int print_process_list(const Printer *printer, const uint32_t *sections, size_t n) {
        static const Column columns[] = { { "value", COLUMN_RIGHT }, { "", COLUMN_RIGHT },
                                          { "with span", COLUMN_RIGHT }, { "incomplete", COLUMN_RIGHT },
                                          { "process", COLUMN_CUT }, { "service", COLUMN_CUT } };
        static const Column spanless[] = { { "value", COLUMN_RIGHT }, { "", COLUMN_RIGHT },
                                           { "incomplete", COLUMN_RIGHT }, { "process", COLUMN_CUT },
                                           { "service", COLUMN_CUT } };
        const Report *report = printer->report;
        TextTable table;

        text_table_init(&table, printer->has_spans ? columns : spanless,
                        printer->has_spans ? ARRAY_SIZE(columns) : ARRAY_SIZE(spanless));
        for (size_t i = 0; i < MIN(n, (size_t)printer->top); i++) {
                const ReportSums *sums = &report->sums[sections[i]];
                uint32_t process = report_section(report, sections[i])->process;
                char name[160];

                print_process_name(report, process, name, sizeof(name));
                add_value(&table, printer, sums->value);
                if (printer->has_spans)
                        text_table_add(&table, "%.1f%%", sheet_share(sums->linked, sums->value));
                text_table_add(&table, "%.1f%%", sheet_share(sums->truncated, sums->value));
                text_table_add(&table, "%s", name);
                text_table_add(&table, "%s", report_attribute(report, process, "service.name"));
        }
        return sheet_table(&printer->sheet, &table, "Processes", n, "processes");
}

/* The whole report. */

static void print_time_range(const Report *report, const Sheet *sheet) {
        char duration[SHEET_VALUE_MAX], start[64];

        if (report->start_ns >= report->end_ns || !report->start_ns)
                return;
        sheet_fact(sheet, 0, "Time", "%s, %s", sheet_time(start, report->start_ns),
                   sheet_value(duration, "nanoseconds", (double)(report->end_ns - report->start_ns)));
}

static void print_filtered(const Report *report, const ReportFormat *format, const Sheet *sheet) {
        if (format->n_filtered)
                sheet_fact(sheet, 0, "Filtered", "%" PRIu64 " events that were not asked for",
                           format->n_filtered);
        if (format->n_untimed)
                sheet_fact(sheet, 0, "Untimed",
                           "%" PRIu64 " events have no time, so that none can be chosen by it; left out",
                           format->n_untimed);
}

static void print_summary(const Report *report, const ReportFormat *format, const Sheet *sheet) {
        uint32_t n_filtered = report_n_filtered(report), n_processes = report_n_processes(report);
        uint64_t n_repeated = report->n_repeated + format->n_repeated;

        sheet_fact(sheet, 0, "Files", "%zu", format->n_files);
        print_time_range(report, sheet);
        if (n_filtered)
                sheet_fact(sheet, 0, "Processes", "%" PRIu32 " (and %" PRIu32 " that were not asked for)",
                           n_processes, n_filtered);
        else
                sheet_fact(sheet, 0, "Processes", "%" PRIu32, n_processes);
        print_filtered(report, format, sheet);
        if (n_repeated)
                sheet_fact(sheet, 0, "Repeated",
                           "%" PRIu64 " profiles that were there before (same profile id), counted once",
                           n_repeated);
        if (report->n_left_out)
                sheet_fact(sheet, 0, "Left out",
                           "%" PRIu64 " rows beyond the limits of this report: its tables are too small",
                           report->n_left_out);
        if (!n_processes)
                sheet_note(sheet, "There are no samples to report.");
}

static int print_reasons(const Printer *printer) {
        const Report *report = printer->report;
        const ReportSums *sums = &report->sums[printer->section];
        _cleanup_(freep) TallyRow *rows = NULL;
        char value[SHEET_VALUE_MAX];
        Text text = { 0 };
        size_t n;
        int r = report_rows(report, REPORT_REASONS, printer->section, 0, &rows, &n);

        if (r)
                return error_fold(r);
        text_printf(&text, "%5.1f%%", sheet_share(sums->truncated, sums->value));
        for (size_t i = 0; i < MIN(n, (size_t)10); i++)
                text_printf(&text, "%s%s (%s)", i ? ", " : ", ended at ",
                            glossary_end(report_string(report, rows[i].key[1])),
                            sheet_value(value, printer->unit, (double)rows[i].self));
        r = text.failed ? error_origin(-ENOMEM) : 0;
        if (!r)
                sheet_fact(&printer->sheet, SHEET_INDENT, "incomplete", "%s", text.data);
        text_deinit(&text);
        return r;
}

/* The ends that this report shows, one line each. */
static int explain_reasons(const Printer *printer) {
        _cleanup_(freep) TallyRow *rows = NULL;
        size_t n;
        int r = report_rows(printer->report, REPORT_REASONS, printer->section, 0, &rows, &n);

        for (size_t i = 0; i < n && !r; i++) {
                const char *reason = report_string(printer->report, rows[i].key[1]),
                           *meaning = glossary_explain_end(reason);

                if (meaning)
                        sheet_note(&printer->sheet, "Ended at %s (%s): %s", glossary_end(reason), reason, meaning);
        }
        return r ? error_fold(r) : 0;
}

/* How much there is and how good it is. */
static int print_sums(const Printer *printer) {
        const Report *report = printer->report;
        const ReportSums *sums = &report->sums[printer->section];
        const ReportKind *kind = report_kind(report, report_section(report, printer->section)->kind);
        char value[SHEET_VALUE_MAX], measured[SHEET_VALUE_MAX];

        sheet_value(value, printer->unit, (double)sums->value);
        if (sums->measured > 0 && !strcmp(printer->unit, "count"))
                sheet_fact(&printer->sheet, SHEET_INDENT, "value", "%s, which is %s of %s", value,
                           sheet_value(measured, report_string(report, kind->period_unit), sums->measured),
                           report_string(report, kind->period_type));
        else
                sheet_fact(&printer->sheet, SHEET_INDENT, "value", "%s", value);
        if (printer->has_spans)
                sheet_fact(&printer->sheet, SHEET_INDENT, "with span", "%5.1f%%",
                           sheet_share(sums->linked, sums->value));
        if (sums->in_coroutines)
                sheet_fact(&printer->sheet, SHEET_INDENT, "coroutine", "%5.1f%%",
                           sheet_share(sums->in_coroutines, sums->value));
        return print_reasons(printer);
}

bool report_say_uneven(const Report *report, uint32_t section, const Sheet *sheet) {
        const ReportSums *sums = &report->sums[section];
        const ReportKind *kind = report_kind(report, report_section(report, section)->kind);

        if (strcmp(report_string(report, kind->unit), "count") ||
            strcmp(report_string(report, kind->period_type), "cpu") ||
            !shown_is_uneven(sums->period_min, sums->period_max))
                return false;
        sheet_note(sheet, "Samples count alike here, but stand for different times, as with a boost: "
                           "--wall has their time.");
        return true;
}

static void print_kind_title(const Printer *printer) {
        const Report *report = printer->report;
        const ReportSums *sums = &report->sums[printer->section];
        const ReportKind *kind = report_kind(report, report_section(report, printer->section)->kind);
        const char *unit = report_string(report, kind->period_unit),
                   *type = report_string(report, kind->period_type);
        const char *name = report_string(report, kind->type), *what = report_string(report, kind->unit);
        char low[SHEET_VALUE_MAX], high[SHEET_VALUE_MAX];

        sheet_value(low, unit, (double)sums->period_min);
        sheet_value(high, unit, (double)sums->period_max);
        if (!sums->period_max)
                sheet_part(&printer->sheet, 1, "Profile", "%s in %s", name, what);
        else if (sums->period_max == sums->period_min)
                sheet_part(&printer->sheet, 1, "Profile", "%s in %s, one every %s of %s", name, what, low,
                           type);
        else
                sheet_part(&printer->sheet, 1, "Profile", "%s in %s, one every %s to %s of %s", name, what,
                           low, high, type);
}

static int print_tables(const Printer *printer) {
        int r = print_functions(printer, OPERATION_ALL, "Functions");

        if (!r)
                r = print_stacks(printer);
        if (!r)
                r = print_waits(printer);
        if (!r)
                r = print_spans(printer);
        if (!r)
                r = print_coroutines(printer);
        if (!r)
                r = print_tasks(printer);
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

static int print_process(const Printer *printer, uint32_t section) {
        Printer part = printer_for(printer, section);
        uint32_t process = report_section(printer->report, section)->process;
        char name[160];
        int r;

        print_process_name(printer->report, process, name, sizeof(name));
        sheet_part(&part.sheet, 2, "Process", "%s", name);
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

/* What is left out of a brief one can be had from the file. */
static int print_kind_briefly(const Printer *printer) {
        int r = print_functions(printer, OPERATION_ALL, "Functions");

        if (!r)
                r = print_memory(printer);
        if (!r)
                r = print_waits(printer);
        if (!r)
                r = print_operations(printer, false);
        if (!r)
                r = print_spans(printer);
        return r ? error_fold(r) : print_coroutines(printer);
}

static int print_kind_fully(const Printer *printer, const uint32_t *sections, size_t n) {
        int r = n == 1 ? print_attributes(printer, report_section(printer->report, sections[0])->process)
                       : print_process_list(printer, sections, n);

        if (!r)
                r = print_operations(printer, true);
        if (!r)
                r = print_memory(printer);
        if (!r)
                r = print_objects(printer);
        if (!r)
                r = print_frame_kinds(printer);
        if (!r)
                r = print_tables(printer);
        if (!r && n > 1)
                r = print_processes(printer, sections, n);
        return r ? error_fold(r) : 0;
}

static int print_kind(const Printer *base, const ReportFormat *format, uint32_t kind) {
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
        report_say_uneven(report, section, &printer.sheet);
        if (!r && format->explain)
                r = explain_reasons(&printer);
        if (r)
                return error_fold(r);
        return format->brief ? print_kind_briefly(&printer) : print_kind_fully(&printer, sections, n);
}

/* The share of samples with a span says nothing where none could have one. */
static bool has_spans(const Report *report) {
        for (uint32_t i = 0; i < report->sections.n_items; i++)
                if (report->sums[i].linked)
                        return true;
        return false;
}

int report_print(const Report *report, const ReportFormat *format, FILE *out) {
        Printer printer = {
                .report = report,
                .has_spans = has_spans(report),
                .sheet = sheet_make(out, format->width, format->markdown),
                .top = format->top ? format->top : SHEET_DEFAULT_TOP,
        };

        if (format->markdown)
                fputs("# Profile report\n\n", out);
        if (!format->brief)
                print_summary(report, format, &printer.sheet);
        for (uint32_t kind = 0; kind < report->kinds.n_items; kind++) {
                int r = print_kind(&printer, format, kind);

                if (r)
                        return error_fold(r);
        }
        if (format->explain)
                glossary_explain_report(&printer.sheet);
        return 0;
}

/* SPDX-License-Identifier: Apache-2.0 */

/*
 * The report for people, as text or Markdown: what was measured, how good it is, then tables over all
 * processes, then a shorter section for each process.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/util/error.h"
#include "base/util/text.h"
#include "formats/report/print-private.h"

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
                text_printf(&text, "%s%s %s", i ? ", " : "  ", report_string(report, rows[i].key[1]),
                            sheet_value(value, printer->unit, (double)rows[i].self));
        r = text.failed ? error_origin(-ENOMEM) : 0;
        if (!r)
                sheet_fact(&printer->sheet, SHEET_INDENT, "truncated", "%s", text.data);
        text_deinit(&text);
        return r;
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
        sheet_fact(&printer->sheet, SHEET_INDENT, "with span", "%5.1f%%",
                   sheet_share(sums->linked, sums->value));
        if (sums->in_coroutines)
                sheet_fact(&printer->sheet, SHEET_INDENT, "coroutine", "%5.1f%%",
                           sheet_share(sums->in_coroutines, sums->value));
        return print_reasons(printer);
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
                r = print_spans(printer);
        if (!r)
                r = print_coroutines(printer);
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
                r = print_spans(printer);
        return r ? error_fold(r) : print_coroutines(printer);
}

static int print_kind_fully(const Printer *printer, const uint32_t *sections, size_t n) {
        int r = n == 1 ? print_attributes(printer, report_section(printer->report, sections[0])->process)
                       : print_process_list(printer, sections, n);

        if (!r)
                r = print_operations(printer);
        if (!r)
                r = print_objects(printer);
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
        if (r)
                return error_fold(r);
        return format->brief ? print_kind_briefly(&printer) : print_kind_fully(&printer, sections, n);
}

int report_print(const Report *report, const ReportFormat *format, FILE *out) {
        Printer printer = {
                .report = report,
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
        return 0;
}

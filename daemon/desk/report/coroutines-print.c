/* SPDX-License-Identifier: Apache-2.0 */

/* A report of coroutines for people: as text or Markdown. */
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/data/intern.h"
#include "core/base/util/clock.h"
#include "core/base/util/error.h"
#include "core/base/util/macro.h"
#include "desk/report/coroutines-private.h"
#include "desk/report/sheet.h"

enum {
        MAX_NAMED = 1 << 16,            /* addresses with the most time, whose functions are looked up */
};

typedef struct Printer {
        const CoroutineReport *report;
        Sheet sheet;
        uint32_t top;
        const CoroutineFormat *format;
} Printer;

static void add_time(TextTable *table, uint64_t ns) {
        char text[SHEET_VALUE_MAX];

        text_table_add(table, "%s", sheet_value(text, "nanoseconds", (double)ns));
}

/* In a narrow table what matters most comes first, and all coroutines may be in an anonymous namespace. */
static const char *shorten(const char *name) {
        static const char prefix[] = "(anonymous namespace)::";

        return strncmp(name, prefix, sizeof(prefix) - 1) ? name : name + sizeof(prefix) - 1;
}

static void add_address(TextTable *table, const Printer *printer, const Coroutine *c, uint64_t address) {
        const char *name = printer->format->name
                ? printer->format->name(printer->format->userdata, c, address)
                : NULL;

        text_table_add(table, "%s%s0x%" PRIx64,
                       name ? (printer->format->markdown ? name : shorten(name)) : "", name ? " " : "",
                       address);
}

static uint32_t count_ends(const CoroutineReport *report, CoroutineEnd end) {
        uint32_t n = 0;

        for (uint32_t i = 0; i < report->n_coroutines; i++)
                n += coroutine_end(report, &report->coroutines[i]) == end;
        return n;
}

static void print_oddities(const Printer *printer, const CoroutineFormat *format) {
        const CoroutineReport *report = printer->report;

        if (report->sums.n_lost)
                sheet_fact(&printer->sheet, 0, "Lost",
                           "%" PRIu64 " events (%.1f %%) were overwritten before they could be read",
                           report->sums.n_lost,
                           sheet_share(report->sums.n_lost, report->sums.n_lost + report->sums.n_events));
        if (report->sums.n_unknown)
                sheet_fact(&printer->sheet, 0, "Not known",
                           "%" PRIu64 " stretches have lost an end and count nowhere",
                           report->sums.n_unknown);
        if (report->n_filtered)
                sheet_fact(&printer->sheet, 0, "Filtered", "%" PRIu64 " events that were not asked for",
                           report->n_filtered);
        if (report->n_left_out)
                sheet_fact(&printer->sheet, 0, "Left out", "%" PRIu64 " events of more coroutines than fit",
                           report->n_left_out);
        if (report->n_placeless)
                sheet_fact(&printer->sheet, 0, "Left out",
                           "%" PRIu64 " suspensions at more addresses than fit", report->n_placeless);
        if (format->n_malformed)
                sheet_fact(&printer->sheet, 0, "Malformed", "%" PRIu64 " lines are no events",
                           format->n_malformed);
}

static void print_summary(const Printer *printer, const CoroutineFormat *format) {
        const CoroutineReport *report = printer->report;
        const Sheet *sheet = &printer->sheet;
        char a[SHEET_VALUE_MAX], b[SHEET_VALUE_MAX];
        uint64_t ns = report->sums.n_events ? report->last_ns - report->first_ns : 0;

        sheet_fact(sheet, 0, "Traces", "%zu", format->n_files);
        sheet_fact(sheet, 0, "Time", "%s", sheet_value(a, "nanoseconds", (double)ns));
        sheet_fact(sheet, 0, "Events",
                   "%" PRIu64 " (%" PRIu64 " resumes, %" PRIu64 " suspends), %.0f resumes a second",
                   report->sums.n_events, report->sums.n_resumes, report->sums.n_suspends,
                   ns ? (double)report->sums.n_resumes * NS_PER_SEC / (double)ns : 0);
        sheet_fact(sheet, 0, "Coroutines",
                   "%" PRIu32 " on %" PRIu32 " threads, %" PRIu64 " moves between threads",
                   report->n_coroutines, report->threads.n_entries, report->sums.n_migrations);
        sheet_fact(sheet, 0, "Run", "%s; suspended %s",
                   sheet_value(a, "nanoseconds", (double)report->sums.run_ns),
                   sheet_value(b, "nanoseconds", (double)report->sums.suspended_ns));
        sheet_fact(sheet, 0, "At the end",
                   "%" PRIu32 " running, %" PRIu32 " suspended, %" PRIu32 " lost wake-ups suspected, %" PRIu32
                   " dead, %" PRIu32 " without an event%s",
                   count_ends(report, COROUTINE_RUNNING), count_ends(report, COROUTINE_SUSPENDED),
                   count_ends(report, COROUTINE_SUSPECT), count_ends(report, COROUTINE_DEAD),
                   count_ends(report, COROUTINE_NEVER_RAN),
                   report->stations_known ? "" : " (the trace does not say who is dead)");
        print_oddities(printer, format);
        if (!report->sums.n_events)
                sheet_note(sheet, "There are no events to report.");
}

static int print_waiting(const Printer *printer) {
        static const Column columns[] = { { "waits for", COLUMN_RIGHT }, { "longest before", COLUMN_RIGHT },
                                          { "state", COLUMN_LEFT },      { "coroutine", COLUMN_CUT },
                                          { "address", COLUMN_CUT },     { "thread", COLUMN_RIGHT } };
        const CoroutineReport *report = printer->report;
        _cleanup_(freep) uint32_t *order = coroutine_order(report, coroutine_by_wait);
        TextTable table;
        char name[64];
        size_t n = 0;

        if (!order)
                return error_origin(-ENOMEM);
        text_table_init(&table, columns, ARRAY_SIZE(columns));
        for (int suspects = 1; suspects >= 0; suspects--)
                for (uint32_t i = 0; i < report->n_coroutines; i++) {
                        const Coroutine *c = &report->coroutines[order[i]];
                        CoroutineEnd end = coroutine_end(report, c);

                        if (end != (suspects ? COROUTINE_SUSPECT : COROUTINE_SUSPENDED) ||
                            n++ >= printer->top)
                                continue;
                        add_time(&table, coroutine_since_ns(report, c));
                        add_time(&table, c->longest_suspend_ns);
                        text_table_add(&table, "%s", coroutine_end_text(end));
                        text_table_add(&table, "%s", coroutine_name(c, name));
                        add_address(&table, printer, c, c->last_address);
                        text_table_add(&table, "%" PRIu64, c->last_tid);
                }
        return sheet_table(&printer->sheet, &table, "Suspended at the end: lost wake-ups first", n,
                           "coroutines");
}

static int print_coroutines(const Printer *printer) {
        static const Column columns[] = { { "run", COLUMN_RIGHT },         { "suspended", COLUMN_RIGHT },
                                          { "resumes", COLUMN_RIGHT },     { "/s", COLUMN_RIGHT },
                                          { "longest run", COLUMN_RIGHT }, { "longest wait", COLUMN_RIGHT },
                                          { "moves", COLUMN_RIGHT },       { "lost", COLUMN_RIGHT },
                                          { "coroutine", COLUMN_CUT },     { "state", COLUMN_LEFT } };
        const CoroutineReport *report = printer->report;
        _cleanup_(freep) uint32_t *order = coroutine_order(report, coroutine_by_run);
        TextTable table;
        char name[64];

        if (!order)
                return error_origin(-ENOMEM);
        text_table_init(&table, columns, ARRAY_SIZE(columns));
        for (uint32_t i = 0; i < MIN(report->n_coroutines, printer->top); i++) {
                const Coroutine *c = &report->coroutines[order[i]];

                add_time(&table, c->sums.run_ns);
                add_time(&table, c->sums.suspended_ns);
                text_table_add(&table, "%" PRIu64, c->sums.n_resumes);
                text_table_add(&table, "%.0f", coroutine_resumes_per_second(c));
                add_time(&table, c->longest_run_ns);
                add_time(&table, c->longest_suspend_ns);
                text_table_add(&table, "%" PRIu64, c->sums.n_migrations);
                text_table_add(&table, "%" PRIu64, c->sums.n_lost);
                text_table_add(&table, "%s", coroutine_name(c, name));
                text_table_add(&table, "%s", coroutine_end_text(coroutine_end(report, c)));
        }
        return sheet_table(&printer->sheet, &table, "Coroutines", report->n_coroutines, "coroutines");
}

static int print_stretches(const Printer *printer, const Stretches *stretches, const char *title) {
        static const Column columns[] = { { "time", COLUMN_RIGHT },
                                          { "from", COLUMN_RIGHT },
                                          { "coroutine", COLUMN_CUT },
                                          { "address", COLUMN_CUT },
                                          { "thread", COLUMN_RIGHT } };
        TextTable table;
        char name[64];

        text_table_init(&table, columns, ARRAY_SIZE(columns));
        for (uint32_t i = 0; i < MIN(stretches->n, MAX(printer->top / 2, UINT32_C(1))); i++) {
                const Stretch *row = &stretches->rows[i];

                add_time(&table, row->ns);
                text_table_add(&table, "+%.6f s",
                               (double)(row->start_ns - printer->report->first_ns) / NS_PER_SEC);
                text_table_add(&table, "%s",
                               coroutine_name(&printer->report->coroutines[row->coroutine], name));
                add_address(&table, printer, &printer->report->coroutines[row->coroutine], row->address);
                text_table_add(&table, "%" PRIu64, row->tid);
        }
        return sheet_table(&printer->sheet, &table, title,
                           table.n_cells ? table.n_cells / ARRAY_SIZE(columns) : 0, "stretches");
}

/* A function, or an address that has no name. */
typedef struct Place {
        uint64_t suspended_ns, n;
        uint64_t address;               /* the one with the most time */
        uint32_t n_addresses;
} Place;

typedef struct Places {
        Place *rows;
        uint32_t n;
        Intern names;
        uint32_t row_of[MAX_NAMED];     /* by index of the name */
} Places;

static void places_free(Places *places) {
        if (places) {
                intern_deinit(&places->names);
                free(places->rows);
        }
        free(places);
}
DEFINE_CLEANUP(Places, places_free)

/* Finds the row of a function that is there already. Return: 0 = it is new, 1 = *rowp, -ENOMEM. */
static int find_place(Places *places, const char *name, uint32_t *rowp) {
        uint32_t index;
        int r = intern_add(&places->names, name, strlen(name), &index);

        if (r < 0)
                return error_fold(r);
        if (!r)
                places->row_of[index] = places->n;
        *rowp = r == INTERN_E_FULL ? places->n : places->row_of[index];
        return r == INTERN_E_FOUND;
}

static int compare_places(const void *left, const void *right) {
        const Place *a = left, *b = right;

        if (a->suspended_ns != b->suspended_ns)
                return a->suspended_ns < b->suspended_ns ? 1 : -1;
        return (a->address > b->address) - (a->address < b->address);
}

/* Coroutines of one function have an address each, that of their frames. */
static int make_places(const Printer *printer, Places *places) {
        const CoroutineReport *report = printer->report;
        const CoroutineFormat *format = printer->format;

        for (uint32_t i = 0; i < report->n_addresses; i++) {
                const AddressSums *sums = &report->addresses[i];
                const char *name = format->name && i < MAX_NAMED
                        ? format->name(format->userdata, NULL, sums->address) : NULL;
                uint32_t row = places->n;
                int r = name ? find_place(places, name, &row) : 0;

                if (r < 0)
                        return r;
                if (!r)
                        places->rows[places->n++] = (Place){ .address = sums->address };
                places->rows[row].suspended_ns += sums->suspended_ns;
                places->rows[row].n += sums->n;
                places->rows[row].n_addresses++;
        }
        if (places->n)
                qsort(places->rows, places->n, sizeof(*places->rows), compare_places);
        return 0;
}

static void add_place(TextTable *table, const Printer *printer, const Place *place) {
        const CoroutineFormat *format = printer->format;
        const char *name;

        if (place->n_addresses == 1) {
                add_address(table, printer, NULL, place->address);
                return;
        }
        name = format->name(format->userdata, NULL, place->address);
        text_table_add(table, "%s, %" PRIu32 " addresses", format->markdown ? name : shorten(name),
                       place->n_addresses);
}

static int print_addresses(const Printer *printer) {
        static const Column columns[] = { { "suspended", COLUMN_RIGHT },
                                          { "", COLUMN_RIGHT },
                                          { "times", COLUMN_RIGHT },
                                          { "address", COLUMN_CUT } };
        const CoroutineReport *report = printer->report;
        _cleanup_(places_freep) Places *places = calloc(1, sizeof(*places));
        TextTable table;
        int r;

        if (!places)
                return error_origin(-ENOMEM);
        intern_init(&places->names, MAX_NAMED);
        places->rows = calloc(report->n_addresses + 1u, sizeof(*places->rows));
        if (!places->rows)
                return error_origin(-ENOMEM);
        r = make_places(printer, places);
        if (r)
                return r;
        text_table_init(&table, columns, ARRAY_SIZE(columns));
        for (uint32_t i = 0; i < MIN(places->n, printer->top); i++) {
                const Place *row = &places->rows[i];

                add_time(&table, row->suspended_ns);
                text_table_add(&table, "%.1f%%", sheet_share(row->suspended_ns, report->sums.suspended_ns));
                text_table_add(&table, "%" PRIu64, row->n);
                add_place(&table, printer, row);
        }
        return sheet_table(&printer->sheet, &table, "Where they were suspended", places->n, "places");
}

int coroutine_report_print(CoroutineReport *report, const CoroutineFormat *format, FILE *out) {
        Printer printer = { report, sheet_make(out, format->width, format->markdown),
                            format->top ? format->top : SHEET_DEFAULT_TOP, format };
        int r;

        coroutine_report_sort(report);
        if (format->markdown)
                fputs("# Coroutine report\n\n", out);
        print_summary(&printer, format);
        r = print_waiting(&printer);
        r = r ? r : print_coroutines(&printer);
        r = r ? r : print_stretches(&printer, &report->suspensions, "Longest suspensions");
        r = r ? r : print_stretches(&printer, &report->runs, "Longest runs");
        r = r ? r : print_addresses(&printer);
        return r ? error_fold(r) : 0;
}

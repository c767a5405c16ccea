/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Holds the interned tables of a report, and answers questions about their rows.
 */

#include "desk/report/report.h"

#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/util/array.h"
#include "core/base/util/error.h"
#include "desk/report/report-private.h"

enum { DEFAULT_MAX_ROWS = 4 << 20 };

typedef struct Tables {
        Intern *interns[11];
        Tally *tallies[10];
} Tables;

static Tables tables_of(Report *report) {
        return (Tables){ { &report->strings, &report->objects, &report->functions, &report->stacks,
                           &report->kinds, &report->resources, &report->coroutines, &report->sections,
                           &report->profile_ids, &report->operations, &report->processes.identities },
                         { &report->tallies.by_function, &report->tallies.by_stack, &report->tallies.by_link,
                           &report->tallies.by_reason, &report->tallies.by_object,
                           &report->tallies.by_operation, &report->tallies.by_coroutine,
                           &report->tallies.by_wait, &report->tallies.by_frame_kind,
                           &report->tallies.by_memory } };
}

static void init_tables(Report *report) {
        const Tables tables = tables_of(report);

        for (size_t i = 0; i < ARRAY_SIZE(tables.interns); i++)
                intern_init(tables.interns[i], report->options.max_rows);
        for (size_t i = 0; i < ARRAY_SIZE(tables.tallies); i++)
                tally_init(tables.tallies[i], report->options.max_rows);
        intern_init(&report->operations, MAX(report->options.max_rows, (uint32_t)SPAN_LIST_MAX_OPERATIONS));
}

/* They keep their numbers. */
static int add_listed_operations(Report *report) {
        const SpanList *list = report->options.spans;
        uint32_t n = list ? span_list_n_operations(list) : 0, operation;
        int r = 0;

        report->has_operations = list;
        for (uint32_t i = 0; i < n && !r; i++)
                r = report_add_operation(report, span_list_operation(list, i), &operation);
        return r;
}

/* Row 0: the empty string, no object, an unknown function, an empty stack, no attributes, no coroutine. */
static int add_empty_rows(Report *report) {
        static const uint8_t zero[sizeof(ReportObject)];
        const struct {
                Intern *table;
                size_t size;
        } rows[] = {
                { &report->strings, 1 },
                { &report->objects, sizeof(ReportObject) },
                { &report->functions, sizeof(ReportFunction) },
                { &report->stacks, 0 },
                { &report->resources, 0 },
                { &report->processes.identities, 0 },
                { &report->coroutines, 1 },
        };

        for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
                uint32_t index;
                int r = intern_add(rows[i].table, zero, rows[i].size, &index);

                if (r)
                        return r < 0 ? error_fold(r) : error_origin(-EINVAL);
        }
        return 0;
}

int report_new(Report **reportp, const ReportOptions *options) {
        _cleanup_(report_freep) Report *report = calloc(1, sizeof(*report));
        int r;

        if (!report)
                return error_origin(-ENOMEM);
        report->options = *options;
        if (!report->options.max_rows)
                report->options.max_rows = DEFAULT_MAX_ROWS;
        report->start_ns = UINT64_MAX;
        init_tables(report);
        r = add_empty_rows(report);
        if (!r)
                r = report_add_process(report, 0, &(uint32_t){ 0 });
        if (!r)
                r = add_listed_operations(report);
        if (r)
                return error_fold(r);
        report->object_states = calloc(1, sizeof(*report->object_states));
        if (!report->object_states)
                return error_origin(-ENOMEM);
        report->object_states[0] = SYMBOL_N_STATES;
        report->object_states_room = 1;
        *reportp = take(report);
        return 0;
}

Report *report_free(Report *report) {
        Tables tables;

        if (!report)
                return NULL;
        tables = tables_of(report);
        for (size_t i = 0; i < ARRAY_SIZE(tables.interns); i++)
                intern_deinit(tables.interns[i]);
        for (size_t i = 0; i < ARRAY_SIZE(tables.tallies); i++)
                tally_deinit(tables.tallies[i]);
        free(report->processes.of_identity);
        free(report->processes.resources);
        free(report->object_states);
        free(report->sums);
        free(report);
        return NULL;
}

int report_intern(Report *report, Intern *table, const void *data, size_t size, uint32_t *indexp) {
        int r = intern_add(table, data, size, indexp);

        if (r == INTERN_E_FULL) {
                report->n_left_out++;
                *indexp = 0;
                return 0;
        }
        return r < 0 ? error_fold(r) : 0;
}

int report_add_process(Report *report, uint32_t resource, uint32_t *processp) {
        ReportProcesses *processes = &report->processes;
        int r = array_reserve(&processes->resources, &processes->resources_room, processes->n + 1u, 64);

        if (r)
                return error_fold(r);
        processes->resources[processes->n] = resource;
        *processp = processes->n++;
        return 0;
}

/* Reading: tables, names, and rows in the order in which they are printed. */

const char *report_string(const Report *report, uint32_t index) {
        return intern_get(&report->strings, index)->data;
}

const ReportFunction *report_function(const Report *report, uint32_t function) {
        return intern_get(&report->functions, function)->data;
}

const ReportObject *report_object(const Report *report, uint32_t object) {
        return intern_get(&report->objects, object)->data;
}

const ReportKind *report_kind(const Report *report, uint32_t kind) {
        return intern_get(&report->kinds, kind)->data;
}

const ReportSection *report_section(const Report *report, uint32_t section) {
        return intern_get(&report->sections, section)->data;
}

const ReportCoroutine *report_coroutine(const Report *report, uint32_t coroutine) {
        return intern_get(&report->coroutines, coroutine)->data;
}

const uint32_t *report_process(const Report *report, uint32_t process, size_t *n_attributesp) {
        const InternItem *item = intern_get(&report->resources, report->processes.resources[process]);

        *n_attributesp = item->size / sizeof(uint32_t) / 2;     /* without the 1 before them */
        return item->size ? (const uint32_t *)item->data + 1 : item->data;
}

const uint32_t *report_stack(const Report *report, uint32_t stack, size_t *n_functionsp) {
        const InternItem *item = intern_get(&report->stacks, stack);

        *n_functionsp = item->size / sizeof(uint32_t);
        return item->data;
}

int report_find_section(const Report *report, uint32_t process, uint32_t kind, uint32_t *sectionp) {
        ReportSection section = { process, kind };

        return intern_find(&report->sections, &section, sizeof(section), sectionp);
}

const char *report_attribute(const Report *report, uint32_t process, const char *key) {
        size_t n;
        const uint32_t *pairs = report_process(report, process, &n);

        for (size_t i = 0; i < n; i++)
                if (!strcmp(report_string(report, pairs[2 * i]), key))
                        return report_string(report, pairs[2 * i + 1]);
        return "";
}

const char *report_function_name(const Report *report, uint32_t function) {
        uint32_t name = report_function(report, function)->name;

        return name ? report_string(report, name) : "[unknown]";
}

const char *report_object_name(const Report *report, uint32_t object) {
        const char *path = report_string(report, report_object(report, object)->path);
        const char *slash = path[0] == '[' ? NULL : strrchr(path, '/');

        if (!path[0])
                return "[unknown]";
        return slash && slash[1] ? slash + 1 : path;
}

const char *report_object_state(const Report *report, uint32_t object) {
        SymbolState state = report->object_states[object];

        if (state != SYMBOL_N_STATES)
                return symbol_state_text(state);
        return report_string(report, report_object(report, object)->path)[0] ? "names in the profile" : "";
}

const char *report_operation_name(const Report *report, uint32_t operation) {
        if (operation == OPERATION_NO_SPAN)
                return "(no span)";
        if (operation == OPERATION_NOT_LISTED)
                return report->options.spans ? "(span not in the list)" : "(span without a name)";
        return intern_get(&report->operations, operation - OPERATION_FIRST)->data;
}

int report_add_operation(Report *report, const char *name, uint32_t *operationp) {
        uint32_t number;
        int r = intern_add(&report->operations, name, strlen(name) + 1, &number);

        if (r < 0)
                return error_fold(r);
        report->has_operations = true;
        report->n_left_out += r == INTERN_E_FULL;
        *operationp = r == INTERN_E_FULL ? OPERATION_NOT_LISTED : OPERATION_FIRST + number;
        return 0;
}

static int compare_functions(const Report *report, uint32_t a, uint32_t b) {
        const ReportFunction *x = report_function(report, a), *y = report_function(report, b);
        int r = strcmp(report_function_name(report, a), report_function_name(report, b));

        if (!r)
                r = strcmp(report_object_name(report, x->object), report_object_name(report, y->object));
        return r ? r : a < b ? -1 : a > b;
}

static int compare_function_keys(const uint32_t *a, const uint32_t *b, const void *report) {
        return compare_functions(report, a[2], b[2]);
}

static int compare_stacks(const uint32_t *a, const uint32_t *b, const void *report) {
        size_t n_x, n_y;
        const uint32_t *x = report_stack(report, a[1], &n_x), *y = report_stack(report, b[1], &n_y);

        for (size_t i = 0; i < n_x && i < n_y; i++) {
                int r = x[i] == y[i] ? 0 : compare_functions(report, x[i], y[i]);

                if (r)
                        return r;
        }
        return n_x < n_y ? -1 : n_x > n_y;
}

static int compare_links(const uint32_t *a, const uint32_t *b, const void *report) {
        return memcmp(a + 2, b + 2, sizeof(WindowLink));
}

static int compare_strings(const uint32_t *a, const uint32_t *b, const void *report) {
        return strcmp(report_string(report, a[1]), report_string(report, b[1]));
}

static int compare_objects(const uint32_t *a, const uint32_t *b, const void *report) {
        int r = strcmp(report_object_name(report, a[1]), report_object_name(report, b[1]));

        return r ? r : a[1] < b[1] ? -1 : a[1] > b[1];
}

static int compare_operations(const uint32_t *a, const uint32_t *b, const void *report) {
        return strcmp(report_operation_name(report, a[1]), report_operation_name(report, b[1]));
}

static int compare_coroutines(const uint32_t *a, const uint32_t *b, const void *report) {
        const ReportCoroutine *x = report_coroutine(report, a[1]), *y = report_coroutine(report, b[1]);

        if (x->process != y->process)
                return x->process < y->process ? -1 : 1;
        if (x->station != y->station)
                return x->station < y->station ? -1 : 1;
        return a[1] != b[1] ? (a[1] < b[1] ? -1 : 1) : a[2] < b[2] ? -1 : a[2] > b[2];
}

static int compare_waits(const uint32_t *a, const uint32_t *b, const void *report) {
        const ReportWaitKey *x = (const ReportWaitKey *)a, *y = (const ReportWaitKey *)b;
        int r = strcmp(report_string(report, x->reason), report_string(report, y->reason));

        return r ? r : memcmp(x, y, sizeof(*x));
}

int report_rows(const Report *report, ReportTable table, uint32_t section, uint32_t operation,
                TallyRow **rowsp, size_t *np) {
        const struct {
                const Tally *tally;
                int (*compare)(const uint32_t *a, const uint32_t *b, const void *report);
        } tables[REPORT_N_TABLES] = {
                [REPORT_FUNCTIONS] = { &report->tallies.by_function, compare_function_keys },
                [REPORT_STACKS] = { &report->tallies.by_stack, compare_stacks },
                [REPORT_LINKS] = { &report->tallies.by_link, compare_links },
                [REPORT_REASONS] = { &report->tallies.by_reason, compare_strings },
                [REPORT_OBJECTS] = { &report->tallies.by_object, compare_objects },
                [REPORT_OPERATIONS] = { &report->tallies.by_operation, compare_operations },
                [REPORT_COROUTINES] = { &report->tallies.by_coroutine, compare_coroutines },
                [REPORT_WAITS] = { &report->tallies.by_wait, compare_waits },
                [REPORT_FRAME_KINDS] = { &report->tallies.by_frame_kind, compare_strings },
                [REPORT_MEMORY] = { &report->tallies.by_memory, compare_strings },
        };
        uint32_t prefix[2] = { section, operation };
        int r = tally_sort(tables[table].tally, prefix, table == REPORT_FUNCTIONS ? 2 : 1,
                           table == REPORT_FUNCTIONS && report->options.by_total, tables[table].compare,
                           report, rowsp, np);

        return r ? error_fold(r) : 0;
}

typedef struct SectionOrder {
        uint64_t value;
        uint32_t section;
} SectionOrder;

static int compare_sections(const void *left, const void *right) {
        const SectionOrder *a = left, *b = right;

        if (a->value != b->value)
                return a->value > b->value ? -1 : 1;
        return a->section < b->section ? -1 : a->section > b->section;
}

int report_process_sections(const Report *report, uint32_t kind, uint32_t **sectionsp, size_t *np) {
        _cleanup_(freep) SectionOrder *order = calloc(report->sections.n_items + 1u, sizeof(*order));
        uint32_t *sections = calloc(report->sections.n_items + 1u, sizeof(*sections));
        size_t n = 0;

        if (!order || !sections) {
                free(sections);
                return error_origin(-ENOMEM);
        }
        for (uint32_t i = 0; i < report->sections.n_items; i++)
                if (report_section(report, i)->kind == kind && report_section(report, i)->process)
                        order[n++] = (SectionOrder){ report->sums[i].value, i };
        qsort(order, n, sizeof(*order), compare_sections);
        for (size_t i = 0; i < n; i++)
                sections[i] = order[i].section;
        *sectionsp = sections;
        *np = n;
        return 0;
}

static bool has_section(const Report *report, uint32_t process) {
        uint32_t section;

        for (uint32_t kind = 0; kind < report->kinds.n_items; kind++)
                if (report_find_section(report, process, kind, &section) == 0)
                        return true;
        return false;
}

uint32_t report_n_processes(const Report *report) {
        uint32_t n = 0;

        for (uint32_t i = 1; i < report->processes.n; i++)
                n += has_section(report, i);
        return n;
}

uint32_t report_n_filtered(const Report *report) {
        return report->processes.n - 1 - report_n_processes(report);
}

static bool is_time(const Report *report, uint32_t kind) {
        return !strcmp(report_string(report, report_kind(report, kind)->unit), "nanoseconds");
}

/* What samples in the state `suspended` say: of a running daemon, or of a trace. */
uint64_t report_suspended_ns(const Report *report, uint32_t coroutine) {
        ReportCoroutineKey key = { .coroutine = coroutine };
        uint64_t sum_ns = 0;
        uint32_t index;

        if (intern_find(&report->strings, "suspended", sizeof("suspended"), &key.state))
                return 0;
        for (uint32_t kind = 0; kind < report->kinds.n_items; kind++)
                if (is_time(report, kind) && !report_find_section(report, 0, kind, &key.section) &&
                    !intern_find(&report->tallies.by_coroutine.keys, &key, sizeof(key), &index))
                        sum_ns = add_saturated(sum_ns, report->tallies.by_coroutine.sums[index].self);
        return sum_ns;
}

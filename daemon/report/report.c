/* SPDX-License-Identifier: Apache-2.0 */
#include "report/report.h"

#include <errno.h>
#include <fnmatch.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "report/report-private.h"
#include "util/error.h"
#include "util/text.h"

enum { DEFAULT_MAX_ROWS = 4 << 20 };

static void init_tables(Report *report) {
        Intern *tables[] = { &report->strings, &report->objects,   &report->functions, &report->stacks,
                             &report->kinds,   &report->processes, &report->sections,  &report->profile_ids };
        Tally *tallies[] = { &report->by_function, &report->by_stack,  &report->by_link,
                             &report->by_reason,   &report->by_object, &report->by_operation };

        for (size_t i = 0; i < ARRAY_SIZE(tables); i++)
                intern_init(tables[i], report->options.max_rows);
        for (size_t i = 0; i < ARRAY_SIZE(tallies); i++)
                tally_init(tallies[i], report->options.max_rows);
}

/* Row 0: the empty string, no object, an unknown function, an empty stack, all processes. */
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
                { &report->processes, 0 },
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
        if (!report)
                return NULL;
        Intern *tables[] = { &report->strings, &report->objects,   &report->functions, &report->stacks,
                             &report->kinds,   &report->processes, &report->sections,  &report->profile_ids };
        Tally *tallies[] = { &report->by_function, &report->by_stack,  &report->by_link,
                             &report->by_reason,   &report->by_object, &report->by_operation };

        for (size_t i = 0; i < ARRAY_SIZE(tables); i++)
                intern_deinit(tables[i]);
        for (size_t i = 0; i < ARRAY_SIZE(tallies); i++)
                tally_deinit(tallies[i]);
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

static int count(Report *report, Tally *tally, const void *key, size_t size, uint64_t self, uint64_t total) {
        int r = tally_add(tally, key, size, self, total);

        if (r == INTERN_E_FULL) {
                report->n_left_out++;
                return 0;
        }
        return r ? error_fold(r) : 0;
}

/* All that is needed while one window is added. */
typedef struct Adding {
        Report *report;
        const Window *window;
        ReportNames names;
        uint32_t *stacks;               /* stack of the window → of the report + 1; 0 = not yet */
        uint32_t *processes;            /* resource → process + 1; 0 = not yet */
        uint32_t *functions;            /* of the stack at hand */
        size_t functions_room;
        uint32_t *seen;                 /* function → number of the sample that counted it */
        size_t seen_room;
        uint32_t sample;
} Adding;

static void adding_deinit(Adding *adding) {
        report_names_deinit(&adding->names);
        free(adding->stacks);
        free(adding->processes);
        free(adding->functions);
        free(adding->seen);
}

static int adding_init(Adding *adding, Report *report, const Window *window) {
        int r = report_names_init(&adding->names, report, window);

        if (r)
                return error_fold(r);
        adding->report = report;
        adding->window = window;
        adding->stacks = calloc(window_n_stacks(window) + 1u, sizeof(*adding->stacks));
        adding->processes = calloc(window_n_resources(window) + 1u, sizeof(*adding->processes));
        return adding->stacks && adding->processes ? 0 : error_origin(-ENOMEM);
}

/* An attribute as text: what people search for. */
static int add_attribute(Adding *adding, uint32_t index, uint32_t *pair) {
        const WindowAttribute *attribute = window_get_attribute(adding->window, index);
        Report *report = adding->report;
        char text[64] = "";
        double number;
        int r = report_names_string(&adding->names, attribute->key, &pair[0]);

        if (r)
                return error_fold(r);
        if (attribute->kind == ATTRIBUTE_STRING)
                return report_names_string(&adding->names, attribute->string, &pair[1]);
        if (attribute->kind == ATTRIBUTE_INT)
                snprintf(text, sizeof(text), "%" PRId64, attribute->integer);
        else if (attribute->kind == ATTRIBUTE_BOOL)
                snprintf(text, sizeof(text), "%s", attribute->integer ? "true" : "false");
        else if (attribute->kind == ATTRIBUTE_DOUBLE) {
                memcpy(&number, &attribute->integer, sizeof(number));
                snprintf(text, sizeof(text), "%.17g", number);
        }
        return report_intern(report, &report->strings, text, strlen(text) + 1, &pair[1]);
}

/* Key: 1 (so that a resource without attributes is not row 0), then the pairs. */
static int find_process(Adding *adding, uint32_t resource, uint32_t *processp) {
        Report *report = adding->report;
        _cleanup_(freep) uint32_t *key = NULL;
        const uint32_t *attributes;
        size_t n;
        int r = 0;

        if (adding->processes[resource]) {
                *processp = adding->processes[resource] - 1;
                return 0;
        }
        attributes = window_get_resource(adding->window, resource, &n);
        key = calloc(1 + 2 * n, sizeof(*key));
        if (!key)
                return error_origin(-ENOMEM);
        key[0] = 1;
        for (size_t i = 0; i < n && !r; i++)
                r = add_attribute(adding, attributes[i], key + 1 + 2 * i);
        if (!r)
                r = report_intern(report, &report->processes, key, (1 + 2 * n) * sizeof(*key), processp);
        if (r)
                return error_fold(r);
        adding->processes[resource] = *processp + 1;
        return 0;
}

static bool has_pid(const ReportOptions *options, const char *text) {
        uint64_t pid;

        if (text_u64(text, UINT32_MAX, &pid))
                return false;
        for (size_t i = 0; i < options->n_pids; i++)
                if (options->pids[i] == pid)
                        return true;
        return false;
}

static bool is_wanted(const Report *report, uint32_t process) {
        const ReportOptions *options = &report->options;
        static const char *const keys[] = { "process.executable.name", "service.name" };

        if (!options->n_pids && !options->n_names)
                return true;
        if (has_pid(options, report_attribute(report, process, "process.pid")))
                return true;
        for (size_t i = 0; i < options->n_names; i++)
                for (size_t k = 0; k < ARRAY_SIZE(keys); k++)
                        if (fnmatch(options->names[i], report_attribute(report, process, keys[k]), 0) == 0)
                                return true;
        return false;
}

static int find_section(Report *report, uint32_t process, uint32_t kind, uint32_t *sectionp) {
        ReportSection section = { process, kind };
        uint32_t room = report->sums_room;
        ReportSums *bigger;
        int r = report_intern(report, &report->sections, &section, sizeof(section), sectionp);

        if (r || *sectionp < room)
                return r;
        room = MAX(room * 2, *sectionp + 16);
        bigger = reallocarray(report->sums, room, sizeof(*bigger));
        if (!bigger)
                return error_origin(-ENOMEM);
        memset(bigger + report->sums_room, 0, (room - report->sums_room) * sizeof(*bigger));
        report->sums = bigger;
        report->sums_room = room;
        return 0;
}

static int find_kind(Adding *adding, const WindowProfileNames *names, uint32_t *kindp) {
        ReportKind kind = { 0 };
        int r = report_names_string(&adding->names, names->type, &kind.type);

        if (!r)
                r = report_names_string(&adding->names, names->unit, &kind.unit);
        if (!r)
                r = report_names_string(&adding->names, names->period_type, &kind.period_type);
        if (!r)
                r = report_names_string(&adding->names, names->period_unit, &kind.period_unit);
        return r ? r : report_intern(adding->report, &adding->report->kinds, &kind, sizeof(kind), kindp);
}

static int grow_functions(Adding *adding, size_t n) {
        size_t room = MAX(n, (size_t)adding->functions_room * 2);
        uint32_t *bigger;

        if (n <= adding->functions_room)
                return 0;
        bigger = reallocarray(adding->functions, room, sizeof(*bigger));
        if (!bigger)
                return error_origin(-ENOMEM);
        adding->functions = bigger;
        adding->functions_room = room;
        return 0;
}

/* Inlined functions make it longer than the stack. */
static int read_functions(Adding *adding, const FrameWord *frames, size_t n, size_t *n_functionsp) {
        size_t at = 0;

        for (size_t i = 0; i < n; i++) {
                size_t more;
                int r = grow_functions(adding, at + REPORT_MAX_INLINED);

                if (!r)
                        r = report_names_functions(&adding->names, frames[i], adding->functions + at, &more);
                if (r)
                        return error_fold(r);
                at += more;
        }
        *n_functionsp = at;
        return 0;
}

static int find_stack(Adding *adding, uint32_t stack, uint32_t *stackp) {
        Report *report = adding->report;
        const FrameWord *frames;
        size_t n;
        int r;

        if (adding->stacks[stack]) {
                *stackp = adding->stacks[stack] - 1;
                return 0;
        }
        frames = window_get_stack(adding->window, stack, &n);
        r = read_functions(adding, frames, n, &n);
        if (!r)
                r = report_intern(report, &report->stacks, adding->functions, n * sizeof(uint32_t), stackp);
        if (r)
                return error_fold(r);
        adding->stacks[stack] = *stackp + 1;
        return 0;
}

static int grow_seen(Adding *adding) {
        size_t room = adding->report->functions.n_items;
        uint32_t *bigger;

        if (room <= adding->seen_room)
                return 0;
        room = room * 2;
        bigger = reallocarray(adding->seen, room, sizeof(*bigger));
        if (!bigger)
                return error_origin(-ENOMEM);
        memset(bigger + adding->seen_room, 0, (room - adding->seen_room) * sizeof(*bigger));
        adding->seen = bigger;
        adding->seen_room = room;
        return 0;
}

/* A function that is in a stack several times counts once in its total. */
static int count_functions(Adding *adding, uint32_t section, uint32_t operation, uint32_t stack, uint64_t value) {
        Report *report = adding->report;
        const uint32_t *functions;
        size_t n;
        int r = grow_seen(adding);

        adding->sample++;
        functions = report_stack(report, stack, &n);
        for (size_t i = 0; i < n && !r; i++) {
                ReportFunctionKey key = { section, operation, functions[i] };

                if (adding->seen[functions[i]] == adding->sample)
                        continue;
                adding->seen[functions[i]] = adding->sample;
                r = count(report, &report->by_function, &key, sizeof(key), i == 0 ? value : 0, value);
        }
        return r;
}

static int count_key(Report *report, Tally *tally, uint32_t section, uint32_t what, uint64_t value) {
        ReportKey key = { section, what };

        return count(report, tally, &key, sizeof(key), value, value);
}

/* What a sample is, apart from where it counts. */
typedef struct Facts {
        uint64_t value;
        uint32_t stack, operation, reason;      /* reason: string, 0 = the stack is complete */
        const WindowLink *link;                 /* NULL = none */
        uint64_t n_events;
} Facts;

static int count_sample(Adding *adding, uint32_t section, const Facts *facts) {
        Report *report = adding->report;
        ReportSums *sums = &report->sums[section];
        const uint32_t *functions;
        size_t n;
        int r;

        sums->value = add_saturated(sums->value, facts->value);
        sums->n_events = add_saturated(sums->n_events, facts->n_events);
        r = count_functions(adding, section, OPERATION_ALL, facts->stack, facts->value);
        if (!r)
                r = count_key(report, &report->by_stack, section, facts->stack, facts->value);
        functions = report_stack(report, facts->stack, &n);
        if (!r && n)
                r = count_key(report, &report->by_object, section, report_function(report, functions[0])->object,
                              facts->value);
        if (!r && facts->reason) {
                sums->truncated = add_saturated(sums->truncated, facts->value);
                r = count_key(report, &report->by_reason, section, facts->reason, facts->value);
        }
        if (!r && facts->link) {
                ReportLinkKey key = { section, facts->operation, *facts->link };

                sums->linked = add_saturated(sums->linked, facts->value);
                r = count(report, &report->by_link, &key, sizeof(key), facts->value, facts->value);
        }
        return r ? error_fold(r) : 0;
}

static int count_operation(Adding *adding, uint32_t section, const Facts *facts) {
        Report *report = adding->report;
        int r;

        if (!report->options.spans)
                return 0;
        r = count_key(report, &report->by_operation, section, facts->operation, facts->value);
        return r ? r : count_functions(adding, section, facts->operation, facts->stack, facts->value);
}

static uint32_t find_operation(const Report *report, const WindowLink *link) {
        uint32_t operation;

        if (!link)
                return OPERATION_NO_SPAN;
        if (!report->options.spans || span_list_find(report->options.spans, link->span_id, &operation))
                return OPERATION_NOT_LISTED;
        return OPERATION_FIRST + operation;
}

/* Why the stack ends early, by the sample's attribute. */
static int find_reason(Adding *adding, uint32_t set, uint32_t *reasonp) {
        const uint32_t *attributes;
        size_t n;

        *reasonp = 0;
        attributes = window_get_attribute_set(adding->window, set, &n);
        for (size_t i = 0; i < n; i++) {
                const WindowAttribute *attribute = window_get_attribute(adding->window, attributes[i]);
                const char *key = window_get_string(adding->window, attribute->key, NULL);

                if (attribute->kind == ATTRIBUTE_STRING && !strcmp(key, "profile.stack.truncated"))
                        return report_names_string(&adding->names, attribute->string, reasonp);
        }
        return 0;
}

static int read_facts(Adding *adding, const WindowSample *sample, Facts *facts) {
        int r = find_stack(adding, sample->stack, &facts->stack);

        if (!r)
                r = find_reason(adding, sample->attributes, &facts->reason);
        if (r)
                return error_fold(r);
        facts->value = sample->value > 0 ? (uint64_t)sample->value : 0;
        facts->n_events = sample->n_times ? sample->n_times : 1;
        facts->link = sample->link ? window_get_link(adding->window, sample->link) : NULL;
        facts->operation = find_operation(adding->report, facts->link);
        return 0;
}

static void add_period(ReportSums *sums, int64_t period, double value) {
        if (period > 0) {
                sums->period_min = sums->period_min ? MIN(sums->period_min, period) : period;
                sums->period_max = MAX(sums->period_max, period);
                sums->measured += value * (double)period;
        }
}

static int add_samples(Adding *adding, uint32_t index, const uint32_t sections[2]) {
        const WindowProfile *profile = window_get_profile(adding->window, index);
        uint64_t value = 0;

        for (uint32_t i = 0; i < profile->n_samples; i++) {
                WindowSample sample;
                Facts facts;
                int r;

                window_get_sample(adding->window, index, i, &sample);
                r = read_facts(adding, &sample, &facts);
                for (int s = 0; s < 2 && !r; s++)
                        r = count_sample(adding, sections[s], &facts);
                if (!r)
                        r = count_operation(adding, sections[0], &facts);
                if (r)
                        return error_fold(r);
                value = add_saturated(value, facts.value);
        }
        for (int s = 0; s < 2; s++)
                add_period(&adding->report->sums[sections[s]], profile->period, (double)value);
        return 0;
}

/* The id is kept over retries and in every copy (a receiver's .pb and .json are two). */
static int is_repeated(Report *report, const WindowProfile *profile, bool *repeatedp) {
        uint32_t index;
        int r = intern_add(&report->profile_ids, profile->id, sizeof(profile->id), &index);

        *repeatedp = r == INTERN_E_FOUND;
        report->n_repeated += *repeatedp;
        return r < 0 ? error_fold(r) : 0;
}

static int add_profile(Adding *adding, uint32_t index) {
        const WindowProfile *profile = window_get_profile(adding->window, index);
        Report *report = adding->report;
        uint32_t process, kind, sections[2];
        bool repeated = false;
        int r = find_process(adding, profile->resource, &process);

        if (!r && !is_wanted(report, process))
                return 0;
        if (!r)
                r = is_repeated(report, profile, &repeated);
        if (!r && repeated)
                return 0;
        if (!r)
                r = find_kind(adding, &profile->names, &kind);
        if (!r)
                r = find_section(report, 0, kind, &sections[0]);
        if (!r)
                r = find_section(report, process, kind, &sections[1]);
        return r ? error_fold(r) : add_samples(adding, index, sections);
}

int report_add(Report *report, const Window *window) {
        _cleanup_(adding_deinit) Adding adding = { 0 };
        int64_t offset = window_realtime_offset_ns(window);
        int r = adding_init(&adding, report, window);

        for (uint32_t i = 0; i < window_n_profiles(window) && !r; i++)
                r = add_profile(&adding, i);
        if (r)
                return error_fold(r);
        report->n_windows++;
        report->start_ns = MIN(report->start_ns, window_start_ns(window) + (uint64_t)offset);
        report->end_ns = MAX(report->end_ns, window_end_ns(window) + (uint64_t)offset);
        return 0;
}

/* SPDX-License-Identifier: Apache-2.0 */

/* A window → rows and sums of the report. */
#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "base/util/error.h"
#include "formats/report/add-private.h"

static void adding_deinit(Adding *adding) {
        report_names_deinit(&adding->names);
        free(adding->stacks);
        free(adding->processes);
        free(adding->functions);
        free(adding->seen);
        free(adding->sums);
        free(adding->touched);
}

static int adding_init(Adding *adding, Report *report, const Window *window) {
        int r = report_names_init(&adding->names, report, window);

        if (r)
                return error_fold(r);
        adding->report = report;
        adding->window = window;
        adding->stacks = calloc(window_n_stacks(window) + 1u, sizeof(*adding->stacks));
        adding->processes = calloc(window_n_resources(window) + 1u, sizeof(*adding->processes));
        adding->sums = calloc(window_n_stacks(window) + 1u, sizeof(*adding->sums));
        adding->touched = calloc(window_n_stacks(window) + 1u, sizeof(*adding->touched));
        return adding->stacks && adding->processes && adding->sums && adding->touched ? 0
                                                                                      : error_origin(-ENOMEM);
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

static uint32_t find_operation(const Report *report, const WindowLink *link) {
        uint32_t operation;

        if (!link)
                return OPERATION_NO_SPAN;
        if (!report->options.spans || span_list_find(report->options.spans, link->span_id, &operation))
                return OPERATION_NOT_LISTED;
        return OPERATION_FIRST + operation;
}

/* Why the stack ends early, and which coroutine it is of, by the sample's attributes. */
static int read_attributes(Adding *adding, uint32_t set, Facts *facts) {
        ReportCoroutine coroutine = { 0 };
        const uint32_t *attributes;
        int r = 0;
        size_t n;

        facts->reason = facts->state = 0;
        attributes = window_get_attribute_set(adding->window, set, &n);
        for (size_t i = 0; i < n && !r; i++) {
                const WindowAttribute *attribute = window_get_attribute(adding->window, attributes[i]);
                const char *key = window_get_string(adding->window, attribute->key, NULL);

                if (attribute->kind == ATTRIBUTE_STRING && !strcmp(key, "profile.stack.truncated"))
                        r = report_names_string(&adding->names, attribute->string, &facts->reason);
                else if (!strncmp(key, "coroutine.", 10))
                        r = adding_coroutine_attribute(adding, key + 10, attribute, &coroutine,
                                                       &facts->state);
        }
        return r ? r : adding_coroutine(adding, adding->process, &coroutine, &facts->coroutine);
}

static int read_facts(Adding *adding, const WindowSample *sample, Facts *facts) {
        int r = read_attributes(adding, sample->attributes, facts);

        if (r)
                return error_fold(r);
        facts->window_stack = sample->stack;
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
        int r;

        for (uint32_t i = 0; i < profile->n_samples; i++) {
                WindowSample sample;
                Facts facts;

                window_get_sample(adding->window, index, i, &sample);
                r = read_facts(adding, &sample, &facts);
                if (!r)
                        r = adding_sample(adding, sections, &facts);
                if (r)
                        return error_fold(r);
                value = add_saturated(value, facts.value);
        }
        r = adding_stacks(adding, sections);
        if (r)
                return error_fold(r);
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
        int r = adding_process(adding, profile->resource, &process);

        if (!r && !adding_wants(report, process))
                return 0;
        if (!r)
                r = is_repeated(report, profile, &repeated);
        if (!r && repeated)
                return 0;
        adding->process = process;
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

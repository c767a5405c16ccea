/* SPDX-License-Identifier: Apache-2.0 */

/* Counting of samples: each for the whole report and for its process. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/util/error.h"
#include "formats/report/add-private.h"

static int count(Report *report, Tally *tally, const void *key, size_t size, uint64_t self, uint64_t total) {
        int r = tally_add(tally, key, size, self, total);

        if (r == INTERN_E_FULL) {
                report->n_left_out++;
                return 0;
        }
        return r ? error_fold(r) : 0;
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

int adding_stack(Adding *adding, uint32_t stack, uint32_t *stackp) {
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
static int count_functions(Adding *adding, uint32_t section, uint32_t operation, uint32_t stack,
                           uint64_t value) {
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

static int count_sample(Report *report, uint32_t section, const Facts *facts) {
        ReportSums *sums = &report->sums[section];
        int r = 0;

        sums->value = add_saturated(sums->value, facts->value);
        sums->n_events = add_saturated(sums->n_events, facts->n_events);
        if (facts->reason) {
                sums->truncated = add_saturated(sums->truncated, facts->value);
                r = count_key(report, &report->by_reason, section, facts->reason, facts->value);
        }
        if (!r && facts->link) {
                ReportLinkKey key = { section, facts->operation, *facts->link };

                sums->linked = add_saturated(sums->linked, facts->value);
                r = count(report, &report->by_link, &key, sizeof(key), facts->value, facts->value);
        }
        if (!r && facts->coroutine) {
                ReportCoroutineKey key = { section, facts->coroutine, facts->state };

                sums->in_coroutines = add_saturated(sums->in_coroutines, facts->value);
                r = count(report, &report->by_coroutine, &key, sizeof(key), facts->value, facts->value);
        }
        return r ? error_fold(r) : 0;
}

static int count_operation(Adding *adding, uint32_t section, const Facts *facts) {
        Report *report = adding->report;
        uint32_t stack;
        int r;

        if (!report->options.spans)
                return 0;
        r = adding_stack(adding, facts->window_stack, &stack);
        if (!r)
                r = count_key(report, &report->by_operation, section, facts->operation, facts->value);
        return r ? r : count_functions(adding, section, facts->operation, stack, facts->value);
}

int adding_sample(Adding *adding, const uint32_t sections[2], const Facts *facts) {
        StackSum *sum = &adding->sums[facts->window_stack];
        int r = 0;

        if (!sum->touched)
                adding->touched[adding->n_touched++] = facts->window_stack;
        sum->touched = true;
        sum->value = add_saturated(sum->value, facts->value);
        for (int s = 0; s < 2 && !r; s++)
                r = count_sample(adding->report, sections[s], facts);
        return r ? r : count_operation(adding, sections[0], facts);
}

static int count_stack(Adding *adding, uint32_t section, uint32_t stack, uint64_t value) {
        Report *report = adding->report;
        const uint32_t *functions;
        size_t n;
        int r = count_functions(adding, section, OPERATION_ALL, stack, value);

        if (!r)
                r = count_key(report, &report->by_stack, section, stack, value);
        functions = report_stack(report, stack, &n);
        if (!r && n)
                r = count_key(report, &report->by_object, section,
                              report_function(report, functions[0])->object, value);
        return r;
}

/* Many samples have few stacks: a million of them costs what their stacks cost. */
int adding_stacks(Adding *adding, const uint32_t sections[2]) {
        int r = 0;

        for (uint32_t i = 0; i < adding->n_touched; i++) {
                StackSum *sum = &adding->sums[adding->touched[i]];
                uint32_t stack;

                if (!r)
                        r = adding_stack(adding, adding->touched[i], &stack);
                for (int s = 0; s < 2 && !r; s++)
                        r = count_stack(adding, sections[s], stack, sum->value);
                *sum = (StackSum){ 0 };
        }
        adding->n_touched = 0;
        return r;
}

/* SPDX-License-Identifier: Apache-2.0 */
#include "formats/report/report.h"

#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "base/util/error.h"
#include "formats/report/report-private.h"

enum { DEFAULT_MAX_ROWS = 4 << 20 };

typedef struct Tables {
        Intern *interns[9];
        Tally *tallies[7];
} Tables;

static Tables tables_of(Report *report) {
        return (Tables){ { &report->strings, &report->objects, &report->functions, &report->stacks,
                           &report->kinds, &report->processes, &report->coroutines, &report->sections,
                           &report->profile_ids },
                         { &report->by_function, &report->by_stack, &report->by_link, &report->by_reason,
                           &report->by_object, &report->by_operation, &report->by_coroutine } };
}

static void init_tables(Report *report) {
        const Tables tables = tables_of(report);

        for (size_t i = 0; i < ARRAY_SIZE(tables.interns); i++)
                intern_init(tables.interns[i], report->options.max_rows);
        for (size_t i = 0; i < ARRAY_SIZE(tables.tallies); i++)
                tally_init(tables.tallies[i], report->options.max_rows);
}

/* Row 0: the empty string, no object, an unknown function, an empty stack, all processes, no coroutine. */
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

/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* What add.c, add-process.c and add-counts.c share while one window is added to a report. */

#include <stdbool.h>

#include "formats/report/report-private.h"

typedef struct StackSum {
        uint64_t value;
        bool touched;
} StackSum;

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
        uint32_t process;               /* of the profile at hand */
        StackSum *sums;                 /* by stack of the window: of the profile at hand */
        uint32_t *touched;              /* stacks that have a sum */
        uint32_t n_touched;
} Adding;

/* What a sample is, apart from where it counts. */
typedef struct Facts {
        uint64_t value;
        uint32_t window_stack, operation, reason;       /* reason: string, 0 = the stack is complete */
        const WindowLink *link;                 /* NULL = none */
        uint64_t n_events;
        uint32_t coroutine, state;              /* 0 = none; its state: string */
} Facts;

/* The process of a resource, and whether it is asked for. Return: 0, -ENOMEM. */
int adding_process(Adding *adding, uint32_t resource, uint32_t *processp);
bool adding_wants(const Report *report, uint32_t process);

/* What one of a sample's attributes, of that key, says of its coroutine. Return: 0, -ENOMEM. */
int adding_coroutine_attribute(Adding *adding, const char *key, const WindowAttribute *attribute,
                               ReportCoroutine *coroutine, uint32_t *statep);

/* The coroutine of @coroutine, whose process is set here; 0 if nothing is known of it. Return: 0, -ENOMEM. */
int adding_coroutine(Adding *adding, uint32_t process, ReportCoroutine *coroutine, uint32_t *indexp);

/* The report's stack of one of the window. Return: 0, -ENOMEM. */
int adding_stack(Adding *adding, uint32_t stack, uint32_t *stackp);

/* Counts a sample for both sections, but for its stack, which is summed up first; then all such sums. */
int adding_sample(Adding *adding, const uint32_t sections[2], const Facts *facts);
int adding_stacks(Adding *adding, const uint32_t sections[2]);


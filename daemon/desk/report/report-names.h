/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Names of a Report
 *
 * From the strings and frame words of one window to the strings and functions of the report, each looked up
 * once.
 */

#include "core/symbol/function/window-names.h"
#include "desk/report/report-private.h"

enum { REPORT_MAX_INLINED = 64 };       /* functions that one frame may become */

/* State while one window is added: its indexes mean nothing in another. */
typedef struct ReportNames {
        Report *report;
        const Window *window;
        WindowNames *native;            /* names of native code; NULL = only those in the window */
        Hashmap functions;              /* frame word → function + 1 */
        uint32_t *objects;              /* module → object + 1; 0 = not yet */
        uint32_t *strings;              /* string → string + 1; 0 = not yet */
} ReportNames;

int report_names_init(ReportNames *names, Report *report, const Window *window);
void report_names_deinit(ReportNames *names);

/*
 * The report's index of a string of the window, and of the function that a frame lies in. Return: 0, -ENOMEM.
 */
int report_names_string(ReportNames *names, uint32_t string, uint32_t *indexp);
int report_names_functions(ReportNames *names, FrameWord word, uint32_t functions[static REPORT_MAX_INLINED],
                           size_t *np);

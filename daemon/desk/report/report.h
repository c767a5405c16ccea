/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Report
 *
 * What many windows say, summed up for people: for each kind of profile, over all
 * processes and for each, the functions (with the names that the symbolizer finds), stacks, spans
 * and operations that the samples fall into, and how good the samples are.
 *
 * Windows are added one after the other and may be freed afterwards. Processes are told apart by all
 * their resource attributes, so that one process is one in the windows of a whole day. A profile whose id
 * was seen before is a copy and counts once.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "core/base/util/macro.h"
#include "core/profile/window.h"
#include "core/symbol/function/symbolizer.h"
#include "desk/report/spans.h"

typedef struct Report Report;

/* Everything is borrowed and must live as long as the report. */
typedef struct ReportOptions {
        Symbolizer *symbolizer;         /* NULL = names from the profiles only */
        const SpanList *spans;          /* NULL = no operations */
        const uint32_t *pids;           /* only processes with one of these ids (process.pid) … */
        size_t n_pids;
        /* … or with a name that matches one of these globs; none of both = all */
        char *const *names;
        size_t n_names;
        bool by_total;                  /* functions are sorted by total, not by self */
        bool by_line;                   /* each line of a function that @symbolizer finds counts by itself */
        bool wall;                      /* samples of the CPU, as time, and waits are one profile */
        /* rows of each table that are kept; 0 = 4 million. Rows over it are counted */
        uint32_t max_rows;
} ReportOptions;

int report_new(Report **reportp, const ReportOptions *options);
Report *report_free(Report *report);
DEFINE_CLEANUP(Report, report_free)

/* Adds what a closed window holds. Return: 0, -ENOMEM. */
int report_add(Report *report, const Window *window);

/* Processes (resources) that the options left out, and those that are in. */
uint32_t report_n_filtered(const Report *report);
uint32_t report_n_processes(const Report *report);

typedef struct ReportFormat {
        uint32_t top;                   /* rows of each table; 0 = 20 */
        unsigned width;                 /* columns of the text, 80 to 200; 0 = 100 */
        bool markdown;                  /* instead of text */
        bool page;                      /* instead of both: HTML; of an annotation alone, as the next */
        uint32_t context;               /* lines around each with a sample; UINT32_MAX = the whole file */
        bool explain;                   /* say what the words mean */
        bool brief;                     /* functions and spans alone, as after a recording */
        size_t n_files;                 /* said in the summary; the following, too */
        uint64_t n_repeated;            /* profiles that were left out before the report saw them */
        /* events that a filter has left out; that have no time for it to judge by */
        uint64_t n_filtered, n_untimed;
} ReportFormat;

/*
 * Writes the report as text (or Markdown), or as one JSON object. Return: 0, -ENOMEM; what @out does is the
 * caller's to check.
 */
int report_print(const Report *report, const ReportFormat *format, FILE *out);
int report_print_json(const Report *report, const ReportFormat *format, FILE *out);

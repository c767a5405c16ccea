/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Page
 *
 * One window as one file that people look at: a page with flame graph, timeline and tables that needs no
 * network and no server (HTML), or a picture (SVG). Two windows as one page that shows what has changed.
 *
 * A page holds the data, not a drawing of it: functions, a tree of stacks, and one row for each distinct
 * {stack, context, moment} with its value, where a context is process, thread, span, operation, coroutine and
 * further attributes. All views and sums are made from the rows in the browser; docs/man says what it shows.
 *
 * Names of functions, processes, threads … come from other programs. In HTML they stand in a packed block of
 * base64 digits alone, and what unpacks it puts them into text nodes; in SVG they are escaped. Control and
 * direction characters are replaced in both. The page forbids itself every connection and every script but
 * its own.
 */

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "core/profile/window.h"
#include "core/symbol/function/window-names.h"

/* A line of the header. Both texts are borrowed. */
typedef struct PageFact {
        const char *name, *value;
} PageFact;

typedef struct PageLoss {
        const char *reason;             /* borrowed */
        uint64_t n_samples;
} PageLoss;

typedef struct PageOptions {
        const char *title;              /* subject of the recording, in a few words; NULL = the processes */
        const char *unnamed_title;      /* … or this, where no process has a name; may be NULL */
        const char *baseline;           /* the first of two windows is called this, and … */
        const char *comparison;         /* … what the second is called; NULL = "before", "after" */
        const PageFact *facts;          /* further facts on the recording */
        size_t n_facts;
        const PageLoss *losses;         /* samples that were taken and are not here */
        size_t n_losses;
        bool losses_known;              /* false = they were not counted, and the page says nothing of them */
        double coverage;                /* sampled share of the time to be sampled, 0 to 1; 0 = not known */
        Symbolizer *symbolizer;         /* names of native code; NULL = only those in the window */
        const WindowNamesOptions *naming;       /* how far it goes; NULL = functions alone */

        /* The operation of a sample with this span; NULL for none. May be NULL. */
        const char *(*operation)(const WindowLink *link, void *userdata);
        void *userdata;
} PageOptions;

/*
 * Writes the page of a closed window. @options may be NULL. What @out does is the caller's to check.
 * Return: 0, -ENOMEM.
 */
int page_write(const Window *window, const PageOptions *options, FILE *out);

/* Writes a page of the differences between two closed windows: what @after has more or less than @before. */
int page_write_diff(const Window *before, const Window *after, const PageOptions *options, FILE *out);

/* Writes a flame graph as a picture: the kind of sample that folded stacks would have, over all threads. */
int page_write_svg(const Window *window, const PageOptions *options, FILE *out);

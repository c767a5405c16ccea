/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Page Model
 *
 * What a page holds, between the windows that it is made of (build.h) and the forms that it is written in
 * (page-encode.c for HTML, svg.c).
 *
 *     strings     every text, once, harmless
 *     frames      {name, object, file, kind, inlined}    sorted by name at the end; of two windows one for
 *                 each {name, object without folders}: builds lie in other folders, and lines move
 *     paths       the stacks of both windows as frames and lines, outermost first
 *     nodes       the tree of all paths, in the order of a walk: a node's descendants follow it
 *     contexts    {kind, side, process, thread, span, …} what a sample belongs to
 *     lines       the lines in which the functions of a path stood, as a tree: many paths have the same
 *     rows        {node, context, bucket of time, lines} → value, sorted
 */

#include <stdbool.h>

#include "core/base/data/hashmap.h"
#include "core/base/data/intern.h"
#include "core/base/util/text.h"
#include "desk/page/page.h"

enum {
        PAGE_MAX_NAME = 1000,           /* bytes that are shown of a name; the length of the rest is told */
        PAGE_MAX_SPANS = 20000,         /* distinct spans; what comes then is one */
        PAGE_MAX_VALUES = 5000,         /* values of another dimension */
        PAGE_MAX_DIMENSIONS = 24,
        PAGE_MAX_KINDS = 64,
        PAGE_MAX_ROWS = 500000,         /* over it time gets coarser */
        PAGE_BUCKETS = 300,             /* so many parts of the time at most … */
        PAGE_BUCKET_EVENTS = 8,         /* in each on average, where that is possible */
        PAGE_LEAST_BUCKETS = 30,        /* … and no fewer than these for the sake of fewer rows */
};

typedef struct PageFrame {
        uint32_t name, object, file;    /* strings */
        uint32_t type;                  /* string: native, kernel, jvm … */
        uint32_t line;                  /* where the function starts in its file; 0 = not known */
        uint32_t inlined;               /* has no frame of its own in the machine's stack */
} PageFrame;

/* A quantity that a window counts. Its period is the mean of its profiles' by their values. */
typedef struct PageKind {
        uint32_t type, unit, period_type, period_unit;  /* strings */
        uint64_t n_events, value[2];    /* [side] */
        double measured[2];             /* Σ value × period */
        bool is_cpu;
} PageKind;

/* The dimensions that each page has; those from DIMENSION_FIRST_OTHER are attributes by their key. */
enum {
        DIMENSION_PROCESS,
        DIMENSION_THREAD,
        DIMENSION_SPAN,
        DIMENSION_OPERATION,
        DIMENSION_COROUTINE,
        DIMENSION_END,                  /* how the stack ended */
        DIMENSION_FIRST_OTHER,
};

typedef struct PageDimension {
        uint32_t key;                   /* string: the attribute's key */
        Intern values;                  /* bytes → value; 0 = none, 1 = over the cap */
        uint32_t *labels;               /* value → string */
        uint32_t room;
} PageDimension;

typedef struct PageContext {
        uint32_t kind, side;
        uint32_t values[PAGE_MAX_DIMENSIONS];
} PageContext;

/* A function of a path, and the line in it that ran or called. */
typedef struct PageStep {
        uint32_t frame;
        uint32_t line;                  /* 0 = not known */
} PageStep;

typedef struct PagePath {
        const PageStep *steps;          /* outermost first */
        uint32_t n_steps;
        uint32_t node;                  /* where it ends */
        uint32_t lines;                 /* lines of its steps */
} PagePath;

typedef struct PageNode {
        uint32_t parent, frame;
} PageNode;

/*
 * The line of a step, and those of the steps outside of it. Number 0 stands for a path of which no line is
 * known, and behind its last known line a path has none: the depth of lines is at most that of their node.
 */
typedef struct PageLines {
        uint32_t outer, line;
} PageLines;

typedef struct PageRow {
        uint32_t node, context, bucket; /* bucket 0 = no time is known */
        uint32_t lines;
        uint64_t value;
} PageRow;

/* A window on its side of the page. */
typedef struct PageSide {
        const Window *window;
        PagePath *paths;                /* by stack */
        /* by profile and sample: where a profile's begin, then one for each */
        uint32_t *contexts;
        uint64_t start_ns, end_ns;      /* REALTIME of the first and last sample with a time */
        uint64_t recorded_ns;           /* how long the window is */
        uint64_t n_timed;
} PageSide;

typedef struct PageModel {
        const PageOptions *options;
        PageSide sides[2];
        uint32_t n_sides;
        Arena arena;                    /* steps of paths */
        Intern strings, frames, contexts;
        Intern matches;                 /* functions of two windows: {name, object} … */
        uint32_t *matched;              /* … and the frame that stands for it on both sides */
        uint32_t matched_room;
        PageKind kinds[PAGE_MAX_KINDS];
        uint32_t n_kinds;
        PageDimension dimensions[PAGE_MAX_DIMENSIONS];
        uint32_t n_dimensions;
        uint32_t *frame_order;          /* new → old number of a frame */
        PageNode *nodes;
        uint32_t n_nodes;
        Intern lines;                   /* PageLines; empty of two windows, since lines move */
        bool lines_left_out;            /* there were too many rows with them */
        PageRow *rows;
        size_t n_rows;
        uint64_t bucket_ns;             /* 0 = there are no times */
} PageModel;

PageModel *page_model_free(PageModel *model);
DEFINE_CLEANUP(PageModel, page_model_free)

/*
 * Adds a text, cut at PAGE_MAX_NAME and cleaned of what could change how others are shown. Texts that only
 * differ behind the cut become one. Return: 0, -ENOMEM.
 */
int page_string(PageModel *model, const char *text, size_t size, uint32_t *stringp);
const char *page_get_string(const PageModel *model, uint32_t string);

/* intern_add() where found and new are the same. Return: 0, INTERN_E_FULL, -ENOMEM. */
int page_intern(Intern *intern, const void *data, size_t size, uint32_t *indexp);

static inline const PageFrame *page_get_frame(const PageModel *model, uint32_t frame) {
        return intern_get(&model->frames, model->frame_order[frame])->data;
}

static inline const PageLines *page_get_lines(const PageModel *model, uint32_t lines) {
        return intern_get(&model->lines, lines)->data;
}

static inline const PageContext *page_get_context(const PageModel *model, uint32_t context) {
        return intern_get(&model->contexts, context)->data;
}

/* The kind that is shown first (core/profile/shown.h). */
uint32_t page_main_kind(const PageModel *model);

/* The title as text, also of a page that was given none. Return: 0, -ENOMEM. */
int page_title(const PageModel *model, Text *title);

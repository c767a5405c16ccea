/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Coroutine Report
 *
 * What events of coroutines say, summed up for people: how long each ran and was suspended, how often it was
 * resumed and by how many threads, its longest stretches, what was lost, and who never woke up. Events are
 * added in the order of the trace; nothing of them is kept.
 *
 * A stretch counts when both of its ends were seen: with events lost in between, how long it took is not
 * known. A coroutine that is suspended at the end, and not dead, may wait for nothing in particular or for
 * ever; a lost wake-up is suspected when it has waited, until its station was looked at for the last time,
 * for at least COROUTINES_SUSPECT_NS, and ten times longer than ever before.
 */

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "core/coro/station-read.h"
#include "desk/coro/trace/trace-rows.h"
#include "desk/report/report.h"

enum {
        COROUTINES_BINS = 256,          /* bins of a timeline */
        COROUTINES_MAX_TIMELINES = 20000,       /* 2 KiB each; the coroutines that come first */
        COROUTINES_SUSPECT_TIMES = 10,
        COROUTINES_TOP = 200,           /* longest stretches that are kept */
        COROUTINES_SUSPECT_NS = 100000000,
};

typedef struct Stretch {
        uint64_t ns, start_ns, address, tid;
        uint32_t coroutine;
} Stretch;

/* Parts of a bin's time. */
typedef struct TimelineBin {
        float run_ns, suspended_ns;
} TimelineBin;

/* Sums over the events of a coroutine, or of all. */
typedef struct CoroutineSums {
        uint64_t n_events, n_resumes, n_suspends, n_lost, n_unknown, n_migrations;
        uint64_t run_ns, suspended_ns;
} CoroutineSums;

typedef struct Coroutine {
        uint64_t probe_id, birth_ns;
        uint32_t pid, station;
        CoroutineSums sums;
        uint64_t first_ns, last_ns;
        uint64_t until_ns;              /* when its station was last looked at; 0 = the trace does not say */
        uint64_t longest_run_ns, longest_suspend_ns;
        uint64_t last_tid, last_address;
        bool active, dead, torn, corrupt;
        uint32_t trace;                 /* number of the last trace that had it */
        StationCode code;               /* zeros = the trace does not say */
        TimelineBin *timeline;          /* COROUTINES_BINS of them; NULL = there are too many coroutines */
} Coroutine;

typedef struct CoroutineReport CoroutineReport;

/*
 * @wanted: globs on probe id (0x…), station number or STATION-BIRTH; none = all. Borrowed. Return: 0,
 * -ENOMEM.
 */
int coroutine_report_new(CoroutineReport **reportp, char *const *wanted, size_t n_wanted);
CoroutineReport *coroutine_report_free(CoroutineReport *report);
DEFINE_CLEANUP(CoroutineReport, coroutine_report_free)

/*
 * Before each further trace. Return: how many coroutines of the one that ends here were in an earlier one,
 * too: either is a part of the same trace, or nothing tells them apart.
 */
uint32_t coroutine_report_next_trace(CoroutineReport *report);

/* Return: 0, -ENOMEM. */
int coroutine_report_event(CoroutineReport *report, const CoroEvent *event);
int coroutine_report_station(CoroutineReport *report, const TraceStationEnd *end);

uint64_t coroutine_report_n_events(const CoroutineReport *report);

typedef struct CoroutineFormat {
        uint32_t top;
        unsigned width;
        bool markdown;
        size_t n_files;
        uint64_t n_malformed;
        /*
         * The function at an address where a coroutine was suspended (NULL = several were); NULL = none
         * is known, or not this one.
         */
        const char *(*name)(void *userdata, const Coroutine *coroutine, uint64_t address);
        void *userdata;
} CoroutineFormat;

/* Writes the report. The caller checks @out for errors. Return: 0, -ENOMEM. */
int coroutine_report_print(CoroutineReport *report, const CoroutineFormat *format, FILE *out);
int coroutine_report_print_json(CoroutineReport *report, const CoroutineFormat *format, FILE *out);
int coroutine_report_print_page(CoroutineReport *report, const CoroutineFormat *format, FILE *out);

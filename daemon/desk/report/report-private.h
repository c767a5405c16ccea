/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The inside of a Report, shared by the files that fill it (add.c, report-names.c) and those that print it
 * (print.c, json.c, diff.c).
 *
 *     strings      every text, once
 *     objects      {path, gnu, go, html hash}        beside each: whether its symbols could be read
 *     functions    {name, object}
 *     stacks       functions, leaf first
 *     kinds        {type, unit, period type, period unit}
 *     resources    attributes {key, value, key, value …}
 *     processes    the resource that says most of each; 0 = all of them together
 *     coroutines   {process, station, probe id, birth, id}; 0 = none
 *     sections     {process, kind}                   what the tallies count for
 *     profile_ids  of the profiles added             a request that was sent or stored twice counts once
 */

#include "core/base/data/arena.h"
#include "core/base/data/hashmap.h"
#include "desk/report/report.h"
#include "desk/report/sheet.h"
#include "desk/report/tally.h"

typedef struct ReportObject {
        uint32_t path, build_id_gnu, build_id_go, build_id_htlhash;     /* strings */
} ReportObject;

typedef struct ReportFunction {
        uint32_t name;                  /* string; 0 = not known */
        uint32_t object;                /* 0 = none */
} ReportFunction;

typedef struct ReportKind {
        uint32_t type, unit, period_type, period_unit;  /* strings */
} ReportKind;

/* One of a process. What is not known of it is 0. */
typedef struct ReportCoroutine {
        uint64_t birth_ns;
        uint32_t process, station;      /* station: number + 1 */
        uint32_t probe_id, id, name;    /* strings; only a task has a name */
        uint32_t nothing;               /* instead of padding, as this is a key */
} ReportCoroutine;

/* A process is one row, also where its resource changes later (core/profile/process-identity.h). */
typedef struct ReportProcesses {
        Intern identities;              /* number, program, host and service; else all attributes */
        uint32_t *of_identity;          /* → process */
        uint32_t *resources;            /* process → its attributes */
        size_t of_identity_room, resources_room;
        uint32_t n;
} ReportProcesses;

typedef struct ReportSection {
        uint32_t process, kind;
} ReportSection;

typedef struct ReportSums {
        uint64_t value;                 /* in the kind's unit */
        uint64_t linked, truncated;     /* of it, with a span; with a stack that ends early */
        uint64_t in_coroutines;         /* of it */
        uint64_t n_events;
        int64_t period_min, period_max;
        double measured;                /* value × period, where a sample stands for a period */
} ReportSums;

/* Operation of a sample, in keys. */
enum {
        OPERATION_ALL,                  /* no matter which */
        OPERATION_NO_SPAN,
        OPERATION_NOT_LISTED,           /* a span without a name: neither listed nor published */
        OPERATION_FIRST,                /* + number in Report.operations */
};

/* Keys of the tallies. */
typedef struct ReportFunctionKey {
        uint32_t section, operation, function;
} ReportFunctionKey;

typedef struct ReportKey {
        uint32_t section, what;         /* a stack, a string, an object, an operation */
} ReportKey;

typedef struct ReportLinkKey {
        uint32_t section, operation;    /* operation: OPERATION_NOT_LISTED or a named one */
        WindowLink link;
} ReportLinkKey;

typedef struct ReportCoroutineKey {
        uint32_t section, coroutine, state;     /* state: string */
} ReportCoroutineKey;

/* What a thread without CPU did, and who ended it. With a span list operations stand for the spans in it. */
typedef struct ReportWaitKey {
        uint32_t section, operation;
        uint32_t state, reason;         /* strings */
        uint32_t file;                  /* string: kind of the file that the call named; 0 = none */
        uint32_t lock_kind, lock_class; /* strings, 0 = not known */
        uint32_t lock_owner;            /* thread; 0 = not known */
        uint32_t waker_function;        /* + 1: where it was as it ended the wait; 0 = not told here */
        uint32_t waker;                 /* its kind: string, 0 = not known */
        uint32_t waker_operation;
        uint32_t waker_thread;          /* 0 where a span or an operation says more */
        uint8_t span[8], waker_span[8]; /* zero = none, or its operation is known */
} ReportWaitKey;

typedef struct ReportTallies {
        Tally by_function, by_stack, by_link, by_reason, by_object, by_operation, by_coroutine,
                by_wait, by_frame_kind, by_memory;
} ReportTallies;

struct Report {
        ReportOptions options;
        Intern strings, objects, functions, stacks, kinds, resources, coroutines, sections, profile_ids;
        ReportProcesses processes;
        Intern operations;              /* names with their NUL; first the span list's, by its numbers */
        bool has_operations;            /* there is a list, or some sample says its operation */
        SymbolState *object_states;     /* by object; SYMBOL_N_STATES = was not asked */
        uint32_t object_states_room;
        ReportSums *sums;               /* by section */
        uint32_t sums_room;
        ReportTallies tallies;
        uint64_t n_left_out;            /* rows over max_rows */
        uint64_t n_repeated;            /* profiles whose id was seen before */
        bool has_compilations;          /* some frames say how their code was made */
        uint64_t page_bytes;            /* size of pages, of faults of anonymous memory; 0 = not told */
        bool has_page_sizes;            /* faults do not agree on it */
        uint64_t start_ns, end_ns;      /* REALTIME */
};

/* Adds a row to one of the report's tables; at the cap it is row 0, and counted. Return: 0, -ENOMEM. */
int report_intern(Report *report, Intern *table, const void *data, size_t size, uint32_t *indexp);

/* Begins a row that these attributes describe. Return: 0, -ENOMEM. */
int report_add_process(Report *report, uint32_t resource, uint32_t *processp);

/* For printing. Texts live as long as the report. */
const char *report_string(const Report *report, uint32_t index);
const ReportFunction *report_function(const Report *report, uint32_t function);
const ReportObject *report_object(const Report *report, uint32_t object);
const ReportKind *report_kind(const Report *report, uint32_t kind);
const ReportSection *report_section(const Report *report, uint32_t section);
const ReportCoroutine *report_coroutine(const Report *report, uint32_t coroutine);
const uint32_t *report_process(const Report *report, uint32_t process, size_t *n_attributesp);
const uint32_t *report_stack(const Report *report, uint32_t stack, size_t *n_functionsp);

/* The section of a process and a kind. Return: 0, or 1 = it has no samples. */
int report_find_section(const Report *report, uint32_t process, uint32_t kind, uint32_t *sectionp);

/* How long it was suspended, by the profiles that say so. */
uint64_t report_suspended_ns(const Report *report, uint32_t coroutine);

/* Says where samples of a section stand for times that differ much, and are only counted. Return: whether. */
bool report_say_uneven(const Report *report, uint32_t section, const Sheet *sheet);

/* Value of an attribute of a process, or "". */
const char *report_attribute(const Report *report, uint32_t process, const char *key);

/* `checkout`, `[unknown]` … */
const char *report_function_name(const Report *report, uint32_t function);
/* Without folders; `[kernel]`, `[unknown]`. */
const char *report_object_name(const Report *report, uint32_t object);
const char *report_object_state(const Report *report, uint32_t object);
const char *report_operation_name(const Report *report, uint32_t operation);

/* Numbers an operation; one over the cap of rows is OPERATION_NOT_LISTED, and counted. Return: 0, -ENOMEM. */
int report_add_operation(Report *report, const char *name, uint32_t *operationp);

/* Words of rows of REPORT_MEMORY behind the kind of memory. */
#define REPORT_MEMORY_HUGE ", perhaps huge pages"
#define REPORT_MEMORY_MAJOR ", read from a disk"

typedef enum ReportTable {
        REPORT_FUNCTIONS,
        REPORT_STACKS,
        REPORT_LINKS,
        REPORT_REASONS,
        REPORT_OBJECTS,
        REPORT_OPERATIONS,
        REPORT_COROUTINES,
        REPORT_WAITS,
        REPORT_FRAME_KINDS,
        REPORT_MEMORY,
        REPORT_N_TABLES,
} ReportTable;

/*
 * The rows of a table for a section (functions: of one operation), the largest first; equal ones by name.
 * Return: 0 with *rowsp owned by the caller, -ENOMEM.
 */
int report_rows(const Report *report, ReportTable table, uint32_t section, uint32_t operation,
                TallyRow **rowsp, size_t *np);

/*
 * The sections of one kind, without that of all processes, the largest first. Return: 0 with *sectionsp owned
 * by the caller, -ENOMEM.
 */
int report_process_sections(const Report *report, uint32_t kind, uint32_t **sectionsp, size_t *np);

/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Adding a Window to a Report
 *
 * Indexes of a window mean nothing in the next one, so each is translated once while the window is added:
 *
 *     resource  → process      rows of `processes`
 *     stack     → stack        its frames as functions (report-names.c), each with its object
 *     sample    → sections     {process, kind} and {all processes, kind}: each sample counts in both
 *
 * Many samples of a profile have one stack. So the values of a profile are summed up by stack first; then
 * each stack is walked once, and its functions get the sum. A function that recurs counts once in `total`.
 */

#include <errno.h>
#include <fnmatch.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/util/array.h"
#include "core/base/util/error.h"
#include "core/base/util/text.h"
#include "core/profile/operation.h"
#include "core/profile/process-identity.h"
#include "desk/report/glossary.h"
#include "desk/report/report-names.h"
#include "desk/report/report-private.h"

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
        int64_t period;                 /* of it; 0 = its values stand for themselves */
        uint64_t scale;                 /* what they are multiplied by */
        StackSum *sums;                 /* by stack of the window: of the profile at hand */
        uint32_t *touched;              /* stacks that have a sum */
        uint32_t n_touched;
        bool has_wakers;                /* stacks of this profile are of who ended waits */
        uint32_t *operations;           /* set of attributes → operation; 0 = not yet */
} Adding;

/* What a sample is, apart from where it counts. */
typedef struct Facts {
        uint64_t value;
        uint32_t window_stack, operation, reason;       /* reason: string, 0 = the stack is complete */
        const WindowLink *link;                 /* NULL = none */
        uint64_t n_events;
        uint32_t coroutine, state;              /* 0 = none; its state: string */
        ReportWaitKey wait;                     /* without a state: none */
        uint32_t memory;                        /* of a page fault, as printed: string; 0 = it is none */
} Facts;

/* Which process a resource is, and whether the options ask for it. */

/* An attribute as text: what people search for. */
static int add_attribute(Adding *adding, uint32_t index, uint32_t *pair) {
        const WindowAttribute *attribute = window_get_attribute(adding->window, index);
        Report *report = adding->report;
        char text[64] = "";
        double number;
        int r = report_names_string(&adding->names, attribute->key, &pair[0]);

        if (r)
                return error_fold(r);
        if (attribute->kind == ATTRIBUTE_STRING)
                return report_names_string(&adding->names, attribute->string, &pair[1]);
        if (attribute->kind == ATTRIBUTE_INT)
                snprintf(text, sizeof(text), "%" PRId64, attribute->integer);
        else if (attribute->kind == ATTRIBUTE_BOOL)
                snprintf(text, sizeof(text), "%s", attribute->integer ? "true" : "false");
        else if (attribute->kind == ATTRIBUTE_DOUBLE) {
                memcpy(&number, &attribute->integer, sizeof(number));
                snprintf(text, sizeof(text), "%.17g", number);
        }
        return report_intern(report, &report->strings, text, strlen(text) + 1, &pair[1]);
}

/* Key: 1 (so that a resource without attributes is not row 0), then the pairs. */
static int adding_resource(Adding *adding, uint32_t resource, uint32_t *numberp) {
        Report *report = adding->report;
        _cleanup_(freep) uint32_t *key = NULL;
        const uint32_t *attributes;
        size_t n;
        int r = 0;

        attributes = window_get_resource(adding->window, resource, &n);
        key = calloc(1 + 2 * n, sizeof(*key));
        if (!key)
                return error_origin(-ENOMEM);
        key[0] = 1;
        for (size_t i = 0; i < n && !r; i++)
                r = add_attribute(adding, attributes[i], key + 1 + 2 * i);
        return r ? error_fold(r)
                 : report_intern(report, &report->resources, key, (1 + 2 * n) * sizeof(*key), numberp);
}

/*
 * @identity: of a process, @n_nameless bytes of it without its service's name. Its first name holds for the
 * samples of before, too, and a later name is a row of its own. Attributes are those of the last resource.
 */
static int find_process(Report *report, uint32_t resource, const Text *identity, size_t n_nameless,
                        uint32_t *processp) {
        ReportProcesses *processes = &report->processes;
        uint32_t nameless, number, *of;
        int r = report_intern(report, &processes->identities, identity->data, n_nameless, &nameless);

        if (!r)
                r = report_intern(report, &processes->identities, identity->data, identity->size, &number);
        if (!r)
                r = array_reserve_zero(&processes->of_identity, &processes->of_identity_room,
                                       MAX(nameless, number) + 1u, 64);
        *processp = 0;
        if (r || !nameless || !number)
                return error_fold(r);
        of = processes->of_identity;
        if (!of[number] && of[nameless] &&
            !process_service_has_name(report_attribute(report, of[nameless], "service.name")))
                of[number] = of[nameless];
        else if (!of[number])
                r = report_add_process(report, resource, &of[number]);
        if (r)
                return error_fold(r);
        of[nameless] = of[nameless] ?: of[number];
        if (number != nameless)
                processes->resources[of[number]] = resource;
        *processp = of[number];
        return 0;
}

static int adding_process(Adding *adding, uint32_t resource, uint32_t *processp) {
        const char *service = window_get_resource_text(adding->window, resource, "service.name");
        _cleanup_(text_deinit) Text identity = { 0 };
        uint32_t number;
        size_t n;
        int r;

        if (adding->processes[resource]) {
                *processp = adding->processes[resource] - 1;
                return 0;
        }
        r = adding_resource(adding, resource, &number);
        if (r)
                return error_fold(r);
        if (!process_identity(adding->window, resource, &identity)) {
                text_append(&identity, (const char *)&number, sizeof(number));
                service = "";
        }
        n = identity.size;
        if (process_service_has_name(service))
                text_printf(&identity, "%s", service);
        r = identity.failed ? error_origin(-ENOMEM)
                            : find_process(adding->report, number, &identity, n, processp);
        if (r)
                return error_fold(r);
        adding->processes[resource] = *processp + 1;
        return 0;
}

static bool has_pid(const ReportOptions *options, const char *text) {
        uint64_t pid;

        if (text_u64(text, UINT32_MAX, &pid))
                return false;
        for (size_t i = 0; i < options->n_pids; i++)
                if (options->pids[i] == pid)
                        return true;
        return false;
}

static bool adding_wants(const Report *report, uint32_t process) {
        const ReportOptions *options = &report->options;
        static const char *const keys[] = { "process.executable.name", "service.name" };

        if (!options->n_pids && !options->n_names)
                return true;
        if (has_pid(options, report_attribute(report, process, "process.pid")))
                return true;
        for (size_t i = 0; i < options->n_names; i++)
                for (size_t k = 0; k < ARRAY_SIZE(keys); k++)
                        if (fnmatch(options->names[i], report_attribute(report, process, keys[k]), 0) == 0)
                                return true;
        return false;
}

/* Which coroutine a sample is of, by its attributes. */

static int adding_coroutine_attribute(Adding *adding, const char *key, const WindowAttribute *attribute,
                                      ReportCoroutine *coroutine, uint32_t *statep) {
        if (attribute->kind == ATTRIBUTE_INT && attribute->integer >= 0) {
                if (!strcmp(key, "station") && attribute->integer < UINT32_MAX)
                        coroutine->station = (uint32_t)attribute->integer + 1;
                else if (!strcmp(key, "birth_ns"))
                        coroutine->birth_ns = (uint64_t)attribute->integer;
        }
        if (attribute->kind != ATTRIBUTE_STRING)
                return 0;
        if (!strcmp(key, "probe_id"))
                return report_names_string(&adding->names, attribute->string, &coroutine->probe_id);
        if (!strcmp(key, "id"))
                return report_names_string(&adding->names, attribute->string, &coroutine->id);
        if (!strcmp(key, "name"))
                return report_names_string(&adding->names, attribute->string, &coroutine->name);
        return strcmp(key, "state") ? 0 : report_names_string(&adding->names, attribute->string, statep);
}

/* Who waits, and for whom, by the sample's attributes (docs/OFFCPU.md). */
static int adding_wait_attribute(Adding *adding, const char *key, const WindowAttribute *attribute,
                                 ReportWaitKey *wait) {
        uint32_t *strings[] = { &wait->state, &wait->reason,    &wait->waker,
                                &wait->file,  &wait->lock_kind, &wait->lock_class };
        static const char *const keys[] = { "state",     "reason",    "waker.kind",
                                            "file.kind", "lock.kind", "lock.class" };
        const char *text;
        uint64_t id;
        size_t size;

        if (attribute->kind == ATTRIBUTE_INT && attribute->integer > 0 && attribute->integer <= INT32_MAX) {
                if (!strcmp(key, "waker.thread.id"))
                        wait->waker_thread = (uint32_t)attribute->integer;
                else if (!strcmp(key, "lock.owner.thread.id"))
                        wait->lock_owner = (uint32_t)attribute->integer;
        }
        if (attribute->kind != ATTRIBUTE_STRING)
                return 0;
        for (size_t i = 0; i < ARRAY_SIZE(keys); i++)
                if (!strcmp(key, keys[i]))
                        return report_names_string(&adding->names, attribute->string, strings[i]);
        if (strcmp(key, "waker.span_id"))
                return 0;
        text = window_get_string(adding->window, attribute->string, &size);
        if (size != 16 || text_hex(text, text + size, &id))
                return 0;
        for (size_t i = 0; i < sizeof(wait->waker_span); i++)
                wait->waker_span[i] = (uint8_t)(id >> (56 - 8 * i));
        return 0;
}

/* Many coroutines of many processes have the same station: the process is a part of who it is. */
static int adding_coroutine(Adding *adding, uint32_t process, ReportCoroutine *coroutine, uint32_t *indexp) {
        *indexp = 0;
        if (!coroutine->station && !coroutine->probe_id && !coroutine->birth_ns && !coroutine->id &&
            !coroutine->name)
                return 0;
        coroutine->process = process;
        return report_intern(adding->report, &adding->report->coroutines, coroutine, sizeof(*coroutine),
                             indexp);
}

/* Counting of samples: each for the whole report and for its process. */

static int count(Report *report, Tally *tally, const void *key, size_t size, uint64_t self, uint64_t total) {
        int r = tally_add(tally, key, size, self, total);

        if (r == INTERN_E_FULL) {
                report->n_left_out++;
                return 0;
        }
        return r ? error_fold(r) : 0;
}

/* Inlined functions make it longer than the stack. */
static int read_functions(Adding *adding, const FrameWord *frames, size_t n, size_t *n_functionsp) {
        size_t at = 0;

        for (size_t i = 0; i < n; i++) {
                size_t more;
                int r = array_reserve(&adding->functions, &adding->functions_room, at + REPORT_MAX_INLINED,
                                      REPORT_MAX_INLINED);

                if (!r)
                        r = report_names_functions(&adding->names, frames[i], adding->functions + at, &more);
                if (r)
                        return error_fold(r);
                at += more;
        }
        *n_functionsp = at;
        return 0;
}

static int adding_stack(Adding *adding, uint32_t stack, uint32_t *stackp) {
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

/* A function that is in a stack several times counts once in its total. */
static int count_functions(Adding *adding, uint32_t section, uint32_t operation, uint32_t stack,
                           uint64_t value) {
        Report *report = adding->report;
        const uint32_t *functions;
        size_t n;
        int r = array_reserve_zero(&adding->seen, &adding->seen_room, report->functions.n_items, 64);

        adding->sample++;
        functions = report_stack(report, stack, &n);
        for (size_t i = 0; i < n && !r; i++) {
                ReportFunctionKey key = { section, operation, functions[i] };

                if (adding->seen[functions[i]] == adding->sample)
                        continue;
                adding->seen[functions[i]] = adding->sample;
                r = count(report, &report->tallies.by_function, &key, sizeof(key), i == 0 ? value : 0, value);
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
                r = count_key(report, &report->tallies.by_reason, section, facts->reason, facts->value);
        }
        if (!r && facts->link) {
                ReportLinkKey key = { section, facts->operation, *facts->link };

                sums->linked = add_saturated(sums->linked, facts->value);
                r = count(report, &report->tallies.by_link, &key, sizeof(key), facts->value, facts->value);
        }
        if (!r && facts->coroutine) {
                ReportCoroutineKey key = { section, facts->coroutine, facts->state };

                sums->in_coroutines = add_saturated(sums->in_coroutines, facts->value);
                r = count(report, &report->tallies.by_coroutine, &key, sizeof(key), facts->value,
                          facts->value);
        }
        if (!r && facts->wait.state) {
                ReportWaitKey key = facts->wait;

                key.section = section;
                r = count(report, &report->tallies.by_wait, &key, sizeof(key), facts->value, facts->value);
        }
        if (!r && facts->memory)
                r = count_key(report, &report->tallies.by_memory, section, facts->memory, facts->value);
        return r ? error_fold(r) : 0;
}

static int count_operation(Adding *adding, uint32_t section, const Facts *facts) {
        Report *report = adding->report;
        uint32_t stack;
        int r;

        r = count_key(report, &report->tallies.by_operation, section, facts->operation, facts->value);
        /* without a list, most samples may have no operation: then their functions are all functions */
        if (r || (!report->options.spans && facts->operation < OPERATION_FIRST))
                return error_fold(r);
        r = adding_stack(adding, facts->window_stack, &stack);
        return r ? r : count_functions(adding, section, facts->operation, stack, facts->value);
}

static int adding_sample(Adding *adding, const uint32_t sections[2], const Facts *facts) {
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
                r = count_key(report, &report->tallies.by_stack, section, stack, value);
        functions = report_stack(report, stack, &n);
        if (!r && n)
                r = count_key(report, &report->tallies.by_object, section,
                              report_function(report, functions[0])->object, value);
        return r;
}

/* How the innermost frame of a stack of the window ran: `jit compiled`, `native` …; 0 = there is none. */
static int leaf_kind(Adding *adding, uint32_t stack, uint32_t *kindp) {
        const Window *window = adding->window;
        const WindowAttribute *attribute;
        const FrameWord *frames;
        WindowFrame leaf;
        size_t n;

        *kindp = 0;
        frames = window_get_stack(window, stack, &n);
        if (!n)
                return 0;
        leaf = window_expand_frame(window, frames[0]);
        attribute = window_get_attribute(window, leaf.attribute);
        if (attribute->kind != ATTRIBUTE_STRING ||
            strcmp(window_get_string(window, attribute->key, NULL), "jvm.frame.compilation"))
                return report_names_string(&adding->names, leaf.type, kindp);
        adding->report->has_compilations = true;
        return report_names_string(&adding->names, attribute->string, kindp);
}

/* Many samples have few stacks: a million of them costs what their stacks cost. */
static int adding_stacks(Adding *adding, const uint32_t sections[2]) {
        int r = 0;

        for (uint32_t i = 0; i < adding->n_touched; i++) {
                StackSum *sum = &adding->sums[adding->touched[i]];
                uint32_t stack, kind;

                if (!r)
                        r = adding_stack(adding, adding->touched[i], &stack);
                if (!r)
                        r = leaf_kind(adding, adding->touched[i], &kind);
                for (int s = 0; s < 2 && !r; s++) {
                        r = count_stack(adding, sections[s], stack, sum->value);
                        if (!r && kind)
                                r = count_key(adding->report, &adding->report->tallies.by_frame_kind,
                                              sections[s], kind, sum->value);
                }
                *sum = (StackSum){ 0 };
        }
        adding->n_touched = 0;
        return r;
}

/* One window. */

static void adding_deinit(Adding *adding) {
        report_names_deinit(&adding->names);
        free(adding->stacks);
        free(adding->processes);
        free(adding->functions);
        free(adding->seen);
        free(adding->sums);
        free(adding->touched);
        free(adding->operations);
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
        adding->operations = calloc(window_n_attribute_sets(window) + 1u, sizeof(*adding->operations));
        return adding->stacks && adding->processes && adding->sums && adding->touched && adding->operations
                ? 0
                : error_origin(-ENOMEM);
}

static int find_section(Report *report, uint32_t process, uint32_t kind, uint32_t *sectionp) {
        ReportSection section = { process, kind };
        int r = report_intern(report, &report->sections, &section, sizeof(section), sectionp);

        return r ? r : array_reserve_zero(&report->sums, &report->sums_room, *sectionp + 1u, 16);
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

static bool is_named(const Adding *adding, const WindowProfileNames *names, const char *type,
                     const char *unit, const char *period_type) {
        const Window *window = adding->window;

        return !strcmp(window_get_string(window, names->type, NULL), type) &&
                !strcmp(window_get_string(window, names->unit, NULL), unit) &&
                !strcmp(window_get_string(window, names->period_type, NULL), period_type) &&
                !strcmp(window_get_string(window, names->period_unit, NULL), "nanoseconds");
}

static bool is_space(const Adding *adding, const WindowProfileNames *names) {
        return !strcmp(window_get_string(adding->window, names->period_type, NULL), "space");
}

/*
 * The CPU time that samples stand for, and waits, are the time of the clock. Return: 0, 1 = this profile is
 * neither, -ENOMEM.
 */
static int find_wall(Adding *adding, const WindowProfile *profile, uint32_t *kindp) {
        const WindowProfileNames *names = &profile->names;
        Report *report = adding->report;
        bool is_cpu = profile->period > 0 && is_named(adding, names, "samples", "count", "cpu");
        ReportKind kind;
        int r;

        if (!report->options.wall ||
            !(is_cpu || is_named(adding, names, "off_cpu", "nanoseconds", "off_cpu")))
                return 1;
        adding->scale = is_cpu ? (uint64_t)profile->period : 1;
        adding->period = 0;
        r = report_intern(report, &report->strings, "wall", sizeof("wall"), &kind.type);
        if (!r)
                r = report_intern(report, &report->strings, "nanoseconds", sizeof("nanoseconds"), &kind.unit);
        kind.period_type = kind.type;
        kind.period_unit = kind.unit;
        return r ? error_fold(r) : report_intern(report, &report->kinds, &kind, sizeof(kind), kindp);
}

/* By the list of spans alone. */
static uint32_t find_listed(const Report *report, const WindowLink *link) {
        uint32_t operation;

        if (!link)
                return OPERATION_NO_SPAN;
        if (!report->options.spans || span_list_find(report->options.spans, link->span_id, &operation))
                return OPERATION_NOT_LISTED;
        return OPERATION_FIRST + operation;
}

/* What the sample itself says (core/profile/operation.h). OPERATION_NOT_LISTED = nothing. */
static int find_published(Adding *adding, uint32_t set, uint32_t *operationp) {
        uint32_t *known = &adding->operations[set], index;
        int r = 0;

        if (!*known) {
                *known = OPERATION_NOT_LISTED;
                if (operation_of_set(adding->window, set, &index))
                        r = report_add_operation(
                                adding->report,
                                window_get_string(adding->window,
                                                  window_get_attribute(adding->window, index)->string, NULL),
                                known);
        }
        *operationp = *known;
        return error_fold(r);
}

/* The list was asked for, so it goes first. */
static int find_operation(Adding *adding, const WindowSample *sample, Facts *facts) {
        uint32_t published;
        int r;

        facts->operation = find_listed(adding->report, facts->link);
        if (facts->operation >= OPERATION_FIRST)
                return 0;
        r = find_published(adding, sample->attributes, &published);
        if (!r && published >= OPERATION_FIRST)
                facts->operation = published;
        return r;
}

/* Purpose of a page fault, by the sample's attributes. Texts are windows'. */
typedef struct Memory {
        const char *kind, *fault, *huge, *file;
        int64_t page_bytes;
} Memory;

static void read_memory(const Window *window, const char *key, const WindowAttribute *attribute,
                        Memory *memory) {
        const struct {
                const char *key, **textp;
        } texts[] = { { "memory.kind", &memory->kind },
                      { "page_fault.kind", &memory->fault },
                      { "memory.huge_page", &memory->huge },
                      { "file.name", &memory->file } };

        if (attribute->kind == ATTRIBUTE_INT && !strcmp(key, "memory.page_size"))
                memory->page_bytes = attribute->integer;
        for (size_t i = 0; i < ARRAY_SIZE(texts) && attribute->kind == ATTRIBUTE_STRING; i++)
                if (!strcmp(key, texts[i].key))
                        *texts[i].textp = window_get_string(window, attribute->string, NULL);
}

/* `heap`, `anonymous, perhaps huge pages`, `file, read from a disk: users.db`. */
static int add_memory(Adding *adding, const Memory *memory, uint32_t *memoryp) {
        const bool is_major = memory->fault && !strcmp(memory->fault, "major");
        Report *report = adding->report;
        char text[512];

        *memoryp = 0;
        if (!memory->kind)
                return 0;
        if (memory->page_bytes > 0) {
                uint64_t bytes = (uint64_t)memory->page_bytes;

                report->has_page_sizes |= report->page_bytes && report->page_bytes != bytes;
                report->page_bytes = bytes;
        }
        snprintf(text, sizeof(text), "%.40s%s%s%s%.255s", memory->kind,
                 memory->huge ? REPORT_MEMORY_HUGE : "", is_major ? REPORT_MEMORY_MAJOR : "",
                 memory->file ? ": " : "", memory->file ?: "");
        return report_intern(report, &report->strings, text, strlen(text) + 1, memoryp);
}

/* Why the stack ends early, and which coroutine it is of, by the sample's attributes. */
static int read_attributes(Adding *adding, uint32_t set, Facts *facts) {
        ReportCoroutine coroutine = { 0 };
        const uint32_t *attributes;
        Memory memory = { 0 };
        int r = 0;
        size_t n;

        facts->reason = facts->state = 0;
        facts->wait = (ReportWaitKey){ 0 };
        attributes = window_get_attribute_set(adding->window, set, &n);
        for (size_t i = 0; i < n && !r; i++) {
                const WindowAttribute *attribute = window_get_attribute(adding->window, attributes[i]);
                const char *key = window_get_string(adding->window, attribute->key, NULL);

                if (attribute->kind == ATTRIBUTE_STRING && !strcmp(key, "profile.stack.truncated"))
                        r = report_names_string(&adding->names, attribute->string, &facts->reason);
                else if (!strncmp(key, "coroutine.", 10))
                        r = adding_coroutine_attribute(adding, key + 10, attribute, &coroutine,
                                                       &facts->state);
                else if (!strncmp(key, "wait.", 5))
                        r = adding_wait_attribute(adding, key + 5, attribute, &facts->wait);
                else
                        read_memory(adding->window, key, attribute, &memory);
        }
        if (!r)
                r = add_memory(adding, &memory, &facts->memory);
        return r ? r : adding_coroutine(adding, adding->process, &coroutine, &facts->coroutine);
}

/* The operation of a span that is in the list, whose id is then left out. */
static uint32_t take_operation(const Report *report, uint8_t span_id[8]) {
        static const uint8_t none[8];
        WindowLink link = { 0 };
        uint32_t operation;

        memcpy(link.span_id, span_id, sizeof(link.span_id));
        operation = find_listed(report, memcmp(span_id, none, sizeof(none)) ? &link : NULL);
        if (operation >= OPERATION_FIRST)
                memset(span_id, 0, sizeof(none));
        return operation;
}

static void read_wait(const Report *report, const Facts *facts, ReportWaitKey *wait) {
        wait->operation = facts->operation;
        if (facts->link && facts->operation < OPERATION_FIRST)
                memcpy(wait->span, facts->link->span_id, sizeof(wait->span));
        wait->waker_operation = take_operation(report, wait->waker_span);
        if (wait->waker_operation != OPERATION_NO_SPAN)
                wait->waker_thread = 0;
}

static bool is_system_library(const Report *report, uint32_t object) {
        return object &&
                glossary_is_system_library(report_string(report, report_object(report, object)->path));
}

/* `Cache.rebuild` of unlock ← Cache.rebuild ← handle: the innermost function of the waker's own code. */
static int find_waker_function(Adding *adding, uint32_t window_stack, ReportWaitKey *wait) {
        Report *report = adding->report;
        const uint32_t *functions;
        uint32_t stack;
        size_t n;
        int r = adding_stack(adding, window_stack, &stack);

        if (r)
                return error_fold(r);
        functions = report_stack(report, stack, &n);
        for (size_t i = 0; i < n; i++)
                if (!is_system_library(report, report_function(report, functions[i])->object)) {
                        wait->waker_function = functions[i] + 1;
                        return 0;
                }
        if (n)
                wait->waker_function = functions[0] + 1;
        return 0;
}

static uint64_t scaled(int64_t value, uint64_t scale) {
        uint64_t product;

        if (value <= 0)
                return 0;
        return __builtin_mul_overflow((uint64_t)value, scale, &product) ? UINT64_MAX : product;
}

static int read_facts(Adding *adding, const WindowSample *sample, Facts *facts) {
        int r = read_attributes(adding, sample->attributes, facts);

        if (r)
                return error_fold(r);
        facts->window_stack = sample->stack;
        facts->value = scaled(sample->value, adding->scale);
        facts->n_events = sample->n_times ? sample->n_times : 1;
        facts->link = sample->link ? window_get_link(adding->window, sample->link) : NULL;
        r = find_operation(adding, sample, facts);
        if (r)
                return error_fold(r);
        read_wait(adding->report, facts, &facts->wait);
        return adding->has_wakers && sample->stack
                ? find_waker_function(adding, sample->stack, &facts->wait)
                : 0;
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
                add_period(&adding->report->sums[sections[s]], adding->period, (double)value);
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
        /* a value that is its own period says nothing more */
        adding->period = profile->period == 1 && (profile->names.type == profile->names.period_type ||
                                                  is_space(adding, &profile->names))
                ? 0
                : profile->period;
        adding->has_wakers = is_named(adding, &profile->names, "off_cpu_waker", "nanoseconds",
                                      "off_cpu_waker");
        adding->scale = 1;
        if (!r)
                r = find_wall(adding, profile, &kind);
        if (r > 0)
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
        report->start_ns = MIN(report->start_ns, window_start_ns(window) + (uint64_t)offset);
        report->end_ns = MAX(report->end_ns, window_end_ns(window) + (uint64_t)offset);
        return 0;
}

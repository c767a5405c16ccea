/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Adds up samples of a window by texts: functions, spans, threads, processes and more, each with its own
 * kind of row.
 */

#include "desk/live/counts.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/data/hashmap.h"
#include "core/base/util/array.h"
#include "core/base/util/error.h"
#include "core/base/util/text.h"
#include "core/profile/operation.h"
#include "desk/report/glossary.h"

/* While one window is added: its indexes mean nothing in another. */
typedef struct Adding {
        Counts *counts;
        const Window *window;
        uint64_t *stacks;               /* what fell into each stack */
        Hashmap functions;              /* frame word → row of COUNTS_FUNCTIONS, + 1 */
        uint32_t *seen;                 /* by function: the last stack that it was met in */
        size_t seen_room;
        Text key;                       /* texts, each with its NUL */
} Adding;

void counts_init(Counts *counts) {
        *counts = (Counts){ 0 };
        for (size_t i = 0; i < COUNTS_N_TABLES; i++)
                tally_init(&counts->tables[i], COUNTS_MAX_ROWS);
}

void counts_deinit(Counts *counts) {
        for (size_t i = 0; i < COUNTS_N_TABLES; i++)
                tally_deinit(&counts->tables[i]);
}

/* ---- keys ---- */

static void begin_key(Adding *adding) {
        adding->key.size = 0;
}

static void add_text(Adding *adding, const char *text) {
        text_append(&adding->key, text, strlen(text) + 1);
}

/* Over the cap of rows the sums of the window still count it. */
static int add_row(Adding *adding, CountsTable table, uint64_t self, uint64_t total) {
        int r;

        if (adding->key.failed)
                return error_origin(-ENOMEM);
        r = tally_add(&adding->counts->tables[table], adding->key.data, adding->key.size, self, total);
        return r == INTERN_E_FULL ? 0 : error_fold(r);
}

static const char *attribute_key(const Adding *adding, uint32_t index) {
        return window_get_string(adding->window, window_get_attribute(adding->window, index)->key, NULL);
}

/* As text; @number holds that of an integer. "" = there is none. */
static const char *find_attribute(const Adding *adding, const uint32_t *set, size_t n, const char *key,
                                  char number[24]) {
        for (size_t i = 0; i < n; i++) {
                const WindowAttribute *row = window_get_attribute(adding->window, set[i]);

                if (strcmp(attribute_key(adding, set[i]), key))
                        continue;
                if (row->kind == ATTRIBUTE_STRING)
                        return window_get_string(adding->window, row->string, NULL);
                snprintf(number, 24, "%" PRId64, row->integer);
                return number;
        }
        return "";
}

/* ---- who ---- */

/* A service's name says more than its program's, unless it has been given none. */
static const char *process_name(const Adding *adding, uint32_t resource, char number[24]) {
        size_t n;
        const uint32_t *set = window_get_resource(adding->window, resource, &n);
        const char *service = find_attribute(adding, set, n, "service.name", number);

        if (*service && strncmp(service, "unknown_service", strlen("unknown_service")))
                return service;
        return find_attribute(adding, set, n, "process.executable.name", number);
}

static const char *process_pid(const Adding *adding, uint32_t resource, char number[24]) {
        size_t n;
        const uint32_t *set = window_get_resource(adding->window, resource, &n);

        return find_attribute(adding, set, n, "process.pid", number);
}

static int add_process(Adding *adding, const WindowProfile *profile) {
        char name[24], pid[24];

        begin_key(adding);
        add_text(adding, process_name(adding, profile->resource, name));
        add_text(adding, process_pid(adding, profile->resource, pid));
        return add_row(adding, COUNTS_PROCESSES, profile->n_events, profile->n_events);
}

static int add_thread(Adding *adding, const WindowProfile *profile, const uint32_t *set, size_t n,
                      uint64_t value) {
        char name[24], id[24], process[24];

        begin_key(adding);
        add_text(adding, find_attribute(adding, set, n, "thread.name", name));
        add_text(adding, find_attribute(adding, set, n, "thread.id", id));
        add_text(adding, process_name(adding, profile->resource, process));
        return add_row(adding, COUNTS_THREADS, value, value);
}

/* A sample of none counts in no row. A task has a name in the place of a station. */
static int add_coroutine(Adding *adding, const WindowProfile *profile, const uint32_t *set, size_t n,
                         uint64_t value) {
        char station[24], probe[24], birth[24], process[24], task[24];
        const char *number = find_attribute(adding, set, n, "coroutine.station", station);
        const char *name = find_attribute(adding, set, n, "coroutine.name", task);

        if (!*number && !*name)
                return 0;
        begin_key(adding);
        add_text(adding, number);
        add_text(adding, find_attribute(adding, set, n, "coroutine.probe_id", probe));
        add_text(adding, find_attribute(adding, set, n, "coroutine.birth_ns", birth));
        add_text(adding, process_name(adding, profile->resource, process));
        add_text(adding, *name ? name : number);
        return add_row(adding, COUNTS_COROUTINES, value, value);
}

/* ---- in which request ---- */

/* What we say of every sample ourselves; the rest is what the program says of its span. */
static bool is_ours(const char *key) {
        static const char *const ours[] = { "thread.", "profile.", "coroutine.", "datadog." };

        for (size_t i = 0; i < ARRAY_SIZE(ours); i++)
                if (!strncmp(key, ours[i], strlen(ours[i])))
                        return true;
        return false;
}

static void add_span_attributes(Adding *adding, const uint32_t *set, size_t n) {
        const char *separator = "";
        char number[24];

        for (size_t i = 0; i < n; i++) {
                const char *key = attribute_key(adding, set[i]);

                if (is_ours(key))
                        continue;
                text_printf(&adding->key, "%s%s=%s", separator, key,
                            find_attribute(adding, set, n, key, number));
                separator = " ";
        }
        text_append(&adding->key, "", 1);
}

static int add_span(Adding *adding, const WindowProfile *profile, const WindowSample *sample,
                    const uint32_t *set, size_t n) {
        const WindowLink *link = window_get_link(adding->window, sample->link);
        char trace[33], span[17], process[24];

        text_to_hex(trace, link->trace_id, sizeof(link->trace_id));
        text_to_hex(span, link->span_id, sizeof(link->span_id));
        begin_key(adding);
        add_text(adding, span);
        add_text(adding, trace);
        add_span_attributes(adding, set, n);
        add_text(adding, process_name(adding, profile->resource, process));
        adding->counts->n_linked += (uint64_t)sample->value;
        return add_row(adding, COUNTS_SPANS, (uint64_t)sample->value, (uint64_t)sample->value);
}

/* A span without a name counts in no row. */
static int add_operation(Adding *adding, const WindowProfile *profile, const WindowSample *sample) {
        const Window *window = adding->window;
        char process[24];
        uint32_t index;

        if (!operation_of_set(window, sample->attributes, &index))
                return 0;
        begin_key(adding);
        add_text(adding, window_get_string(window, window_get_attribute(window, index)->string, NULL));
        add_text(adding, process_name(adding, profile->resource, process));
        return add_row(adding, COUNTS_OPERATIONS, (uint64_t)sample->value, (uint64_t)sample->value);
}

static int add_reason(Adding *adding, const char *reason, uint64_t value) {
        begin_key(adding);
        add_text(adding, reason);
        adding->counts->n_truncated += value;
        return add_row(adding, COUNTS_REASONS, value, value);
}

/* ---- what ---- */

static const char *base_name(const char *path) {
        const char *slash = strrchr(path, '/');

        return slash && slash[1] ? slash + 1 : path;
}

static const char *object_name(const Adding *adding, const WindowFrame *frame) {
        const Window *window = adding->window;
        const char *type = window_get_string(window, frame->type, NULL);
        const char *path = window_get_string(window, window_get_module(window, frame->module)->path, NULL);
        const char *file = window_get_string(window, window_get_function(window, frame->function)->filename,
                                             NULL);

        if (!strcmp(type, "kernel"))
                return *path && strcmp(path, "vmlinux") ? path : "[kernel]";
        if (*path)
                return base_name(path);
        return *file ? base_name(file) : *type && strcmp(type, "unknown") ? type : COUNTS_NO_NAME;
}

/* Code without a name is one row for each file, as in a report: `[libblas.so.3]`. */
static void add_function(Adding *adding, FrameWord word) {
        WindowFrame frame = window_expand_frame(adding->window, word);
        const char *name = window_get_string(adding->window,
                                             window_get_function(adding->window, frame.function)->name, NULL);
        const char *object = object_name(adding, &frame);

        if (*name || !frame.module) {
                add_text(adding, *name ? name : COUNTS_NO_NAME);
                return;
        }
        text_printf(&adding->key, *object == '[' ? "%s" : "[%s]", object);
        text_append(&adding->key, "", 1);
}

static void function_key(Adding *adding, FrameWord word) {
        WindowFrame frame = window_expand_frame(adding->window, word);

        begin_key(adding);
        add_function(adding, word);
        add_text(adding, object_name(adding, &frame));
}

static int find_function(Adding *adding, FrameWord word, uint32_t *functionp) {
        Tally *tally = &adding->counts->tables[COUNTS_FUNCTIONS];
        void *known = hashmap_get(&adding->functions, word);
        int r;

        if (known) {
                *functionp = (uint32_t)((uintptr_t)known - 1);
                return 0;
        }
        function_key(adding, word);
        r = add_row(adding, COUNTS_FUNCTIONS, 0, 0);
        if (r)
                return r;
        if (intern_find(&tally->keys, adding->key.data, adding->key.size, functionp))
                *functionp = UINT32_MAX;        /* no room for it */
        if (*functionp == UINT32_MAX)
                return 0;
        return error_fold(
                hashmap_put(&adding->functions, word, (void *)(uintptr_t)(*functionp + UINT64_C(1))));
}

/* Whether the function is met for the first time in this stack. */
static int first_in_stack(Adding *adding, uint32_t function, uint32_t stack, bool *firstp) {
        int r = array_reserve_zero(&adding->seen, &adding->seen_room, (size_t)function + 1, 256);

        if (r)
                return r;
        *firstp = adding->seen[function] != stack;
        adding->seen[function] = stack;
        return 0;
}

/* ---- who calls whom ---- */

/*
 * A call is known by the row of its caller's call (NO_CALL: none calls it) and the row of its function. So
 * the key of a call comes behind that of its caller.
 */
enum { NO_CALL = UINT32_MAX };

typedef struct CallKey {
        uint32_t caller, function;
} CallKey;

/* From the outermost function on. What the cap of rows leaves out counts in its callers' totals alone. */
static int add_calls(Adding *adding, uint32_t stack, const FrameWord *words, size_t n) {
        Tally *tree = &adding->counts->tables[COUNTS_TREE];
        CallKey key = { .caller = NO_CALL };
        uint64_t value = adding->stacks[stack];

        while (n--) {
                int r = find_function(adding, words[n], &key.function);

                if (r)
                        return r;
                if (key.function == UINT32_MAX)
                        break;
                r = tally_add(tree, &key, sizeof(key), n ? 0 : value, value);
                if (r == INTERN_E_FULL)
                        break;
                if (r)
                        return error_fold(r);
                if (intern_find(&tree->keys, &key, sizeof(key), &key.caller))
                        break;
        }
        return 0;
}

static int add_stack(Adding *adding, uint32_t stack) {
        Tally *tally = &adding->counts->tables[COUNTS_FUNCTIONS];
        size_t n;
        const FrameWord *words = window_get_stack(adding->window, stack, &n);

        for (size_t i = 0; i < n; i++) {
                uint32_t function;
                bool first = false;
                int r = find_function(adding, words[i], &function);

                if (!r && function != UINT32_MAX)
                        r = first_in_stack(adding, function, stack, &first);
                if (r)
                        return r;
                if (function == UINT32_MAX)
                        continue;
                tally->sums[function].self += i ? 0 : adding->stacks[stack];
                tally->sums[function].total += first ? adding->stacks[stack] : 0;
        }
        return add_calls(adding, stack, words, n);
}

/* Stack 0 is no stack at all. */
static int add_stacks(Adding *adding) {
        int r = 0;

        for (uint32_t i = 1; i < window_n_stacks(adding->window) && !r; i++)
                if (adding->stacks[i])
                        r = add_stack(adding, i);
        return r;
}

/* ---- what for ---- */

/* The innermost function of the program itself; of a stack that has none, the innermost one. */
static void add_waiting_function(Adding *adding, uint32_t stack) {
        const Window *window = adding->window;
        size_t n, at = 0;
        const FrameWord *words = window_get_stack(window, stack, &n);
        WindowFrame frame;

        for (; at < n; at++) {
                frame = window_expand_frame(window, words[at]);
                if (!glossary_is_system_library(
                            window_get_string(window, window_get_module(window, frame.module)->path, NULL)))
                        break;
        }
        if (n)
                add_function(adding, words[at < n ? at : 0]);
        else
                add_text(adding, "");
}

/* `thread 812`, or `process`, `kernel`, `interrupt`: who is no target is known by its kind. */
static void add_ender(Adding *adding, const uint32_t *set, size_t n) {
        char number[24], id[24], text[48];
        const char *kind = find_attribute(adding, set, n, "wait.waker.kind", number),
                   *thread = find_attribute(adding, set, n, "wait.waker.thread.id", id);

        snprintf(text, sizeof(text), "%s%s%s", kind, *thread ? " " : "", thread);
        add_text(adding, text);
}

/* `read pipe`, or `futex monitor shop.Cart of thread 4712`: reason, kind of file, lock and who has it. */
static void add_wait_reason(Adding *adding, const uint32_t *set, size_t n) {
        static const struct {
                const char *key, *before;
        } parts[] = { { "wait.reason", "" },
                      { "wait.file.kind", " " },
                      { "wait.lock.kind", " " },
                      { "wait.lock.class", " " },
                      { "wait.lock.owner.thread.id", " of thread " } };
        char number[24], text[256] = "";

        for (size_t i = 0; i < ARRAY_SIZE(parts); i++) {
                const char *part = find_attribute(adding, set, n, parts[i].key, number);
                size_t size = strlen(text);

                if (*part)
                        snprintf(text + size, sizeof(text) - size, "%s%s", parts[i].before, part);
        }
        add_text(adding, text);
}

static int add_wait(Adding *adding, const WindowProfile *profile, const WindowSample *sample) {
        uint64_t value = sample->value > 0 ? (uint64_t)sample->value : 0;
        char name[24], state[24], process[24];
        size_t n;
        const uint32_t *set = window_get_attribute_set(adding->window, sample->attributes, &n);

        begin_key(adding);
        add_text(adding, find_attribute(adding, set, n, "thread.name", name));
        add_text(adding, find_attribute(adding, set, n, "wait.state", state));
        add_wait_reason(adding, set, n);
        add_waiting_function(adding, sample->stack);
        add_ender(adding, set, n);
        add_text(adding, process_name(adding, profile->resource, process));
        adding->counts->wait_ns += value;
        return add_row(adding, COUNTS_WAITS, value, value);
}

static int add_waits(Adding *adding, uint32_t index) {
        const WindowProfile *profile = window_get_profile(adding->window, index);
        int r = 0;

        for (uint32_t i = 0; i < profile->n_samples && !r; i++) {
                WindowSample sample;

                window_get_sample(adding->window, index, i, &sample);
                r = add_wait(adding, profile, &sample);
        }
        return r;
}

/* ---- all of a window ---- */

static int add_sample(Adding *adding, const WindowProfile *profile, const WindowSample *sample) {
        uint64_t value = sample->value > 0 ? (uint64_t)sample->value : 0;
        size_t n;
        const uint32_t *set = window_get_attribute_set(adding->window, sample->attributes, &n);
        const char *reason;
        char number[24];
        int r;

        adding->stacks[sample->stack] += value;
        r = add_thread(adding, profile, set, n, value);
        if (!r)
                r = add_coroutine(adding, profile, set, n, value);
        if (!r && sample->link)
                r = add_span(adding, profile, sample, set, n);
        if (!r)
                r = add_operation(adding, profile, sample);
        reason = find_attribute(adding, set, n, "profile.stack.truncated", number);
        return !r && *reason ? add_reason(adding, reason, value) : r;
}

static int add_profile(Adding *adding, uint32_t index) {
        const WindowProfile *profile = window_get_profile(adding->window, index);
        int r = 0;

        if (profile->type == PROFILE_OFF_CPU)
                return add_waits(adding, index);
        if (!profile_is_cpu(profile->type))
                return 0;
        adding->counts->n_events += profile->n_events;
        adding->counts->cpu_ns += (double)profile->n_events * (double)profile->period;
        r = add_process(adding, profile);
        for (uint32_t i = 0; i < profile->n_samples && !r; i++) {
                WindowSample sample;

                window_get_sample(adding->window, index, i, &sample);
                r = add_sample(adding, profile, &sample);
        }
        return r;
}

int counts_add(Counts *counts, const Window *window) {
        Adding adding = { .counts = counts,
                          .window = window,
                          .stacks = calloc(window_n_stacks(window) + 1u, sizeof(uint64_t)) };
        int r = adding.stacks ? 0 : error_origin(-ENOMEM);

        for (uint32_t i = 0; i < window_n_profiles(window) && !r; i++)
                r = add_profile(&adding, i);
        if (!r)
                r = add_stacks(&adding);
        free(adding.stacks);
        free(adding.seen);
        hashmap_deinit(&adding.functions);
        text_deinit(&adding.key);
        return r;
}

/* ---- rows in order ---- */

static int compare_texts(const CountsRow *a, const CountsRow *b) {
        int order = 0;

        for (size_t i = 0; i < COUNTS_MAX_TEXTS && !order; i++)
                order = strcmp(a->texts[i], b->texts[i]);
        return order;
}

static int compare_numbers(uint64_t a, uint64_t b) {
        return a < b ? 1 : a > b ? -1 : 0;
}

static int by_self(const void *left, const void *right) {
        const CountsRow *a = left, *b = right;
        int order = compare_numbers(a->self, b->self);

        if (!order)
                order = compare_numbers(a->total, b->total);
        return order ? order : compare_texts(a, b);
}

static int by_total(const void *left, const void *right) {
        const CountsRow *a = left, *b = right;
        int order = compare_numbers(a->total, b->total);

        return order ? order : by_self(left, right);
}

static int by_name(const void *left, const void *right) {
        return compare_texts(left, right);
}

static CountsRow row_of(const Tally *tally, uint32_t index) {
        const InternItem *item = intern_get(&tally->keys, index);
        const char *text = item->data, *end = text + item->size;
        CountsRow row = { .self = tally->sums[index].self, .total = tally->sums[index].total };

        for (size_t i = 0; i < COUNTS_MAX_TEXTS; i++) {
                row.texts[i] = text < end ? text : "";
                text += text < end ? strlen(text) + 1 : 0;
        }
        return row;
}

int counts_rows(const Counts *counts, CountsTable table, CountsOrder order, CountsRow **rowsp, size_t *np) {
        static int (*const compare[])(const void *, const void *) = {
                [COUNTS_BY_SELF] = by_self, [COUNTS_BY_TOTAL] = by_total, [COUNTS_BY_NAME] = by_name,
        };
        const Tally *tally = &counts->tables[table];
        CountsRow *rows = calloc(tally->keys.n_items + 1u, sizeof(*rows));

        if (!rows)
                return error_origin(-ENOMEM);
        for (uint32_t i = 0; i < tally->keys.n_items; i++)
                rows[i] = row_of(tally, i);
        qsort(rows, tally->keys.n_items, sizeof(*rows), compare[order]);
        *rowsp = rows;
        *np = tally->keys.n_items;
        return 0;
}

/* ---- the tree in order ---- */

typedef struct Call {
        uint32_t index, caller, function;
        uint64_t self, total;
        uint32_t first, next;           /* callee, and the next one of its caller; NO_CALL = none */
} Call;

/* The smallest first, since each is put before those that its caller has so far. */
static int by_size(const void *left, const void *right) {
        const Call *a = left, *b = right;

        if (a->total != b->total)
                return a->total < b->total ? -1 : 1;
        return a->index < b->index ? 1 : a->index > b->index ? -1 : 0;
}

static uint32_t take_calls(const Tally *tree, uint64_t least, Call *calls) {
        uint32_t n = 0;

        for (uint32_t i = 0; i < tree->keys.n_items; i++) {
                const CallKey *key = intern_get(&tree->keys, i)->data;

                if (tree->sums[i].total >= least && tree->sums[i].total)
                        calls[n++] = (Call){ i, key->caller, key->function, tree->sums[i].self,
                                             tree->sums[i].total, NO_CALL, NO_CALL };
        }
        qsort(calls, n, sizeof(*calls), by_size);
        return n;
}

/* @places: by index, the place in @calls. A caller has what its callees have, so it is there, too. */
static uint32_t link_calls(Call *calls, uint32_t n, uint32_t *places) {
        uint32_t first = NO_CALL;

        for (uint32_t i = 0; i < n; i++)
                places[calls[i].index] = i;
        for (uint32_t i = 0; i < n; i++) {
                uint32_t *list = calls[i].caller == NO_CALL ? &first : &calls[places[calls[i].caller]].first;

                calls[i].next = *list;
                *list = i;
        }
        return first;
}

static CountsRow row_of_call(const Counts *counts, const Call *call, uint32_t depth) {
        CountsRow row = row_of(&counts->tables[COUNTS_FUNCTIONS], call->function);

        row.self = call->self;
        row.total = call->total;
        row.depth = depth;
        return row;
}

/* @path: the calls that lead to the next one, room for all. */
static void walk_calls(const Counts *counts, const Call *calls, uint32_t first, uint32_t *path,
                       CountsRow *rows) {
        uint32_t depth = 0, at = first;
        size_t n = 0;

        while (at != NO_CALL) {
                rows[n++] = row_of_call(counts, &calls[at], depth);
                path[depth++] = at;
                at = calls[at].first;
                while (at == NO_CALL && depth)
                        at = calls[path[--depth]].next;
        }
}

int counts_tree(const Counts *counts, uint64_t least, CountsRow **rowsp, size_t *np) {
        const Tally *tree = &counts->tables[COUNTS_TREE];
        size_t room = tree->keys.n_items + 1u;
        _cleanup_(freep) Call *calls = calloc(room, sizeof(*calls));
        _cleanup_(freep) uint32_t *places = calloc(room, sizeof(*places));
        _cleanup_(freep) uint32_t *path = calloc(room, sizeof(*path));
        _cleanup_(freep) CountsRow *rows = calloc(room, sizeof(*rows));

        if (!calls || !places || !path || !rows)
                return error_origin(-ENOMEM);
        *np = take_calls(tree, least, calls);
        walk_calls(counts, calls, link_calls(calls, (uint32_t)*np, places), path, rows);
        *rowsp = take(rows);
        return 0;
}

size_t counts_n_rows(const Counts *counts) {
        size_t n = 0;

        for (size_t i = 0; i < COUNTS_N_TABLES; i++)
                n += counts->tables[i].keys.n_items;
        return n;
}

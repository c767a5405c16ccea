/* SPDX-License-Identifier: Apache-2.0 */

/*
 * speedscope's JSON: a table of frames, and for each type of profile its stacks, the outermost frame first,
 * with a weight each. Samples of the CPU weigh their time: a viewer shows the unit. Behind it, a profile for
 * each thread has its samples in the order of their times; a viewer draws them from left to right.
 *
 *     {"shared": {"frames": [{"name": "main", "file": "main.c", "line": 12}, …]},
 *      "profiles": [{"type": "sampled", "name": "samples", "unit": "nanoseconds", "samples": [[0, 1], …],
 *                    "weights": [20000000, …], …}, {"name": "samples, thread io (815)", …}]}
 */
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/data/hashmap.h"
#include "core/base/data/intern.h"
#include "core/base/data/json-writer.h"
#include "core/base/util/array.h"
#include "core/base/util/error.h"
#include "desk/convert/format.h"

#define SCHEMA "https://www.speedscope.app/file-format-schema.json"

enum {
        MAX_EVENTS = 1 << 20,           /* samples in the order of time; of more, there are sums alone */
        MAX_THREADS = 1000,
};

typedef struct Thread {
        uint32_t resource, name;        /* name: a string; 0 = none */
        int64_t id;                     /* -1 = none */
} Thread;

/* A sample at its time. */
typedef struct Event {
        uint64_t time_ns, value;
        uint32_t thread, stack;
} Event;

typedef struct Speedscope {
        const Window *window;
        JsonWriter *json;
        Hashmap words;                  /* frame word → number of its frame + 1, as a pointer */
        Intern frames;                  /* FrameKey */
        uint64_t *sums;                 /* by stack, of one kind, as the next */
        Intern threads;                 /* Thread */
        Event *events;
        size_t n_events, events_room;
        bool is_over;                   /* there are more events or threads than fit */
} Speedscope;

/*
 * Identity of a frame as viewers show it: they take each for a function, so addresses of one function are
 * one.
 */
typedef struct FrameKey {
        uint64_t address;               /* address of a frame without a name */
        uint32_t module, name, file;
        int32_t line;
} FrameKey;

static uint64_t add(uint64_t a, uint64_t b) {
        uint64_t sum;

        return __builtin_add_overflow(a, b, &sum) ? UINT64_MAX : sum;
}

static const char *text_of(const Window *window, uint32_t string) {
        return window_get_string(window, string, NULL);
}

static FrameKey key_of(const Window *window, FrameWord word) {
        WindowFrame frame = window_expand_frame(window, word);
        const WindowFunction *function = window_get_function(window, frame.function);
        FrameKey key = { .name = function->name,
                         .file = function->filename,
                         .line = (int32_t)MIN(frame.line, (int64_t)INT32_MAX) };

        if (!*text_of(window, key.name)) {
                key.module = frame.module;
                key.address = frame.address;
        }
        return key;
}

static void put_frame(Speedscope *scope, const FrameKey *key) {
        const char *name = text_of(scope->window, key->name), *file = text_of(scope->window, key->file),
                   *path = text_of(scope->window, window_get_module(scope->window, key->module)->path);
        char address[96];

        snprintf(address, sizeof(address), key->address ? "%.64s%s0x%" PRIx64 : "[unknown]",
                 strrchr(path, '/') ? strrchr(path, '/') + 1 : path, *path ? "+" : "", key->address);
        json_open(scope->json, NULL, '{');
        json_text(scope->json, "name", *name ? name : address);
        if (*file)
                json_text(scope->json, "file", file);
        if (key->line)
                json_number(scope->json, "line", (uint64_t)key->line);
        json_close(scope->json, '}');
}

static int find_frame(Speedscope *scope, FrameWord word) {
        FrameKey key = key_of(scope->window, word);
        uint32_t frame;
        int r = intern_add(&scope->frames, &key, sizeof(key), &frame);

        if (r < 0)
                return r;
        if (r == 0)
                put_frame(scope, &key);
        return hashmap_put(&scope->words, word, (void *)(uintptr_t)(frame + 1));
}

static int put_frames(Speedscope *scope) {
        int r = 0;

        for (uint32_t i = 0; i < window_n_stacks(scope->window) && !r; i++) {
                size_t n;
                const FrameWord *words = window_get_stack(scope->window, i, &n);

                for (size_t j = 0; j < n && !r; j++)
                        if (!hashmap_get(&scope->words, words[j]))
                                r = find_frame(scope, words[j]);
        }
        return r;
}

static bool is_same_kind(const WindowProfile *a, const WindowProfile *b) {
        return a->names.type == b->names.type && a->names.unit == b->names.unit;
}

/* Nanoseconds that a sample stands for; 0 = values have a unit of their own. */
static uint64_t weight_of(const Window *window, const WindowProfile *profile) {
        if (strcmp(text_of(window, profile->names.unit), "count") ||
            strcmp(text_of(window, profile->names.period_unit), "nanoseconds"))
                return 0;
        return (uint64_t)MAX(profile->period, INT64_C(0));
}

static uint64_t sum_kind(Speedscope *scope, const WindowProfile *kind) {
        uint64_t all = 0, common = weight_of(scope->window, kind);

        memset(scope->sums, 0, window_n_stacks(scope->window) * sizeof(*scope->sums));
        for (uint32_t i = 0; i < window_n_profiles(scope->window); i++) {
                const WindowProfile *profile = window_get_profile(scope->window, i);
                /* a kind is told in one unit, so who says no period has that of the kind */
                uint64_t own = weight_of(scope->window, profile), weight = MAX(own ? own : common, 1u);

                for (uint32_t j = 0; is_same_kind(profile, kind) && j < profile->n_samples; j++) {
                        WindowSample sample;
                        uint64_t value;

                        window_get_sample(scope->window, i, j, &sample);
                        if (sample.value <= 0)
                                continue;
                        if (__builtin_mul_overflow((uint64_t)sample.value, weight, &value))
                                value = UINT64_MAX;
                        scope->sums[sample.stack] = add(scope->sums[sample.stack], value);
                        all = add(all, value);
                }
        }
        return all;
}

static const char *unit_of(const Window *window, const WindowProfile *kind) {
        const char *unit = text_of(window, kind->names.unit);

        if (weight_of(window, kind) || !strcmp(unit, "nanoseconds"))
                return "nanoseconds";
        return !strcmp(unit, "bytes") ? "bytes" : "none";
}

static void put_stack(Speedscope *scope, uint32_t stack) {
        size_t n;
        const FrameWord *words = window_get_stack(scope->window, stack, &n);

        json_open(scope->json, NULL, '[');
        for (size_t i = n; i-- > 0;)
                json_number(scope->json, NULL, (uintptr_t)hashmap_get(&scope->words, words[i]) - 1);
        json_close(scope->json, ']');
}

/* A profile up to its samples. @all: the sum of their weights. */
static void open_profile(Speedscope *scope, const WindowProfile *kind, const char *name, uint64_t all) {
        json_open(scope->json, NULL, '{');
        json_text(scope->json, "type", "sampled");
        json_text(scope->json, "name", name);
        json_text(scope->json, "unit", unit_of(scope->window, kind));
        json_number(scope->json, "startValue", 0);
        json_number(scope->json, "endValue", all);
        json_open(scope->json, "samples", '[');
}

static void put_kind(Speedscope *scope, const WindowProfile *kind) {
        uint64_t all = sum_kind(scope, kind);

        open_profile(scope, kind, text_of(scope->window, kind->names.type), all);
        for (uint32_t i = 0; i < window_n_stacks(scope->window); i++)
                if (scope->sums[i])
                        put_stack(scope, i);
        json_close(scope->json, ']');
        json_open(scope->json, "weights", '[');
        for (uint32_t i = 0; i < window_n_stacks(scope->window); i++)
                if (scope->sums[i])
                        json_number(scope->json, NULL, scope->sums[i]);
        json_close(scope->json, ']');
        json_close(scope->json, '}');
}

/* ---- threads ---- */

static Thread thread_of(const Speedscope *scope, uint32_t resource, uint32_t set) {
        Thread thread = { .resource = resource, .id = -1 };
        size_t n;
        const uint32_t *attributes = window_get_attribute_set(scope->window, set, &n);

        for (size_t i = 0; i < n; i++) {
                const WindowAttribute *attribute = window_get_attribute(scope->window, attributes[i]);
                const char *key = text_of(scope->window, attribute->key);

                if (!strcmp(key, "thread.id") && attribute->kind == ATTRIBUTE_INT)
                        thread.id = attribute->integer;
                else if (!strcmp(key, "thread.name") && attribute->kind == ATTRIBUTE_STRING)
                        thread.name = attribute->string;
        }
        return thread;
}

static int add_events(Speedscope *scope, const WindowProfile *profile, const WindowSample *sample,
                      uint64_t weight) {
        Thread thread = thread_of(scope, profile->resource, sample->attributes);
        uint32_t number;
        int r;

        if (!sample->n_times || (thread.id < 0 && !thread.name))
                return 0;
        r = intern_add(&scope->threads, &thread, sizeof(thread), &number);
        if (r < 0)
                return r;
        scope->is_over |= number >= MAX_THREADS || scope->n_events + sample->n_times > MAX_EVENTS;
        if (scope->is_over)
                return 0;
        r = array_reserve(&scope->events, &scope->events_room, scope->n_events + sample->n_times, 1024);
        for (uint32_t i = 0; i < sample->n_times && !r; i++) {
                int64_t value = sample->values ? sample->values[i] : 1;
                Event event = { .time_ns = sample->times_ns[i], .thread = number, .stack = sample->stack };

                if (value > 0 && !__builtin_mul_overflow((uint64_t)value, weight, &event.value))
                        scope->events[scope->n_events++] = event;
        }
        return r;
}

static int collect_kind(Speedscope *scope, const WindowProfile *kind) {
        uint64_t common = weight_of(scope->window, kind);
        int r = 0;

        for (uint32_t i = 0; i < window_n_profiles(scope->window) && !r; i++) {
                const WindowProfile *profile = window_get_profile(scope->window, i);
                uint64_t own = weight_of(scope->window, profile), weight = MAX(own ? own : common, 1u);

                for (uint32_t j = 0; is_same_kind(profile, kind) && j < profile->n_samples && !r; j++) {
                        WindowSample sample;

                        window_get_sample(scope->window, i, j, &sample);
                        r = add_events(scope, profile, &sample, weight);
                }
        }
        return r;
}

static int compare_events(const void *left, const void *right) {
        const Event *a = left, *b = right;

        if (a->thread != b->thread)
                return a->thread < b->thread ? -1 : 1;
        return a->time_ns < b->time_ns ? -1 : a->time_ns > b->time_ns;
}

/* `samples, thread shop io (815)`. */
static int name_thread(const Speedscope *scope, const WindowProfile *kind, const Thread *thread,
                       Text *name) {
        const Window *window = scope->window;
        const char *program = window_get_resource_text(window, thread->resource, "process.executable.name"),
                   *own = text_of(window, thread->name);

        text_printf(name, "%s, thread", text_of(scope->window, kind->names.type));
        if (*program && strcmp(program, own))
                text_printf(name, " %s", program);
        if (*own)
                text_printf(name, " %s", own);
        if (thread->id >= 0)
                text_printf(name, " (%" PRId64 ")", thread->id);
        return name->failed ? error_origin(-ENOMEM) : 0;
}

/* @events: of one thread. */
static int put_thread(Speedscope *scope, const WindowProfile *kind, const Event *events, size_t n) {
        const Thread *thread = intern_get(&scope->threads, events->thread)->data;
        _cleanup_(text_deinit) Text name = { 0 };
        uint64_t all = 0;
        int r = name_thread(scope, kind, thread, &name);

        if (r)
                return r;
        for (size_t i = 0; i < n; i++)
                all = add(all, events[i].value);
        open_profile(scope, kind, name.data, all);
        for (size_t i = 0; i < n; i++)
                put_stack(scope, events[i].stack);
        json_close(scope->json, ']');
        json_open(scope->json, "weights", '[');
        for (size_t i = 0; i < n; i++)
                json_number(scope->json, NULL, events[i].value);
        json_close(scope->json, ']');
        json_close(scope->json, '}');
        return 0;
}

static int put_threads(Speedscope *scope, const WindowProfile *kind) {
        size_t n;
        int r;

        scope->n_events = 0;
        r = collect_kind(scope, kind);
        if (r || scope->is_over || !scope->n_events)
                return r;
        qsort(scope->events, scope->n_events, sizeof(*scope->events), compare_events);
        for (size_t i = 0; i < scope->n_events && !r; i += n) {
                const Event *event = scope->events + i;

                for (n = 1; i + n < scope->n_events && event[n].thread == event->thread;)
                        n++;
                r = put_thread(scope, kind, event, n);
        }
        return r;
}

static bool is_first_of_kind(const Window *window, uint32_t profile) {
        for (uint32_t i = 0; i < profile; i++)
                if (is_same_kind(window_get_profile(window, i), window_get_profile(window, profile)))
                        return false;
        return true;
}

static int put_all(Speedscope *scope) {
        JsonWriter *json = scope->json;
        int r;

        json_open(json, NULL, '{');
        json_text(json, "$schema", SCHEMA);
        json_text(json, "exporter", "spanprof " SPANPROF_VERSION);
        json_open(json, "shared", '{');
        json_open(json, "frames", '[');
        r = put_frames(scope);
        json_close(json, ']');
        json_close(json, '}');
        json_open(json, "profiles", '[');
        for (uint32_t i = 0; i < window_n_profiles(scope->window) && !r; i++)
                if (is_first_of_kind(scope->window, i)) {
                        put_kind(scope, window_get_profile(scope->window, i));
                        r = put_threads(scope, window_get_profile(scope->window, i));
                }
        json_close(json, ']');
        json_close(json, '}');
        json_end(json);
        return r;
}

static int write_speedscope(const Convert *convert, ConvertSink sink, void *userdata, Text *problem) {
        _cleanup_(text_deinit) Text text = { 0 };
        JsonWriter json = { .text = &text };
        Speedscope scope = { .window = convert->window, .json = &json };
        int r;

        intern_init(&scope.frames, UINT32_MAX - 1);
        intern_init(&scope.threads, UINT32_MAX - 1);
        scope.sums = calloc(window_n_stacks(convert->window), sizeof(*scope.sums));
        r = scope.sums ? put_all(&scope) : error_origin(-ENOMEM);
        if (!r && text.failed)
                r = error_origin(-ENOMEM);
        if (!r)
                r = sink((const uint8_t *)text.data, text.size, window_n_events(convert->window), userdata);
        if (scope.is_over)
                convert_notice(convert,
                               "there are more than %d samples or %d threads: speedscope's file has sums, and "
                               "not all threads in the order of time",
                               MAX_EVENTS, MAX_THREADS);
        hashmap_deinit(&scope.words);
        intern_deinit(&scope.frames);
        intern_deinit(&scope.threads);
        free(scope.events);
        free(scope.sums);
        return r;
}

const ConvertWriter convert_write_speedscope = {
        .name = "speedscope",
        .suffixes = ".speedscope.json .speedscope",
        .names = true,
        .times = true,
        .write = write_speedscope,
        .losses = convert_stack_losses,
};

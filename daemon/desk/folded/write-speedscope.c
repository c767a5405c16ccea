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
#include "core/base/util/error.h"
#include "desk/convert/format.h"
#include "desk/folded/timeline.h"

#define SCHEMA "https://www.speedscope.app/file-format-schema.json"

typedef struct Speedscope {
        const Window *window;
        JsonWriter *json;
        Hashmap words;                  /* frame word → number of its frame + 1, as a pointer */
        Intern frames;                  /* TimelineFrame */
        uint64_t *sums;                 /* by stack, of one kind, as the next */
        Timeline timeline;
} Speedscope;

static uint64_t add(uint64_t a, uint64_t b) {
        uint64_t sum;

        return __builtin_add_overflow(a, b, &sum) ? UINT64_MAX : sum;
}

static const char *text_of(const Window *window, uint32_t string) {
        return window_get_string(window, string, NULL);
}

static void put_frame(Speedscope *scope, const TimelineFrame *key) {
        const char *file = text_of(scope->window, key->file);
        char address[TIMELINE_ADDRESS_SIZE];

        json_open(scope->json, NULL, '{');
        json_text(scope->json, "name", timeline_frame_name(scope->window, key, address));
        if (*file)
                json_text(scope->json, "file", file);
        if (key->line)
                json_number(scope->json, "line", (uint64_t)key->line);
        json_close(scope->json, '}');
}

static int find_frame(Speedscope *scope, FrameWord word) {
        TimelineFrame key = timeline_frame(scope->window, word);
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

static uint64_t sum_kind(Speedscope *scope, const WindowProfile *kind) {
        uint64_t all = 0, common = timeline_weight(scope->window, kind);

        memset(scope->sums, 0, window_n_stacks(scope->window) * sizeof(*scope->sums));
        for (uint32_t i = 0; i < window_n_profiles(scope->window); i++) {
                const WindowProfile *profile = window_get_profile(scope->window, i);
                /* a kind is told in one unit, so who says no period has that of the kind */
                uint64_t own = timeline_weight(scope->window, profile), weight = MAX(own ? own : common, 1u);

                for (uint32_t j = 0; timeline_is_same_kind(profile, kind) && j < profile->n_samples; j++) {
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

        if (timeline_weight(window, kind) || !strcmp(unit, "nanoseconds"))
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

/* `samples, thread shop io (815)`. */
static int name_thread(const Speedscope *scope, const WindowProfile *kind, const TimelineThread *thread,
                       Text *name) {
        text_printf(name, "%s, thread ", text_of(scope->window, kind->names.type));
        if (timeline_append_name(scope->window, thread, name) && thread->id >= 0)
                text_printf(name, " ");
        if (thread->id >= 0)
                text_printf(name, "(%" PRId64 ")", thread->id);
        return name->failed ? error_origin(-ENOMEM) : 0;
}

/* @events: of one thread. */
static int put_thread(Speedscope *scope, const WindowProfile *kind, const TimelineEvent *events, size_t n) {
        const TimelineThread *thread = timeline_thread(&scope->timeline, events);
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
        Timeline *timeline = &scope->timeline;
        size_t n;
        int r = timeline_collect(timeline, kind);

        for (size_t i = 0; i < timeline->n_events && !r && !timeline->is_over; i += n) {
                n = timeline_run(timeline, i);
                r = put_thread(scope, kind, timeline->events + i, n);
        }
        return r;
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
                if (timeline_is_first_of_kind(scope->window, i)) {
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
        timeline_init(&scope.timeline, convert->window);
        scope.sums = calloc(window_n_stacks(convert->window), sizeof(*scope.sums));
        r = scope.sums ? put_all(&scope) : error_origin(-ENOMEM);
        if (!r && text.failed)
                r = error_origin(-ENOMEM);
        if (!r)
                r = sink((const uint8_t *)text.data, text.size, window_n_events(convert->window), userdata);
        if (scope.timeline.is_over)
                convert_notice(convert,
                               "there are more than %d samples or %d threads: speedscope's file has sums, and "
                               "not all threads in the order of time",
                               TIMELINE_MAX_EVENTS, TIMELINE_MAX_THREADS);
        hashmap_deinit(&scope.words);
        intern_deinit(&scope.frames);
        timeline_deinit(&scope.timeline);
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

/* SPDX-License-Identifier: Apache-2.0 */

/*
 * speedscope's JSON: a table of frames, and for each type of profile its stacks, the outermost frame first,
 * with a weight each. Samples of the CPU weigh their time: a viewer shows the unit.
 *
 *     {"shared": {"frames": [{"name": "main", "file": "main.c", "line": 12}, …]},
 *      "profiles": [{"type": "sampled", "name": "samples", "unit": "nanoseconds", "samples": [[0, 1], …],
 *                    "weights": [20000000, …], …}]}
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

#define SCHEMA "https://www.speedscope.app/file-format-schema.json"

typedef struct Speedscope {
        const Window *window;
        JsonWriter *json;
        Hashmap words;                  /* frame word → number of its frame + 1, as a pointer */
        Intern frames;                  /* FrameKey */
        uint64_t *sums;                 /* by stack, of one kind */
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

static void put_kind(Speedscope *scope, const WindowProfile *kind) {
        uint64_t all = sum_kind(scope, kind);

        json_open(scope->json, NULL, '{');
        json_text(scope->json, "type", "sampled");
        json_text(scope->json, "name", text_of(scope->window, kind->names.type));
        json_text(scope->json, "unit", unit_of(scope->window, kind));
        json_number(scope->json, "startValue", 0);
        json_number(scope->json, "endValue", all);
        json_open(scope->json, "samples", '[');
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
                if (is_first_of_kind(scope->window, i))
                        put_kind(scope, window_get_profile(scope->window, i));
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
        scope.sums = calloc(window_n_stacks(convert->window), sizeof(*scope.sums));
        r = scope.sums ? put_all(&scope) : error_origin(-ENOMEM);
        if (!r && text.failed)
                r = error_origin(-ENOMEM);
        if (!r)
                r = sink((const uint8_t *)text.data, text.size, window_n_events(convert->window), userdata);
        hashmap_deinit(&scope.words);
        intern_deinit(&scope.frames);
        free(scope.sums);
        return r;
}

const ConvertWriter convert_write_speedscope = {
        .name = "speedscope",
        .suffixes = ".speedscope.json .speedscope",
        .names = true,
        .write = write_speedscope,
        .losses = convert_stack_losses,
};

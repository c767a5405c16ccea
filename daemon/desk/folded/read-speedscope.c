/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Reads speedscope's JSON, of spanprof and of others. `sampled` profiles have a stack and a weight a sample;
 * `evented` ones say when each frame opens and closes, and the time between two events belongs to the stack
 * that is open. Of our own files the profiles of threads are left out: the one of all threads has their sums.
 */

#include <cjson/cJSON.h>
#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/util/error.h"
#include "desk/convert/format.h"

enum {
        MAX_BYTES = 64 << 20,           /* a tree in memory takes up to 30 times as much */
        MAX_FRAMES = 4096,              /* frames of a stack */
        MAX_WORDS = 1 << 22,            /* of the table of frames */
};

typedef struct Reading {
        Convert *convert;
        const cJSON *profile;
        FrameWord *words;               /* by frame of the file */
        uint32_t n_words;
        bool is_ours, has_many;         /* has_many: each profile is a thread's */
        uint32_t resource, row, attributes;     /* row: the profile in the window */
        double factor, carry;           /* of a weight to the unit of the row, and what is not whole yet */
        FrameWord stack[MAX_FRAMES];    /* the innermost last */
        uint32_t n_stack;
        uint64_t n_negative;            /* weights below zero, or none at all */
        Text *problem;
} Reading;

static const cJSON *item(const cJSON *json, const char *key) {
        return cJSON_GetObjectItemCaseSensitive(json, key);
}

static const char *text_in(const cJSON *json, const char *key) {
        const char *text = cJSON_GetStringValue(item(json, key));

        return text ? text : "";
}

static int malformed(Reading *reading, const char *what) {
        const char *name = text_in(reading->profile, "name");

        text_printf(reading->problem, "%s%s%s", what, *name ? " in the profile " : "", name);
        return CONVERT_E_INPUT;
}

static int full(Reading *reading, int r) {
        if (r == WINDOW_E_FULL) {
                text_printf(reading->problem, "more than a profile can hold: what came first is in it");
                return CONVERT_E_INPUT;
        }
        return r;
}

static int add_frame(Reading *reading, const cJSON *frame) {
        Window *window = reading->convert->window;
        const char *name = text_in(frame, "name"), *file = text_in(frame, "file");
        double line = cJSON_GetNumberValue(item(frame, "line"));
        WindowFunction function = { 0 };
        WindowFrame row = { .line = line >= 1 && line <= INT32_MAX ? (int64_t)line : 0 };
        int r = window_string(window, name, strlen(name), &function.name);

        r = r ? r : window_string(window, file, strlen(file), &function.filename);
        r = r ? r : window_function(window, &function, &row.function);
        return r ? r : window_frame(window, &row, &reading->words[reading->n_words++]);
}

static int add_frames(Reading *reading, const cJSON *frames) {
        const cJSON *frame;
        int r = 0;

        if (!cJSON_IsArray(frames) || cJSON_GetArraySize(frames) > MAX_WORDS)
                return malformed(reading, "there is no list of frames, or it is too long");
        reading->words = calloc((size_t)cJSON_GetArraySize(frames) + 1, sizeof(*reading->words));
        if (!reading->words)
                return error_origin(-ENOMEM);
        cJSON_ArrayForEach(frame, frames) {
                r = add_frame(reading, frame);
                if (r)
                        return full(reading, r);
        }
        return 0;
}

/* The window's unit of a profile; weights are times `factor` in it. */
static const char *find_unit(Reading *reading) {
        static const struct {
                const char *name, *unit;
                double factor;
        } units[] = {
                { "nanoseconds", "nanoseconds", 1 }, { "microseconds", "nanoseconds", 1e3 },
                { "milliseconds", "nanoseconds", 1e6 }, { "seconds", "nanoseconds", 1e9 },
                { "bytes", "bytes", 1 },
        };
        const char *name = text_in(reading->profile, "unit");

        reading->factor = 1;
        for (size_t i = 0; i < ARRAY_SIZE(units); i++)
                if (!strcmp(name, units[i].name)) {
                        reading->factor = units[i].factor;
                        return units[i].unit;
                }
        return "count";
}

/* Others name a profile after a thread; only ours after what it counts. */
static int begin_profile(Reading *reading) {
        Window *window = reading->convert->window;
        const char *unit = find_unit(reading), *name = text_in(reading->profile, "name"), *type = "time";
        WindowProfileNames names = { 0 };
        uint32_t attribute;
        int r;

        if (reading->is_ours && *name)
                type = name;
        else if (strcmp(unit, "nanoseconds"))
                type = !strcmp(unit, "bytes") ? "space" : "samples";
        reading->carry = 0;
        reading->attributes = 0;
        reading->n_stack = 0;
        r = window_string(window, type, strlen(type), &names.type);
        r = r ? r : window_string(window, unit, strlen(unit), &names.unit);
        names.period_type = names.type;
        names.period_unit = names.unit;
        r = r ? r : window_profile_named(window, reading->resource, &names, 0, &reading->row);
        if (r || reading->is_ours || !reading->has_many || !*name)
                return full(reading, r);
        r = window_attribute_string(window, "thread.name", name, strlen(name), &attribute);
        return full(reading, r ? r : window_attribute_set(window, &attribute, 1, &reading->attributes));
}

/* Adds the open stack. A whole number is counted; what is left of it is carried to the next. */
static int add_sample(Reading *reading, double weight) {
        Window *window = reading->convert->window;
        FrameWord frames[MAX_FRAMES];
        double value = weight * reading->factor + reading->carry;
        uint32_t stack;
        int64_t whole;
        int r;

        if (!(weight >= 0) || !(value < 0x1p63)) {
                reading->n_negative++;
                return 0;
        }
        whole = (int64_t)floor(value + 1e-6);
        reading->carry = value - (double)whole;
        if (!whole || !reading->n_stack)
                return 0;
        for (uint32_t i = 0; i < reading->n_stack; i++)
                frames[i] = reading->stack[reading->n_stack - 1 - i];
        r = window_stack(window, frames, reading->n_stack, &stack);
        r = r ? r : window_sample_untimed(window, reading->row, stack, reading->attributes, 0, whole);
        return full(reading, r);
}

/* Return: the frame's number, or UINT32_MAX = it is none of the table. */
static uint32_t frame_number(const Reading *reading, const cJSON *json) {
        double number = cJSON_IsNumber(json) ? cJSON_GetNumberValue(json) : -1;

        if (!(number >= 0 && number < reading->n_words) || number != floor(number))
                return UINT32_MAX;
        return (uint32_t)number;
}

static int read_sampled(Reading *reading) {
        const cJSON *samples = item(reading->profile, "samples"), *weights = item(reading->profile, "weights");
        const cJSON *sample, *weight = cJSON_IsArray(weights) ? weights->child : NULL, *frame;
        int r = 0;

        if (!cJSON_IsArray(samples) ||
            (weights && cJSON_GetArraySize(weights) != cJSON_GetArraySize(samples)))
                return malformed(reading, "samples and weights do not agree");
        cJSON_ArrayForEach(sample, samples) {
                reading->n_stack = 0;
                cJSON_ArrayForEach(frame, sample) {
                        uint32_t number = frame_number(reading, frame);

                        if (number == UINT32_MAX || reading->n_stack == MAX_FRAMES)
                                return malformed(reading, "a sample has a frame that is none, or over 4,096");
                        reading->stack[reading->n_stack++] = reading->words[number];
                }
                r = add_sample(reading, weights ? cJSON_GetNumberValue(weight) : 1);
                if (r)
                        return r;
                weight = weight ? weight->next : NULL;
        }
        return 0;
}

/* {"type": "O" or "C", "frame": 3, "at": 12}: the frame opens, or it is the innermost one, and closes. */
static int take_event(Reading *reading, const cJSON *event) {
        uint32_t number = frame_number(reading, item(event, "frame"));
        const char *type = text_in(event, "type");

        if (number == UINT32_MAX)
                return malformed(reading, "an event has a frame that is none");
        if (!strcmp(type, "O") && reading->n_stack < MAX_FRAMES) {
                reading->stack[reading->n_stack++] = reading->words[number];
                return 0;
        }
        if (!strcmp(type, "C") && reading->n_stack &&
            reading->stack[reading->n_stack - 1] == reading->words[number]) {
                reading->n_stack--;
                return 0;
        }
        return malformed(reading, "an event closes another frame than the one that is open");
}

static int read_evented(Reading *reading) {
        const cJSON *events = item(reading->profile, "events"), *event;
        double at = cJSON_GetNumberValue(item(reading->profile, "startValue"));

        if (!cJSON_IsArray(events))
                return malformed(reading, "there are no events");
        cJSON_ArrayForEach(event, events) {
                double next = cJSON_GetNumberValue(item(event, "at"));
                int r = isnan(at) ? 0 : add_sample(reading, next - at);

                r = r ? r : take_event(reading, event);
                if (r)
                        return r;
                at = next;
        }
        return 0;
}

/* The profiles of threads in our own files; write-speedscope.c names them so. */
static bool is_part(const Reading *reading) {
        return reading->is_ours && strstr(text_in(reading->profile, "name"), ", thread ");
}

static int read_profile(Reading *reading) {
        const char *type = text_in(reading->profile, "type");
        bool is_sampled = !strcmp(type, "sampled");
        int r;

        if (is_part(reading))
                return 0;
        if (!is_sampled && strcmp(type, "evented"))
                return malformed(reading, "neither sampled nor evented: what is");
        r = begin_profile(reading);
        return r ? r : is_sampled ? read_sampled(reading) : read_evented(reading);
}

static int read_document(Reading *reading, const cJSON *json) {
        const cJSON *profiles = item(json, "profiles");
        int r = window_resource(reading->convert->window, UINT64_MAX - reading->convert->n_inputs,
                                &reading->resource);

        reading->is_ours = !strncmp(text_in(json, "exporter"), "spanprof ", strlen("spanprof "));
        reading->has_many = cJSON_GetArraySize(profiles) > 1;
        r = r ? full(reading, r) : add_frames(reading, item(item(json, "shared"), "frames"));
        if (r || !cJSON_IsArray(profiles))
                return r ? r : malformed(reading, "there is no list of profiles");
        cJSON_ArrayForEach(reading->profile, profiles) {
                r = read_profile(reading);
                if (r)
                        return r;
        }
        return 0;
}

static int read_speedscope(Convert *convert, const Source *source, Text *problem) {
        _cleanup_(freep) uint8_t *data = NULL;
        _cleanup_(freep) Reading *reading = calloc(1, sizeof(*reading));
        cJSON *json;
        size_t size;
        int r = reading ? convert_read_all(source, MAX_BYTES, &data, &size, problem) : error_origin(-ENOMEM);

        if (r)
                return r;
        convert->untimed_ns = MAX(convert->untimed_ns, source_time_ns(source));
        reading->convert = convert;
        reading->problem = problem;
        json = cJSON_ParseWithLength((const char *)data, size);
        if (!json)
                text_printf(problem, "is no whole JSON, or there is no memory for it");
        r = json ? read_document(reading, json) : CONVERT_E_INPUT;
        cJSON_Delete(json);
        free(reading->words);
        if (reading->n_negative)
                convert_notice(convert, "%s: %" PRIu64 " weights are below zero, or no numbers: they are left out",
                               source->name, reading->n_negative);
        return r;
}

static bool recognize(const uint8_t *data, size_t size) {
        static const char schema[] = "speedscope.app/file-format-schema.json";
        size_t at = 0;

        while (at < size && memchr(" \t\r\n", data[at], 4))
                at++;
        return at < size && data[at] == '{' && memmem(data, size, schema, sizeof(schema) - 1);
}

const ConvertReader convert_read_speedscope = {
        .name = "speedscope", .recognize = recognize, .read = read_speedscope
};

/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Goes over the profiles of one kind, gives each event its thread by `thread.id` and `thread.name`, and sorts
 * events by thread and time.
 */

#include "desk/folded/timeline.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/util/array.h"
#include "core/base/util/error.h"

void timeline_init(Timeline *timeline, const Window *window) {
        *timeline = (Timeline){ .window = window };
        intern_init(&timeline->threads, UINT32_MAX - 1);
}

void timeline_deinit(Timeline *timeline) {
        intern_deinit(&timeline->threads);
        free(timeline->events);
        *timeline = (Timeline){ 0 };
}

static const char *text_of(const Window *window, uint32_t string) {
        return window_get_string(window, string, NULL);
}

bool timeline_is_same_kind(const WindowProfile *a, const WindowProfile *b) {
        return a->names.type == b->names.type && a->names.unit == b->names.unit;
}

bool timeline_is_first_of_kind(const Window *window, uint32_t profile) {
        for (uint32_t i = 0; i < profile; i++)
                if (timeline_is_same_kind(window_get_profile(window, i), window_get_profile(window, profile)))
                        return false;
        return true;
}

uint64_t timeline_weight(const Window *window, const WindowProfile *profile) {
        if (strcmp(text_of(window, profile->names.unit), "count") ||
            strcmp(text_of(window, profile->names.period_unit), "nanoseconds"))
                return 0;
        return (uint64_t)MAX(profile->period, INT64_C(0));
}

/* ---- frames ---- */

TimelineFrame timeline_frame(const Window *window, FrameWord word) {
        WindowFrame frame = window_expand_frame(window, word);
        const WindowFunction *function = window_get_function(window, frame.function);
        TimelineFrame key = { .name = function->name,
                              .file = function->filename,
                              .line = (int32_t)MIN(frame.line, (int64_t)INT32_MAX) };

        if (!*text_of(window, key.name)) {
                key.module = frame.module;
                key.address = frame.address;
        }
        return key;
}

const char *timeline_frame_name(const Window *window, const TimelineFrame *frame,
                                char address[static TIMELINE_ADDRESS_SIZE]) {
        const char *name = text_of(window, frame->name),
                   *path = text_of(window, window_get_module(window, frame->module)->path);

        if (*name)
                return name;
        snprintf(address, TIMELINE_ADDRESS_SIZE, frame->address ? "%.64s%s0x%" PRIx64 : "[unknown]",
                 strrchr(path, '/') ? strrchr(path, '/') + 1 : path, *path ? "+" : "", frame->address);
        return address;
}

/* ---- events ---- */

static TimelineThread thread_of(const Window *window, uint32_t resource, uint32_t set) {
        TimelineThread thread = { .resource = resource, .id = -1 };
        size_t n;
        const uint32_t *attributes = window_get_attribute_set(window, set, &n);

        for (size_t i = 0; i < n; i++) {
                const WindowAttribute *attribute = window_get_attribute(window, attributes[i]);
                const char *key = text_of(window, attribute->key);

                if (!strcmp(key, "thread.id") && attribute->kind == ATTRIBUTE_INT)
                        thread.id = attribute->integer;
                else if (!strcmp(key, "thread.name") && attribute->kind == ATTRIBUTE_STRING)
                        thread.name = attribute->string;
        }
        return thread;
}

static uint64_t multiply(int64_t value, uint64_t weight) {
        uint64_t product;

        return __builtin_mul_overflow((uint64_t)value, weight, &product) ? UINT64_MAX : product;
}

/* A sample without times is one event. */
static int add_events(Timeline *timeline, const WindowProfile *profile, const WindowSample *sample,
                      uint64_t weight) {
        TimelineThread thread = thread_of(timeline->window, profile->resource, sample->attributes);
        uint32_t number, n = sample->n_times;
        int r;

        if (!timeline->has_untimed && (!n || (thread.id < 0 && !thread.name)))
                return 0;
        r = intern_add(&timeline->threads, &thread, sizeof(thread), &number);
        if (r < 0)
                return r;
        timeline->is_over |= number >= TIMELINE_MAX_THREADS ||
                timeline->n_events + MAX(n, 1U) > TIMELINE_MAX_EVENTS;
        if (timeline->is_over)
                return 0;
        r = array_reserve(&timeline->events, &timeline->events_room, timeline->n_events + MAX(n, 1U), 1024);
        for (uint32_t i = 0; i < MAX(n, 1U) && !r; i++) {
                int64_t value = !n ? sample->value : sample->values ? sample->values[i] : 1;

                if (value > 0)
                        timeline->events[timeline->n_events++] =
                                (TimelineEvent){ .time_ns = n ? sample->times_ns[i] : 0,
                                                 .value = multiply(value, weight),
                                                 .thread = number, .stack = sample->stack };
        }
        return r;
}

static int compare_events(const void *left, const void *right) {
        const TimelineEvent *a = left, *b = right;

        if (a->thread != b->thread)
                return a->thread < b->thread ? -1 : 1;
        return a->time_ns < b->time_ns ? -1 : a->time_ns > b->time_ns;
}

int timeline_collect(Timeline *timeline, const WindowProfile *kind) {
        const Window *window = timeline->window;
        uint64_t common = timeline_weight(window, kind);
        int r = 0;

        timeline->n_events = 0;
        for (uint32_t i = 0; i < window_n_profiles(window) && !r; i++) {
                const WindowProfile *profile = window_get_profile(window, i);
                /* a kind is told in one unit, so who says no period has that of the kind */
                uint64_t own = timeline_weight(window, profile), weight = MAX(own ? own : common, 1u);
                uint32_t n = timeline_is_same_kind(profile, kind) ? profile->n_samples : 0;

                for (uint32_t j = 0; j < n && !r; j++) {
                        WindowSample sample;

                        window_get_sample(window, i, j, &sample);
                        r = add_events(timeline, profile, &sample, weight);
                }
        }
        if (!r && timeline->n_events)
                qsort(timeline->events, timeline->n_events, sizeof(*timeline->events), compare_events);
        return r;
}

size_t timeline_run(const Timeline *timeline, size_t at) {
        size_t n = 1;

        while (at + n < timeline->n_events && timeline->events[at + n].thread == timeline->events[at].thread)
                n++;
        return n;
}

const TimelineThread *timeline_thread(const Timeline *timeline, const TimelineEvent *event) {
        return intern_get(&timeline->threads, event->thread)->data;
}

bool timeline_append_name(const Window *window, const TimelineThread *thread, Text *name) {
        const char *program = window_get_resource_text(window, thread->resource, "process.executable.name"),
                   *own = text_of(window, thread->name);
        bool has_program = *program && strcmp(program, own);

        text_printf(name, "%s%s%s", has_program ? program : "", has_program && *own ? " " : "", own);
        return has_program || *own;
}

/* SPDX-License-Identifier: Apache-2.0 */

/*
 * JSON of the Firefox Profiler (profiler.firefox.com), in its processed form: for each thread and kind of
 * profile tables by columns, which refer to each other by row.
 *
 *     samples     stack, time, weight ──▶ stackTable    frame, prefix (the caller's row) ──▶ frameTable ──▶
 *     funcTable   name, fileName ──▶ stringArray
 *
 * The tables of a thread are filled first, as its events are met, and printed then, column by column. Version
 * 48 of the form has all that is needed; newer viewers bring it up to date as they load it.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/data/hashmap.h"
#include "core/base/data/intern.h"
#include "core/base/data/json-writer.h"
#include "core/base/util/clock.h"
#include "core/base/util/error.h"
#include "desk/convert/format.h"
#include "desk/folded/timeline.h"

enum {
        FORM_VERSION = 48,
        GECKO_VERSION = 27,             /* of the browser's own form, which viewers look for, too */
        NONE = UINT32_MAX,
};

/* Rows of categories. */
enum { CATEGORY_OTHER, CATEGORY_USER, CATEGORY_KERNEL };

/* Rows are compared as bytes: no padding. */
typedef struct FuncRow {
        uint32_t name, file;            /* rows of strings; file: NONE = there is none */
} FuncRow;

typedef struct FrameRow {
        uint32_t func, category, line;  /* line: 0 = not known */
} FrameRow;

typedef struct StackRow {
        uint32_t frame, prefix;         /* prefix: NONE = it is the outermost */
} StackRow;

typedef struct Firefox {
        const Window *window;
        JsonWriter *json;
        Timeline timeline;
        uint64_t start_ns;              /* what times are relative to */
        Intern strings, funcs, frames, stacks;  /* tables of one thread; the next, too */
        Hashmap rows;                   /* stack of the window → its row of `stacks` + 1, as a pointer */
} Firefox;

static const char *text_of(const Firefox *firefox, uint32_t string) {
        return window_get_string(firefox->window, string, NULL);
}

/* ---- tables of a thread ---- */

static void clear_tables(Firefox *firefox) {
        intern_reset(&firefox->strings);
        intern_reset(&firefox->funcs);
        intern_reset(&firefox->frames);
        intern_reset(&firefox->stacks);
        hashmap_deinit(&firefox->rows);
}

/* Return: 0, -ENOMEM. */
static int add_row(Intern *table, const void *row, size_t size, uint32_t *numberp) {
        return MIN(intern_add(table, row, size, numberp), 0);
}

static int add_string(Firefox *firefox, const char *text, uint32_t *numberp) {
        return add_row(&firefox->strings, text, strlen(text) + 1, numberp);
}

static int add_frame(Firefox *firefox, FrameWord word, uint32_t *numberp) {
        TimelineFrame key = timeline_frame(firefox->window, word);
        const char *type = text_of(firefox, window_expand_frame(firefox->window, word).type),
                   *file = text_of(firefox, key.file);
        FrameRow frame = { .category = strcmp(type, "kernel") ? CATEGORY_USER : CATEGORY_KERNEL,
                           .line = (uint32_t)MAX(key.line, 0) };
        FuncRow func = { .file = NONE };
        char address[TIMELINE_ADDRESS_SIZE];
        int r = add_string(firefox, timeline_frame_name(firefox->window, &key, address), &func.name);

        if (!r && *file)
                r = add_string(firefox, file, &func.file);
        if (!r)
                r = add_row(&firefox->funcs, &func, sizeof(func), &frame.func);
        return r ? r : add_row(&firefox->frames, &frame, sizeof(frame), numberp);
}

/* From the outermost frame on, so that stacks share the rows of their callers. */
static int add_stack(Firefox *firefox, uint32_t stack) {
        StackRow row = { .prefix = NONE };
        uint32_t number = NONE;
        size_t n;
        const FrameWord *words = window_get_stack(firefox->window, stack, &n);
        int r = 0;

        if (hashmap_get(&firefox->rows, stack))
                return 0;
        for (size_t i = n; i-- > 0 && !r;) {
                row.prefix = number;
                r = add_frame(firefox, words[i], &row.frame);
                if (!r)
                        r = add_row(&firefox->stacks, &row, sizeof(row), &number);
        }
        return r || number == NONE ? r : hashmap_put(&firefox->rows, stack, (void *)(uintptr_t)(number + 1));
}

/* ---- columns ---- */

/* @null: the number that stands for nothing. */
static void put_cell(JsonWriter *json, uint32_t number, uint32_t null) {
        if (number == null)
                json_raw(json, NULL, "null");
        else
                json_number(json, NULL, number);
}

/* Column @at of a table whose rows are 32-bit words. */
static void put_column(Firefox *firefox, const char *key, const Intern *table, size_t at, uint32_t null) {
        json_open(firefox->json, key, '[');
        for (uint32_t i = 0; i < table->n_items; i++)
                put_cell(firefox->json, ((const uint32_t *)intern_get(table, i)->data)[at], null);
        json_close(firefox->json, ']');
}

/* A column that says the same of all rows. */
static void put_constant(Firefox *firefox, const char *key, uint32_t n, const char *value) {
        json_open(firefox->json, key, '[');
        for (uint32_t i = 0; i < n; i++)
                json_raw(firefox->json, NULL, value);
        json_close(firefox->json, ']');
}

static void put_empty(Firefox *firefox, const char *key, const char *const *columns) {
        json_open(firefox->json, key, '{');
        for (; *columns; columns++)
                put_constant(firefox, *columns, 0, "");
        json_number(firefox->json, "length", 0);
        json_close(firefox->json, '}');
}

/* A stack has the category of its innermost frame. */
static void put_stack_categories(Firefox *firefox) {
        json_open(firefox->json, "category", '[');
        for (uint32_t i = 0; i < firefox->stacks.n_items; i++) {
                const StackRow *stack = intern_get(&firefox->stacks, i)->data;
                const FrameRow *frame = intern_get(&firefox->frames, stack->frame)->data;

                json_number(firefox->json, NULL, frame->category);
        }
        json_close(firefox->json, ']');
}

static void put_stacks(Firefox *firefox) {
        uint32_t n = firefox->stacks.n_items;

        json_open(firefox->json, "stackTable", '{');
        put_column(firefox, "frame", &firefox->stacks, 0, NONE);
        put_column(firefox, "prefix", &firefox->stacks, 1, NONE);
        put_stack_categories(firefox);
        put_constant(firefox, "subcategory", n, "0");
        json_number(firefox->json, "length", n);
        json_close(firefox->json, '}');
}

static void put_frames(Firefox *firefox) {
        uint32_t n = firefox->frames.n_items;

        json_open(firefox->json, "frameTable", '{');
        put_constant(firefox, "address", n, "-1");
        put_constant(firefox, "inlineDepth", n, "0");
        put_column(firefox, "category", &firefox->frames, 1, NONE);
        put_constant(firefox, "subcategory", n, "0");
        put_column(firefox, "func", &firefox->frames, 0, NONE);
        put_constant(firefox, "nativeSymbol", n, "null");
        put_constant(firefox, "innerWindowID", n, "0");
        put_constant(firefox, "implementation", n, "null");
        put_column(firefox, "line", &firefox->frames, 2, 0);
        put_constant(firefox, "column", n, "null");
        json_number(firefox->json, "length", n);
        json_close(firefox->json, '}');
}

static void put_funcs(Firefox *firefox) {
        uint32_t n = firefox->funcs.n_items;

        json_open(firefox->json, "funcTable", '{');
        put_column(firefox, "name", &firefox->funcs, 0, NONE);
        put_constant(firefox, "isJS", n, "false");
        put_constant(firefox, "relevantForJS", n, "false");
        put_constant(firefox, "resource", n, "-1");
        put_column(firefox, "fileName", &firefox->funcs, 1, NONE);
        put_constant(firefox, "lineNumber", n, "null");
        put_constant(firefox, "columnNumber", n, "null");
        json_number(firefox->json, "length", n);
        json_close(firefox->json, '}');
}

static void put_strings(Firefox *firefox) {
        json_open(firefox->json, "stringArray", '[');
        for (uint32_t i = 0; i < firefox->strings.n_items; i++)
                json_text(firefox->json, NULL, intern_get(&firefox->strings, i)->data);
        json_close(firefox->json, ']');
}

/* ---- samples ---- */

/* Values of profiles of time are nanoseconds, which the form has as `tracing-ms`. */
static const char *weight_type(const Firefox *firefox, const WindowProfile *kind) {
        const char *unit = text_of(firefox, kind->names.unit);

        if (timeline_weight(firefox->window, kind) || !strcmp(unit, "nanoseconds"))
                return "tracing-ms";
        return !strcmp(unit, "bytes") ? "bytes" : "samples";
}

static void put_ms(JsonWriter *json, uint64_t ns) {
        json_decimal(json, NULL, (double)ns / (double)NS_PER_MS, 6);
}

/* Events without a time come first, one behind the other. */
static void put_times(Firefox *firefox, const TimelineEvent *events, size_t n) {
        uint64_t at_ns = 0;

        json_open(firefox->json, "time", '[');
        for (size_t i = 0; i < n; i++) {
                if (events[i].time_ns > firefox->start_ns)
                        at_ns = MAX(at_ns, events[i].time_ns - firefox->start_ns);
                put_ms(firefox->json, at_ns);
                if (!events[i].time_ns)
                        at_ns += MIN(events[i].value, NS_PER_SEC);
        }
        json_close(firefox->json, ']');
}

static void put_samples(Firefox *firefox, const WindowProfile *kind, const TimelineEvent *events, size_t n) {
        const char *type = weight_type(firefox, kind);
        JsonWriter *json = firefox->json;

        json_open(json, "samples", '{');
        json_open(json, "stack", '[');
        for (size_t i = 0; i < n; i++)
                put_cell(json, (uint32_t)(uintptr_t)hashmap_get(&firefox->rows, events[i].stack) - 1, NONE);
        json_close(json, ']');
        put_times(firefox, events, n);
        json_open(json, "weight", '[');
        for (size_t i = 0; i < n; i++)
                if (!strcmp(type, "tracing-ms"))
                        put_ms(json, events[i].value);
                else
                        json_number(json, NULL, events[i].value);
        json_close(json, ']');
        json_text(json, "weightType", type);
        json_number(json, "length", n);
        json_close(json, '}');
}

/* ---- threads ---- */

/* The first kind has no mark: `io`, `io (off_cpu)`. */
static int put_names(Firefox *firefox, const WindowProfile *kind, const TimelineThread *thread) {
        const Window *window = firefox->window;
        const char *program = window_get_resource_text(window, thread->resource, "process.executable.name");
        _cleanup_(text_deinit) Text name = { 0 };
        char number[24];
        int64_t pid = 0;

        window_get_resource_integer(window, thread->resource, "process.pid", &pid);
        text_printf(&name, "%s", *text_of(firefox, thread->name) ? text_of(firefox, thread->name)
                            : *program                           ? program
                                                                 : "all");
        if (!timeline_is_same_kind(kind, window_get_profile(window, 0)))
                text_printf(&name, " (%s)", text_of(firefox, kind->names.type));
        if (name.failed)
                return error_origin(-ENOMEM);
        snprintf(number, sizeof(number), "%" PRId64, pid);
        json_text(firefox->json, "name", name.data);
        json_text(firefox->json, "processName", *program ? program : "spanprof");
        json_bool(firefox->json, "isMainThread", thread->id < 0 || thread->id == pid);
        json_text(firefox->json, "pid", number);
        json_number(firefox->json, "tid", (uint64_t)MAX(thread->id, INT64_C(0)));
        return 0;
}

static void put_life(Firefox *firefox) {
        JsonWriter *json = firefox->json;

        json_text(json, "processType", "default");
        json_number(json, "processStartupTime", 0);
        json_raw(json, "processShutdownTime", "null");
        json_number(json, "registerTime", 0);
        json_raw(json, "unregisterTime", "null");
        json_open(json, "pausedRanges", '[');
        json_close(json, ']');
}

/* @events: of one thread, in the order of time. */
static int put_thread(Firefox *firefox, const WindowProfile *kind, const TimelineEvent *events, size_t n) {
        static const char *const markers[] = { "data", "name", "startTime", "endTime", "phase", "category", NULL };
        static const char *const resources[] = { "lib", "name", "host", "type", NULL };
        static const char *const symbols[] = { "libIndex", "address", "name", "functionSize", NULL };
        int r = 0;

        clear_tables(firefox);
        for (size_t i = 0; i < n && !r; i++)
                r = add_stack(firefox, events[i].stack);
        if (r)
                return r;
        json_open(firefox->json, NULL, '{');
        r = put_names(firefox, kind, timeline_thread(&firefox->timeline, events));
        put_life(firefox);
        put_samples(firefox, kind, events, n);
        put_empty(firefox, "markers", markers);
        put_stacks(firefox);
        put_frames(firefox);
        put_funcs(firefox);
        put_empty(firefox, "resourceTable", resources);
        put_empty(firefox, "nativeSymbols", symbols);
        put_strings(firefox);
        json_close(firefox->json, '}');
        return r;
}

static int put_kind(Firefox *firefox, const WindowProfile *kind) {
        Timeline *timeline = &firefox->timeline;
        size_t n;
        int r = timeline_collect(timeline, kind);

        for (size_t i = 0; i < timeline->n_events && !r; i += n) {
                n = timeline_run(timeline, i);
                r = put_thread(firefox, kind, timeline->events + i, n);
        }
        return r;
}

/* ---- the document ---- */

static void put_category(JsonWriter *json, const char *name, const char *color) {
        json_open(json, NULL, '{');
        json_text(json, "name", name);
        json_text(json, "color", color);
        json_open(json, "subcategories", '[');
        json_text(json, NULL, "Other");
        json_close(json, ']');
        json_close(json, '}');
}

/* Milliseconds between samples: viewers draw one as so wide. */
static double interval_ms(const Window *window) {
        for (uint32_t i = 0; i < window_n_profiles(window); i++) {
                uint64_t weight = timeline_weight(window, window_get_profile(window, i));

                if (weight)
                        return (double)weight / (double)NS_PER_MS;
        }
        return 1;
}

static void put_meta(Firefox *firefox) {
        static const char *const extensions[] = { "baseURL", "id", "name", NULL };
        JsonWriter *json = firefox->json;

        json_open(json, "meta", '{');
        json_number(json, "version", GECKO_VERSION);
        json_number(json, "preprocessedProfileVersion", FORM_VERSION);
        json_decimal(json, "interval", interval_ms(firefox->window), 6);
        json_decimal(json, "startTime", (double)firefox->start_ns / (double)NS_PER_MS, 3);
        json_number(json, "processType", 0);
        json_text(json, "product", "spanprof " SPANPROF_VERSION);
        json_text(json, "importedFrom", "spanprof");
        json_number(json, "stackwalk", 1);
        json_bool(json, "symbolicated", true);
        json_bool(json, "usesOnlyOneStackType", true);
        json_bool(json, "doesNotUseFrameImplementation", true);
        json_bool(json, "sourceCodeIsNotOnSearchfox", true);
        json_text(json, "platform", "Linux");
        put_empty(firefox, "extensions", extensions);
        json_open(json, "categories", '[');
        put_category(json, "Other", "grey");
        put_category(json, "User", "yellow");
        put_category(json, "Kernel", "orange");
        json_close(json, ']');
        json_open(json, "markerSchema", '[');
        json_close(json, ']');
        json_close(json, '}');
}

static int put_all(Firefox *firefox) {
        const Window *window = firefox->window;
        JsonWriter *json = firefox->json;
        int r = 0;

        json_open(json, NULL, '{');
        put_meta(firefox);
        json_open(json, "libs", '[');
        json_close(json, ']');
        json_open(json, "pages", '[');
        json_close(json, ']');
        json_open(json, "threads", '[');
        for (uint32_t i = 0; i < window_n_profiles(window) && !r; i++)
                if (timeline_is_first_of_kind(window, i))
                        r = put_kind(firefox, window_get_profile(window, i));
        json_close(json, ']');
        json_close(json, '}');
        json_end(json);
        return r;
}

static void deinit(Firefox *firefox) {
        timeline_deinit(&firefox->timeline);
        intern_deinit(&firefox->strings);
        intern_deinit(&firefox->funcs);
        intern_deinit(&firefox->frames);
        intern_deinit(&firefox->stacks);
        hashmap_deinit(&firefox->rows);
}

static int write_firefox(const Convert *convert, ConvertSink sink, void *userdata, Text *problem) {
        _cleanup_(text_deinit) Text text = { 0 };
        JsonWriter json = { .text = &text };
        Firefox firefox = { .window = convert->window, .json = &json,
                            .start_ns = window_start_ns(convert->window) };
        int r;

        timeline_init(&firefox.timeline, convert->window);
        firefox.timeline.has_untimed = true;
        intern_init(&firefox.strings, UINT32_MAX - 1);
        intern_init(&firefox.funcs, UINT32_MAX - 1);
        intern_init(&firefox.frames, UINT32_MAX - 1);
        intern_init(&firefox.stacks, UINT32_MAX - 1);
        r = put_all(&firefox);
        if (!r && text.failed)
                r = error_origin(-ENOMEM);
        if (!r)
                r = sink((const uint8_t *)text.data, text.size, window_n_events(convert->window), userdata);
        if (firefox.timeline.is_over)
                convert_notice(convert, "there are more than %d samples or %d threads: those behind are left out",
                               TIMELINE_MAX_EVENTS, TIMELINE_MAX_THREADS);
        deinit(&firefox);
        return r;
}

/* Whether a sample says more than which thread it is of. */
static bool has_more(const Window *window, uint32_t set) {
        size_t n;
        const uint32_t *attributes = window_get_attribute_set(window, set, &n);

        for (size_t i = 0; i < n; i++) {
                const WindowAttribute *attribute = window_get_attribute(window, attributes[i]);
                const char *key = window_get_string(window, attribute->key, NULL);

                if (strcmp(key, "thread.id") && strcmp(key, "thread.name"))
                        return true;
        }
        return false;
}

static void say_losses(const Convert *convert, Text *words) {
        uint64_t n_links = 0, n_attributes = 0;

        for (uint32_t i = 0; i < window_n_profiles(convert->window); i++)
                for (uint32_t j = 0; j < window_get_profile(convert->window, i)->n_samples; j++) {
                        WindowSample sample;

                        window_get_sample(convert->window, i, j, &sample);
                        n_links += sample.link ? sample.n_events : 0;
                        n_attributes += has_more(convert->window, sample.attributes) ? sample.n_events : 0;
                }
        convert_loss(words, n_links, "span of an event", "spans of events");
        convert_loss(words, n_attributes, "attribute of an event", "attributes of events");
}

const ConvertWriter convert_write_firefox = {
        .name = "firefox",
        .suffixes = ".firefox.json",
        .names = true,
        .times = true,
        .write = write_firefox,
        .losses = say_losses,
};

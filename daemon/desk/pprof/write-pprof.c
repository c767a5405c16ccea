/* SPDX-License-Identifier: Apache-2.0 */

/*
 * pprof (profile.proto, gzip): one file with a value column for each type of profile.
 *
 * Strings, functions and mappings keep their indexes of the window; behind the window's strings stand those
 * that it has as bytes: the ids of links in hex. Locations are numbered by first use. Each field is written
 * as it comes; a message inside a message is made in a buffer of its own, since its size stands before it.
 *
 * Samples of the CPU have a second column, cpu in nanoseconds, as Go's own profiles have: tools show the
 * default type, and people think in seconds. Of a heap that type is inuse_space. The first mapping is the
 * program, by which tools call a file.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/data/hashmap.h"
#include "core/base/data/protobuf.h"
#include "core/base/file/gzip.h"
#include "core/base/util/array.h"
#include "core/base/util/error.h"
#include "core/profile/location.h"
#include "core/profile/shown.h"
#include "desk/convert/format.h"
#include "desk/pprof/pprof-fields.h"

enum { MAX_COLUMNS = 64 };

#define NO_LINES "no function's first line is known: is it a Go program, 1.20 or later, and is it on this machine?"

typedef struct Pprof {
        const Window *window;
        Text out, message, inner;
        Hashmap locations;              /* location's word → id, as a pointer */
        Locations chains;               /* what words of locations with several frames mean */
        FrameWord *words;               /* id - 1 → location's word */
        uint32_t n_locations, words_size;
        WindowProfileNames columns[MAX_COLUMNS];
        uint32_t n_columns;
        bool has_time;                  /* a further column has the CPU time of counted samples */
        /* strings behind the window's */
        uint32_t trace_key, span_key, cpu_key, nanoseconds_key, first_id;
} Pprof;

static void put_number(Text *text, unsigned field, uint64_t value) {
        if (!value)
                return;
        text_append_varint(text, field << 3 | WIRE_VARINT);
        text_append_varint(text, value);
}

static void put_bytes(Text *text, unsigned field, const char *data, size_t size) {
        text_append_varint(text, field << 3 | WIRE_BYTES);
        text_append_varint(text, size);
        text_append(text, data ? data : "", size);
}

/* Puts @inner into @text as a field and empties it. */
static void put_message(Text *text, unsigned field, Text *inner) {
        put_bytes(text, field, inner->data, inner->size);
        text->failed |= inner->failed;
        inner->size = 0;
}

static void put_type(Pprof *pprof, unsigned field, uint32_t type, uint32_t unit) {
        put_number(&pprof->message, TYPE_TYPE, type);
        put_number(&pprof->message, TYPE_UNIT, unit);
        put_message(&pprof->out, field, &pprof->message);
}

static uint32_t find_column(Pprof *pprof, const WindowProfile *profile) {
        uint32_t i = 0;

        while (i < pprof->n_columns &&
               (pprof->columns[i].type != profile->names.type ||
                pprof->columns[i].unit != profile->names.unit))
                i++;
        if (i == pprof->n_columns && i < MAX_COLUMNS)
                pprof->columns[pprof->n_columns++] = profile->names;
        return MIN(i, (uint32_t)MAX_COLUMNS - 1);
}

static bool is_text(const Window *window, uint32_t string, const char *text) {
        return !strcmp(window_get_string(window, string, NULL), text);
}

/* Nanoseconds of a sample's value; 0 = it is not of CPU time. */
static int64_t nanoseconds(const Window *window, const WindowProfile *profile) {
        const WindowProfileNames *names = &profile->names;

        if (is_text(window, names->type, "cpu"))
                return is_text(window, names->unit, "nanoseconds");
        return is_text(window, names->type, "samples") && is_text(window, names->period_type, "cpu") &&
                        is_text(window, names->period_unit, "nanoseconds")
                ? MAX(profile->period, (int64_t)0)
                : 0;
}

static int location(Pprof *pprof, FrameWord word, uint64_t *idp) {
        uintptr_t id = (uintptr_t)hashmap_get(&pprof->locations, word);

        if (!id) {
                int r = array_reserve(&pprof->words, &pprof->words_size, pprof->n_locations + 1u, 256);

                if (r)
                        return r;
                pprof->words[pprof->n_locations++] = word;
                id = pprof->n_locations;
                if (hashmap_put(&pprof->locations, word, (void *)id))
                        return error_origin(-ENOMEM);
        }
        *idp = id;
        return 0;
}

static void put_label(Pprof *pprof, uint32_t key, uint32_t text, int64_t number) {
        put_number(&pprof->inner, LABEL_KEY, key);
        put_number(&pprof->inner, LABEL_TEXT, text);
        put_number(&pprof->inner, LABEL_NUMBER, (uint64_t)number);
        put_message(&pprof->message, SAMPLE_LABEL, &pprof->inner);
}

static void put_attribute(Pprof *pprof, uint32_t index) {
        const WindowAttribute *attribute = window_get_attribute(pprof->window, index);

        if (attribute->kind == ATTRIBUTE_STRING)
                put_label(pprof, attribute->key, attribute->string, 0);
        else if (attribute->kind != ATTRIBUTE_DOUBLE)
                put_label(pprof, attribute->key, 0, attribute->integer);
}

/* Writes the process and service of a sample as labels, since a file has no resources. */
static void put_resource(Pprof *pprof, uint32_t resource) {
        const uint32_t *attributes;
        size_t n;

        attributes = window_get_resource(pprof->window, resource, &n);
        for (size_t i = 0; i < n; i++) {
                const char *key = window_get_string(
                        pprof->window, window_get_attribute(pprof->window, attributes[i])->key, NULL);

                if (!strcmp(key, "service.name") || !strcmp(key, "process.pid"))
                        put_attribute(pprof, attributes[i]);
        }
}

static int put_stack(Pprof *pprof, uint32_t stack) {
        size_t n;
        const FrameWord *words = window_get_stack(pprof->window, stack, &n);
        size_t used = 0;

        for (size_t i = 0; i < n; i += used) {
                FrameWord word;
                uint64_t id = 0;
                int r = locations_next(&pprof->chains, words + i, n - i, &word, &used);

                r = r ? r : location(pprof, word, &id);
                if (r)
                        return r;
                text_append_varint(&pprof->inner, id);
        }
        put_message(&pprof->message, SAMPLE_LOCATION, &pprof->inner);
        return 0;
}

static int put_sample(Pprof *pprof, const WindowProfile *profile, uint32_t column,
                      const WindowSample *sample) {
        const uint32_t *set;
        size_t n;
        int r = put_stack(pprof, sample->stack);

        if (r)
                return r;
        for (uint32_t i = 0; i < pprof->n_columns; i++)
                text_append_varint(&pprof->inner, i == column ? (uint64_t)sample->value : 0);
        if (pprof->has_time) {
                int64_t time;

                if (__builtin_mul_overflow(sample->value, nanoseconds(pprof->window, profile), &time))
                        time = sample->value < 0 ? INT64_MIN : INT64_MAX;
                text_append_varint(&pprof->inner, (uint64_t)time);
        }
        put_message(&pprof->message, SAMPLE_VALUE, &pprof->inner);
        set = window_get_attribute_set(pprof->window, sample->attributes, &n);
        for (size_t i = 0; i < n; i++)
                put_attribute(pprof, set[i]);
        put_resource(pprof, profile->resource);
        if (sample->link) {
                put_label(pprof, pprof->trace_key, pprof->first_id + 2 * (sample->link - 1), 0);
                put_label(pprof, pprof->span_key, pprof->first_id + 2 * (sample->link - 1) + 1, 0);
        }
        put_message(&pprof->out, PROFILE_SAMPLE, &pprof->message);
        return 0;
}

static int put_samples(Pprof *pprof) {
        for (uint32_t i = 0; i < window_n_profiles(pprof->window); i++) {
                const WindowProfile *profile = window_get_profile(pprof->window, i);
                uint32_t column = find_column(pprof, profile);

                for (uint32_t j = 0; j < profile->n_samples; j++) {
                        WindowSample sample;
                        int r;

                        window_get_sample(pprof->window, i, j, &sample);
                        r = put_sample(pprof, profile, column, &sample);
                        if (r)
                                return r;
                }
        }
        return 0;
}

static const char *last_part(const char *path) {
        const char *slash = strrchr(path, '/');

        return slash ? slash + 1 : path;
}

/* The module of the program that has the most events; 0 = none is known to be it. */
static uint32_t find_program(const Window *window, const WindowProfile *most) {
        const char *path = most ? window_get_resource_text(window, most->resource, "process.executable.path") : "",
                   *name = most ? window_get_resource_text(window, most->resource, "process.executable.name") : "";
        uint32_t by_name = 0;

        for (uint32_t i = 1; i < window_n_modules(window); i++) {
                const char *module = window_get_string(window, window_get_module(window, i)->path, NULL);

                if (*path && !strcmp(module, path))
                        return i;
                if (*name && !by_name && !strcmp(last_part(module), name))
                        by_name = i;
        }
        return by_name;
}

static void put_mapping(Pprof *pprof, uint32_t index, bool has_functions) {
        const WindowModule *module = window_get_module(pprof->window, index);

        put_number(&pprof->message, MAPPING_ID, index);
        put_number(&pprof->message, MAPPING_START, module->start);
        put_number(&pprof->message, MAPPING_LIMIT, module->limit ? module->limit : UINT64_MAX);
        put_number(&pprof->message, MAPPING_OFFSET, module->offset);
        put_number(&pprof->message, MAPPING_FILE, module->path);
        put_number(&pprof->message, MAPPING_BUILD_ID,
                   module->build_id_gnu          ? module->build_id_gnu
                           : module->build_id_go ? module->build_id_go
                                                 : module->build_id_htlhash);
        put_number(&pprof->message, MAPPING_HAS_FUNCTIONS, has_functions);
        put_message(&pprof->out, PROFILE_MAPPING, &pprof->message);
}

/* As Go's runtime has it: a mapping has functions if none of its locations lacks one. */
static int put_mappings(Pprof *pprof, const WindowProfile *most) {
        uint32_t n = window_n_modules(pprof->window), program = find_program(pprof->window, most);
        _cleanup_(freep) uint32_t *named = calloc(n, sizeof(*named));
        _cleanup_(freep) uint32_t *unnamed = calloc(n, sizeof(*unnamed));

        if (!named || !unnamed)
                return error_origin(-ENOMEM);
        for (uint32_t i = 0; i < pprof->n_locations; i++) {
                WindowFrame frame = locations_outer(&pprof->chains, pprof->words[i]);

                (frame.function ? named : unnamed)[frame.module]++;
        }
        if (program)
                put_mapping(pprof, program, named[program] && !unnamed[program]);
        for (uint32_t i = 1; i < n; i++)
                if (i != program)
                        put_mapping(pprof, i, named[i] && !unnamed[i]);
        return 0;
}

/* Puts the lines of a location, the innermost function's first. Of one frame without a name there is none. */
static void put_lines(Pprof *pprof, FrameWord word) {
        size_t n;
        const FrameWord *words = locations_get(&pprof->chains, &word, &n);

        for (size_t i = 0; i < n; i++) {
                WindowFrame frame = window_expand_frame(pprof->window, words[i]);

                if (n == 1 && !frame.function && !frame.line)
                        return;
                put_number(&pprof->inner, LINE_FUNCTION, frame.function);
                put_number(&pprof->inner, LINE_LINE, (uint64_t)frame.line);
                put_message(&pprof->message, LOCATION_LINE, &pprof->inner);
        }
}

static void put_locations(Pprof *pprof) {
        for (uint32_t i = 0; i < pprof->n_locations; i++) {
                WindowFrame frame = locations_outer(&pprof->chains, pprof->words[i]);

                put_number(&pprof->message, LOCATION_ID, i + 1);
                put_number(&pprof->message, LOCATION_MAPPING, frame.module);
                put_number(&pprof->message, LOCATION_ADDRESS, frame.address);
                put_lines(pprof, pprof->words[i]);
                put_message(&pprof->out, PROFILE_LOCATION, &pprof->message);
        }
}

static void put_functions(Pprof *pprof) {
        for (uint32_t i = 1; i < window_n_functions(pprof->window); i++) {
                const WindowFunction *function = window_get_function(pprof->window, i);

                put_number(&pprof->message, FUNCTION_ID, i);
                put_number(&pprof->message, FUNCTION_NAME, function->name);
                put_number(&pprof->message, FUNCTION_SYSTEM_NAME, function->system_name);
                put_number(&pprof->message, FUNCTION_FILE, function->filename);
                put_number(&pprof->message, FUNCTION_START, (uint64_t)function->start_line);
                put_message(&pprof->out, PROFILE_FUNCTION, &pprof->message);
        }
}

static void put_hex(Pprof *pprof, const uint8_t *id, size_t size) {
        char hex[2 * 16 + 1];

        text_to_hex(hex, id, size);
        put_bytes(&pprof->out, PROFILE_STRING, hex, 2 * size);
}

static void put_strings(Pprof *pprof) {
        for (uint32_t i = 0; i < window_n_strings(pprof->window); i++) {
                size_t size;
                const char *text = window_get_string(pprof->window, i, &size);

                put_bytes(&pprof->out, PROFILE_STRING, text, size);
        }
        put_bytes(&pprof->out, PROFILE_STRING, "trace_id", 8);
        put_bytes(&pprof->out, PROFILE_STRING, "span_id", 7);
        put_bytes(&pprof->out, PROFILE_STRING, "cpu", 3);
        put_bytes(&pprof->out, PROFILE_STRING, "nanoseconds", 11);
        for (uint32_t i = 1; i < window_n_links(pprof->window); i++) {
                const WindowLink *link = window_get_link(pprof->window, i);

                put_hex(pprof, link->trace_id, sizeof(link->trace_id));
                put_hex(pprof, link->span_id, sizeof(link->span_id));
        }
}

static ShownType type_of(const Window *window, const WindowProfile *profile) {
        return (ShownType){ .is_cpu = nanoseconds(window, profile),
                            .type = window_get_string(window, profile->names.type, NULL),
                            .n_events = profile->n_events };
}

/* A program's own profile has both columns, events and time, already: of equal ones time is shown. */
static bool is_shown_before(const Window *window, const WindowProfile *profile, const WindowProfile *other) {
        ShownType type = type_of(window, profile), other_type = type_of(window, other);
        int order = shown_compare(&type, &other_type);

        return order > 0 || (!order && !is_text(window, other->names.unit, "nanoseconds") &&
                             is_text(window, profile->names.unit, "nanoseconds"));
}

/* The profile that tools shall show (core/profile/shown.h). */
static const WindowProfile *find_first(const Window *window) {
        const WindowProfile *first = NULL;

        for (uint32_t i = 0; i < window_n_profiles(window); i++) {
                const WindowProfile *profile = window_get_profile(window, i);

                if (!first || is_shown_before(window, profile, first))
                        first = profile;
        }
        return first;
}

/* Whether the time of counted samples needs a column: no profile of the file says it. */
static bool lacks_time(const Window *window) {
        bool counted = false;

        for (uint32_t i = 0; i < window_n_profiles(window); i++) {
                const WindowProfile *profile = window_get_profile(window, i);

                if (is_text(window, profile->names.type, "cpu"))
                        return false;
                counted |= nanoseconds(window, profile) > 0;
        }
        return counted;
}

/* The columns are found first: every sample has a value for each. */
static int put_all(Pprof *pprof) {
        const WindowProfile *first = find_first(pprof->window);
        bool in_time;
        int r;

        for (uint32_t i = 0; i < window_n_profiles(pprof->window); i++)
                find_column(pprof, window_get_profile(pprof->window, i));
        for (uint32_t i = 0; i < pprof->n_columns; i++)
                put_type(pprof, PROFILE_SAMPLE_TYPE, pprof->columns[i].type, pprof->columns[i].unit);
        pprof->has_time = lacks_time(pprof->window);
        in_time = pprof->has_time && nanoseconds(pprof->window, first);
        if (pprof->has_time)
                put_type(pprof, PROFILE_SAMPLE_TYPE, pprof->cpu_key, pprof->nanoseconds_key);
        r = put_samples(pprof);
        if (!r)
                r = put_mappings(pprof, first);
        put_locations(pprof);
        put_functions(pprof);
        put_strings(pprof);
        put_number(&pprof->out, PROFILE_TIME,
                   window_start_ns(pprof->window) + (uint64_t)window_realtime_offset_ns(pprof->window));
        put_number(&pprof->out, PROFILE_DURATION,
                   window_end_ns(pprof->window) - window_start_ns(pprof->window));
        if (first) {
                put_type(pprof, PROFILE_PERIOD_TYPE, first->names.period_type, first->names.period_unit);
                put_number(&pprof->out, PROFILE_PERIOD, (uint64_t)first->period);
                put_number(&pprof->out, PROFILE_DEFAULT_TYPE, in_time ? pprof->cpu_key : first->names.type);
        }
        return r ? r : pprof->out.failed ? error_origin(-ENOMEM) : 0;
}

static int hand_over(const Convert *convert, int (*put)(Pprof *), ConvertSink sink, void *userdata) {
        Pprof pprof = { .window = convert->window };
        _cleanup_(freep) uint8_t *packed = NULL;
        size_t size;
        int r;

        pprof.trace_key = window_n_strings(convert->window);
        pprof.span_key = pprof.trace_key + 1;
        pprof.cpu_key = pprof.trace_key + 2;
        pprof.nanoseconds_key = pprof.trace_key + 3;
        pprof.first_id = pprof.trace_key + 4;
        locations_init(&pprof.chains, convert->window);
        r = put(&pprof);
        if (!r)
                r = gzip_compress(pprof.out.data, pprof.out.size, &packed, &size);
        if (!r)
                r = sink(packed, size, window_n_events(convert->window), userdata);
        text_deinit(&pprof.out);
        text_deinit(&pprof.message);
        text_deinit(&pprof.inner);
        hashmap_deinit(&pprof.locations);
        locations_deinit(&pprof.chains);
        free(pprof.words);
        return r;
}

static int write_pprof(const Convert *convert, ConvertSink sink, void *userdata, Text *problem) {
        return hand_over(convert, put_all, sink, userdata);
}

/* ---- for `go build -pgo=` ---- */

/*
 * Go takes a column cpu/nanoseconds, and functions with their first line: it knows a call by the line in its
 * caller.
 */
static int put_cpu_samples(Pprof *pprof) {
        for (uint32_t i = 0; i < window_n_profiles(pprof->window); i++) {
                const WindowProfile *profile = window_get_profile(pprof->window, i);
                int64_t scale = nanoseconds(pprof->window, profile), value;

                for (uint32_t j = 0; j < profile->n_samples && scale; j++) {
                        WindowSample sample;
                        int r;

                        window_get_sample(pprof->window, i, j, &sample);
                        if (sample.value <= 0 || __builtin_mul_overflow(sample.value, scale, &value))
                                continue;
                        r = put_stack(pprof, sample.stack);
                        if (r)
                                return r;
                        text_append_varint(&pprof->inner, (uint64_t)value);
                        put_message(&pprof->message, SAMPLE_VALUE, &pprof->inner);
                        put_message(&pprof->out, PROFILE_SAMPLE, &pprof->message);
                }
        }
        return 0;
}

static bool has_first_lines(const Window *window) {
        for (uint32_t i = 1; i < window_n_functions(window); i++)
                if (window_get_function(window, i)->start_line)
                        return true;
        return false;
}

static int put_pgo(Pprof *pprof) {
        int r;

        put_type(pprof, PROFILE_SAMPLE_TYPE, pprof->cpu_key, pprof->nanoseconds_key);
        r = put_cpu_samples(pprof);
        if (!r)
                r = put_mappings(pprof, find_first(pprof->window));
        put_locations(pprof);
        put_functions(pprof);
        put_strings(pprof);
        put_number(&pprof->out, PROFILE_DURATION,
                   window_end_ns(pprof->window) - window_start_ns(pprof->window));
        put_type(pprof, PROFILE_PERIOD_TYPE, pprof->cpu_key, pprof->nanoseconds_key);
        put_number(&pprof->out, PROFILE_PERIOD, 1);
        return r ? r : pprof->out.failed ? error_origin(-ENOMEM) : 0;
}

static int write_pgo(const Convert *convert, ConvertSink sink, void *userdata, Text *problem) {
        if (has_first_lines(convert->window))
                return hand_over(convert, put_pgo, sink, userdata);
        text_append(problem, NO_LINES, strlen(NO_LINES));
        return CONVERT_E_OUTPUT;
}

/*
 * Frames that are not native code, each once: a location has no field for its kind, and readers take it for
 * native. A frame that is not counted for want of memory is no loss of the file.
 */
static uint64_t count_kinds(const Window *window) {
        Hashmap seen = { 0 };
        uint64_t n_kinds = 0;

        for (uint32_t stack = 0; stack < window_n_stacks(window); stack++) {
                size_t n;
                const FrameWord *words = window_get_stack(window, stack, &n);

                for (size_t i = 0; i < n; i++) {
                        if (is_text(window, window_expand_frame(window, words[i]).type, "native") ||
                            hashmap_get(&seen, words[i]) || hashmap_put(&seen, words[i], &seen))
                                continue;
                        n_kinds++;
                }
        }
        hashmap_deinit(&seen);
        return n_kinds;
}

/* Losses: resources keep only process and service, as labels. */
static void losses(const Convert *convert, Text *words) {
        uint64_t n_times = 0;

        for (uint32_t i = 0; i < window_n_profiles(convert->window); i++)
                for (uint32_t j = 0; j < window_get_profile(convert->window, i)->n_samples; j++) {
                        WindowSample sample;

                        window_get_sample(convert->window, i, j, &sample);
                        n_times += sample.n_times;
                }
        convert_loss(words, n_times, "time", "times");
        convert_loss(words, count_kinds(convert->window), "kind of a frame (kernel, jvm …)",
                     "kinds of frames (kernel, jvm …)");
}

const ConvertWriter convert_write_pprof = {
        .name = "pprof", .suffixes = ".pb.gz .pprof", .names = true, .below_zero = true, .write = write_pprof,
        .losses = losses,
};

const ConvertWriter convert_write_pgo = {
        .name = "pgo", .suffixes = ".pgo", .names = true, .lines = true, .write = write_pgo, .losses = losses,
};

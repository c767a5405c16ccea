/* SPDX-License-Identifier: Apache-2.0 */

/*
 * pprof (profile.proto, gzip): one file with a value column for each type of profile.
 *
 * Strings, functions and mappings keep their indexes of the window; behind the window's strings stand those
 * that it has as bytes: the ids of links in hex. Locations are numbered by first use. Each field is written
 * as it comes; a message inside a message is made in a buffer of its own, since its size stands before it.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/util/error.h"
#include "base/util/gzip.h"
#include "base/util/hashmap.h"
#include "base/util/protobuf.h"
#include "formats/convert/format.h"
#include "formats/pprof/pprof-fields.h"

enum { MAX_COLUMNS = 64 };

typedef struct Pprof {
        const Window *window;
        Text out, message, inner;
        Hashmap locations;              /* frame word → id, as a pointer */
        FrameWord *words;               /* id - 1 → frame word */
        uint32_t n_locations, words_size;
        WindowProfileNames columns[MAX_COLUMNS];
        uint32_t n_columns;
        uint32_t trace_key, span_key, first_id;         /* strings behind the window's */
} Pprof;

static void put_varint(Text *text, uint64_t value) {
        char bytes[10];
        size_t n = 0;

        for (; value >= 0x80; value >>= 7)
                bytes[n++] = (char)(value | 0x80);
        bytes[n++] = (char)value;
        text_append(text, bytes, n);
}

static void put_number(Text *text, unsigned field, uint64_t value) {
        if (!value)
                return;
        put_varint(text, field << 3 | WIRE_VARINT);
        put_varint(text, value);
}

static void put_bytes(Text *text, unsigned field, const char *data, size_t size) {
        put_varint(text, field << 3 | WIRE_BYTES);
        put_varint(text, size);
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

static int location(Pprof *pprof, FrameWord word, uint64_t *idp) {
        uintptr_t id = (uintptr_t)hashmap_get(&pprof->locations, word);

        if (!id) {
                if (pprof->n_locations == pprof->words_size) {
                        uint32_t size = MAX(pprof->words_size * 2, 256u);
                        FrameWord *words = realloc(pprof->words, size * sizeof(*words));

                        if (!words)
                                return error_origin(-ENOMEM);
                        pprof->words = words;
                        pprof->words_size = size;
                }
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

/* Whose sample it is: a file has no resources. */
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

        for (size_t i = 0; i < n; i++) {
                uint64_t id = 0;
                int r = location(pprof, words[i], &id);

                if (r)
                        return r;
                put_varint(&pprof->inner, id);
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
                put_varint(&pprof->inner, i == column ? (uint64_t)sample->value : 0);
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

static void put_mappings(Pprof *pprof) {
        for (uint32_t i = 1; i < window_n_modules(pprof->window); i++) {
                const WindowModule *module = window_get_module(pprof->window, i);

                put_number(&pprof->message, MAPPING_ID, i);
                put_number(&pprof->message, MAPPING_START, module->start);
                put_number(&pprof->message, MAPPING_LIMIT, module->limit ? module->limit : UINT64_MAX);
                put_number(&pprof->message, MAPPING_OFFSET, module->offset);
                put_number(&pprof->message, MAPPING_FILE, module->path);
                put_number(&pprof->message, MAPPING_BUILD_ID,
                           module->build_id_gnu          ? module->build_id_gnu
                                   : module->build_id_go ? module->build_id_go
                                                         : module->build_id_htlhash);
                put_message(&pprof->out, PROFILE_MAPPING, &pprof->message);
        }
}

static void put_locations(Pprof *pprof) {
        for (uint32_t i = 0; i < pprof->n_locations; i++) {
                WindowFrame frame = window_expand_frame(pprof->window, pprof->words[i]);

                put_number(&pprof->message, LOCATION_ID, i + 1);
                put_number(&pprof->message, LOCATION_MAPPING, frame.module);
                put_number(&pprof->message, LOCATION_ADDRESS, frame.address);
                if (frame.function || frame.line) {
                        put_number(&pprof->inner, LINE_FUNCTION, frame.function);
                        put_number(&pprof->inner, LINE_LINE, (uint64_t)frame.line);
                        put_message(&pprof->message, LOCATION_LINE, &pprof->inner);
                }
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
        for (uint32_t i = 1; i < window_n_links(pprof->window); i++) {
                const WindowLink *link = window_get_link(pprof->window, i);

                put_hex(pprof, link->trace_id, sizeof(link->trace_id));
                put_hex(pprof, link->span_id, sizeof(link->span_id));
        }
}

/* The columns are found first: every sample has a value for each. */
static int put_all(Pprof *pprof) {
        const WindowProfile *first = NULL;
        int r;

        for (uint32_t i = 0; i < window_n_profiles(pprof->window); i++) {
                const WindowProfile *profile = window_get_profile(pprof->window, i);

                find_column(pprof, profile);
                if (!first || profile->n_events > first->n_events)
                        first = profile;
        }
        for (uint32_t i = 0; i < pprof->n_columns; i++)
                put_type(pprof, PROFILE_SAMPLE_TYPE, pprof->columns[i].type, pprof->columns[i].unit);
        r = put_samples(pprof);
        put_mappings(pprof);
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
                put_number(&pprof->out, PROFILE_DEFAULT_TYPE, first->names.type);
        }
        return r ? r : pprof->out.failed ? error_origin(-ENOMEM) : 0;
}

static int write_pprof(const Convert *convert, ConvertSink sink, void *userdata, Text *problem) {
        Pprof pprof = { .window = convert->window };
        _cleanup_(freep) uint8_t *packed = NULL;
        size_t size;
        int r;

        pprof.trace_key = window_n_strings(convert->window);
        pprof.span_key = pprof.trace_key + 1;
        pprof.first_id = pprof.trace_key + 2;
        r = put_all(&pprof);
        if (!r)
                r = gzip_compress(pprof.out.data, pprof.out.size, &packed, &size);
        if (!r)
                r = sink(packed, size, window_n_events(convert->window), userdata);
        text_deinit(&pprof.out);
        text_deinit(&pprof.message);
        text_deinit(&pprof.inner);
        hashmap_deinit(&pprof.locations);
        free(pprof.words);
        return r;
}

/* Of resources only process and service are kept, as labels. */
static void losses(const Convert *convert, Text *words) {
        uint64_t n_times = 0;

        for (uint32_t i = 0; i < window_n_profiles(convert->window); i++)
                for (uint32_t j = 0; j < window_get_profile(convert->window, i)->n_samples; j++) {
                        WindowSample sample;

                        window_get_sample(convert->window, i, j, &sample);
                        n_times += sample.n_times;
                }
        convert_loss(words, n_times, "times");
}

const ConvertWriter convert_write_pprof = {
        .name = "pprof", .suffixes = ".pb.gz .pprof", .names = true, .write = write_pprof, .losses = losses,
};

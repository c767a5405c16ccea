/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Converts rows of a dictionary when something first refers to them, and remembers their index in the
 * window. The first wrong row ends the import and names its path.
 */

#include "core/otlp/import.h"

#include <errno.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/types.h>

#include "core/base/data/intern.h"
#include "core/base/util/error.h"
#include "core/base/util/macro.h"
#include "core/otlp/json.h"

/* The frames of a location: one, or one for each inlined line. */
typedef struct ImportLocation {
        FrameWord *words;
        size_t n_words;
} ImportLocation;

typedef struct Import {
        Window *window;
        const OtlpDictionary *dictionary;
        char *where;
        size_t where_size;
        char path[160];                 /* import_path() */

        /* Place that is being imported, for messages; -1 = none. */
        struct {
                ssize_t resource, scope, profile, sample;
                const char *table;      /* NULL = no row of the dictionary */
                size_t row;
        } at;

        /* By row: index in the window, + 1; 0 = not converted yet. */
        uint32_t *strings, *mappings, *functions, *attributes, *stacks;
        uint32_t *locations_done;
        ImportLocation *locations;
        FrameWord *words;               /* scratch: the stack that is being converted */
} Import;

/*
 * The dictionary: rows → indexes in the window, each when something first needs it.
 *
 * Functions return 0, OTLP_IMPORT_E_* or -ENOMEM. The first failure has written Import.where.
 */

static const OtlpDictionary no_dictionary = OTLP_DICTIONARY_INIT;

static int import_init(Import *import, Window *window, const OtlpDictionary *dictionary, char *where,
                       size_t where_size) {
        if (!dictionary)
                dictionary = &no_dictionary;
        *import = (Import){ .window = window,
                            .dictionary = dictionary,
                            .where = where,
                            .where_size = where_size,
                            .at = { -1, -1, -1, -1, NULL, 0 } };
        import->strings = calloc(dictionary->n_string_table + 1, sizeof(*import->strings));
        import->mappings = calloc(dictionary->n_mapping_table + 1, sizeof(*import->mappings));
        import->functions = calloc(dictionary->n_function_table + 1, sizeof(*import->functions));
        import->attributes = calloc(dictionary->n_attribute_table + 1, sizeof(*import->attributes));
        import->stacks = calloc(dictionary->n_stack_table + 1, sizeof(*import->stacks));
        import->locations = calloc(dictionary->n_location_table + 1, sizeof(*import->locations));
        import->locations_done = calloc(dictionary->n_location_table + 1, sizeof(*import->locations_done));
        import->words = malloc(WINDOW_MAX_DEPTH * sizeof(*import->words));
        if (!import->strings || !import->mappings || !import->functions || !import->attributes ||
            !import->stacks || !import->locations || !import->locations_done || !import->words)
                return error_origin(-ENOMEM);
        return 0;
}

static void import_deinit(Import *import) {
        for (size_t i = 0; import->locations && i < import->dictionary->n_location_table; i++)
                free(import->locations[i].words);
        free(import->locations);
        free(import->locations_done);
        free(import->words);
        free(import->strings);
        free(import->mappings);
        free(import->functions);
        free(import->attributes);
        free(import->stacks);
}

static const char *import_path(Import *import);

/* Writes where and returns @r. */
_printf_(3, 4) static int import_fail(Import *import, int r, const char *format, ...) {
        va_list args;

        va_start(args, format);
        vsnprintf(import->where, import->where_size, format, args);
        va_end(args);
        return r;
}

static int import_full(Import *import, int r) {
        if (r <= 0)
                return r;
        return import_fail(import, OTLP_IMPORT_E_FULL, "%s: more than a window takes", import_path(import));
}

/* `resource_profiles[0].scope_profiles[0].profiles[1].samples[7]`, or a row of the dictionary. */
static const char *import_path(Import *import) {
        size_t n = 0, size = sizeof(import->path);

        if (import->at.table) {
                snprintf(import->path, size, "dictionary.%s[%zu]", import->at.table, import->at.row);
                return import->path;
        }
        n += (size_t)snprintf(import->path, size, "resource_profiles[%zd]", import->at.resource);
        if (import->at.profile >= 0)
                n += (size_t)snprintf(import->path + n, size - n, ".scope_profiles[%zd].profiles[%zd]",
                                      import->at.scope, import->at.profile);
        if (import->at.sample >= 0)
                snprintf(import->path + n, size - n, ".samples[%zd]", import->at.sample);
        return import->path;
}

static int import_check_index(Import *import, const char *field, int32_t index, size_t n_rows) {
        if (index >= 0 && (size_t)index < n_rows)
                return 0;
        return import_fail(import, OTLP_IMPORT_E_INDEX, "%s.%s = %" PRId32 ", but the table has %zu rows",
                           import_path(import), field, index, n_rows);
}

static int import_string(Import *import, const char *field, int32_t index, uint32_t *stringp) {
        const OtlpDictionary *dictionary = import->dictionary;
        uint32_t string;
        int r;

        /* row 0 is "not set", whatever a careless writer has put there */
        if (!index) {
                *stringp = 0;
                return 0;
        }
        r = import_check_index(import, field, index, dictionary->n_string_table);
        if (r)
                return r;
        if (!import->strings[index]) {
                const char *text = dictionary->string_table[index];

                r = import_full(import, window_string(import->window, text, strlen(text), &string));
                if (r)
                        return r;
                import->strings[index] = string + 1;
        }
        *stringp = import->strings[index] - 1;
        return 0;
}

/*
 * The frame around the conversion of a row: its index is checked, 0 is "not set", and a row that is there
 * already costs nothing. Rows refer to rows of other tables only, so this does not recurse.
 */
typedef int (*ConvertRow)(Import *import, int32_t index, uint32_t *indexp);

static int import_row(Import *import, const char *field, const char *table, size_t n_rows,
                      uint32_t *converted, ConvertRow convert, int32_t index, uint32_t *indexp) {
        const char *outer_table = import->at.table;
        size_t outer_row = import->at.row;
        uint32_t row;
        int r;

        if (!index) {
                *indexp = 0;
                return 0;
        }
        r = import_check_index(import, field, index, n_rows);
        if (r)
                return r;
        if (!converted[index]) {
                import->at.table = table;
                import->at.row = (size_t)index;
                r = convert(import, index, &row);
                if (r)
                        return r;
                import->at.table = outer_table;
                import->at.row = outer_row;
                converted[index] = row + 1;
        }
        *indexp = converted[index] - 1;
        return 0;
}

/* Values that a window has no kind for, as the text that JSON has for them. */
static int import_other_value(Import *import, const OtlpAnyValue *value, uint32_t *stringp) {
        Text text = { 0 };
        int r;

        otlp_json_print(&text, &value->base, 0);
        r = text.failed ? error_origin(-ENOMEM) :
                          import_full(import, window_string(import->window, text.data, text.size, stringp));
        text_deinit(&text);
        return r;
}

static int import_value(Import *import, const OtlpAnyValue *value, WindowAttribute *attribute) {
        attribute->kind = ATTRIBUTE_STRING;
        switch (value ? value->value_case : 0) {
        case 0:
                return 0;
        case OTLP_ANY_STRING:
                return import_full(import, window_string(import->window, value->string_value,
                                                         strlen(value->string_value), &attribute->string));
        case OTLP_ANY_STRINDEX:
                return import_string(import, "value.string_value_strindex", value->string_value_strindex,
                                     &attribute->string);
        case OTLP_ANY_BOOL:
                attribute->kind = ATTRIBUTE_BOOL;
                attribute->integer = value->bool_value;
                return 0;
        case OTLP_ANY_INT:
                attribute->kind = ATTRIBUTE_INT;
                attribute->integer = value->int_value;
                return 0;
        case OTLP_ANY_DOUBLE:
                attribute->kind = ATTRIBUTE_DOUBLE;
                memcpy(&attribute->integer, &value->double_value, sizeof(attribute->integer));
                return 0;
        default:
                return import_other_value(import, value, &attribute->string);
        }
}

static int convert_attribute(Import *import, int32_t index, uint32_t *attributep) {
        const OtlpAttribute *row = import->dictionary->attribute_table[index];
        WindowAttribute attribute = { 0 };
        int r;

        r = import_string(import, "key_strindex", row->key_strindex, &attribute.key);
        if (!r)
                r = import_string(import, "unit_strindex", row->unit_strindex, &attribute.unit);
        if (!r)
                r = import_value(import, row->value, &attribute);
        return r ? r : import_full(import, window_attribute(import->window, &attribute, attributep));
}

static int import_attribute(Import *import, int32_t index, uint32_t *attributep) {
        return import_row(import, "attribute_indices", "attribute_table",
                          import->dictionary->n_attribute_table, import->attributes, convert_attribute, index,
                          attributep);
}

static int import_key_value(Import *import, const OtlpKeyValue *pair, uint32_t *attributep) {
        WindowAttribute attribute = { 0 };
        int r;

        if (pair->key_strindex)
                r = import_string(import, "key_strindex", pair->key_strindex, &attribute.key);
        else
                r = import_full(import,
                                window_string(import->window, pair->key, strlen(pair->key), &attribute.key));
        if (!r)
                r = import_value(import, pair->value, &attribute);
        return r ? r : import_full(import, window_attribute(import->window, &attribute, attributep));
}

static void take_build_id(const Import *import, uint32_t index, WindowModule *module) {
        const WindowAttribute *attribute = window_get_attribute(import->window, index);
        const char *key = window_get_string(import->window, attribute->key, NULL);

        if (!strcmp(key, "process.executable.build_id.gnu"))
                module->build_id_gnu = attribute->string;
        else if (!strcmp(key, "process.executable.build_id.go"))
                module->build_id_go = attribute->string;
        else if (!strcmp(key, "process.executable.build_id.htlhash"))
                module->build_id_htlhash = attribute->string;
}

static int convert_mapping(Import *import, int32_t index, uint32_t *modulep) {
        const OtlpMapping *row = import->dictionary->mapping_table[index];
        WindowModule module = { .start = row->memory_start,
                                .limit = row->memory_limit,
                                .offset = row->file_offset };
        int r;

        r = import_string(import, "filename_strindex", row->filename_strindex, &module.path);
        for (size_t i = 0; !r && i < row->n_attribute_indices; i++) {
                uint32_t attribute;

                r = import_attribute(import, row->attribute_indices[i], &attribute);
                if (!r)
                        take_build_id(import, attribute, &module);
        }
        return r ? r : import_full(import, window_module(import->window, &module, modulep));
}

static int convert_function(Import *import, int32_t index, uint32_t *functionp) {
        const OtlpFunction *row = import->dictionary->function_table[index];
        WindowFunction function = { .start_line = row->start_line };
        int r;

        r = import_string(import, "name_strindex", row->name_strindex, &function.name);
        if (!r)
                r = import_string(import, "system_name_strindex", row->system_name_strindex,
                                  &function.system_name);
        if (!r)
                r = import_string(import, "filename_strindex", row->filename_strindex, &function.filename);
        return r ? r : import_full(import, window_function(import->window, &function, functionp));
}

/* Reads the attributes that a frame has room for: its type, and how its code was made. */
static int frame_attributes(Import *import, const OtlpLocation *location, WindowFrame *frame) {
        for (size_t i = 0; i < location->n_attribute_indices; i++) {
                const WindowAttribute *row;
                uint32_t attribute;
                const char *key;
                int r;

                r = import_attribute(import, location->attribute_indices[i], &attribute);
                if (r)
                        return r;
                row = window_get_attribute(import->window, attribute);
                key = window_get_string(import->window, row->key, NULL);
                if (!strcmp(key, "profile.frame.type"))
                        frame->type = row->string;
                else if (!strcmp(key, "jvm.frame.compilation"))
                        frame->attribute = attribute;
        }
        return 0;
}

static int add_line(Import *import, WindowFrame frame, const OtlpLine *line, FrameWord *wordp) {
        int r;

        if (line) {
                r = import_row(import, "lines.function_index", "function_table",
                               import->dictionary->n_function_table, import->functions, convert_function,
                               line->function_index, &frame.function);
                if (r)
                        return r;
                frame.line = line->line;
        }
        return import_full(import, window_frame(import->window, &frame, wordp));
}

/* The callers of inlined code come after it, as in a stack. */
static int convert_location(Import *import, int32_t index, uint32_t *unusedp) {
        const OtlpLocation *row = import->dictionary->location_table[index];
        ImportLocation *location = &import->locations[index];
        WindowFrame frame = { .address = row->address };
        size_t n = MAX(row->n_lines, (size_t)1);
        int r;

        *unusedp = 0;
        r = import_row(import, "mapping_index", "mapping_table", import->dictionary->n_mapping_table,
                       import->mappings, convert_mapping, row->mapping_index, &frame.module);
        if (!r)
                r = frame_attributes(import, row, &frame);
        if (r)
                return r;
        location->words = calloc(n, sizeof(*location->words));
        if (!location->words)
                return error_origin(-ENOMEM);
        for (size_t i = 0; i < n; i++) {
                frame.is_inlined = i + 1 < n;
                r = add_line(import, frame, row->n_lines ? row->lines[i] : NULL, &location->words[i]);
                if (r)
                        return r;
        }
        location->n_words = n;
        return 0;
}

static int import_location(Import *import, int32_t index, const ImportLocation **locationp) {
        static FrameWord empty = FRAME_WORD_EMPTY;
        static const ImportLocation none = { &empty, 1 };
        uint32_t unused;
        int r;

        r = import_row(import, "location_indices", "location_table", import->dictionary->n_location_table,
                       import->locations_done, convert_location, index, &unused);
        if (!r)
                *locationp = index ? &import->locations[index] : &none;
        return r;
}

/* Adds the frames of one location to @words. */
static int add_frames(Import *import, int32_t index, FrameWord *words, size_t *n_wordsp) {
        const ImportLocation *location;
        int r;

        r = import_location(import, index, &location);
        if (r)
                return r;
        if (location->n_words > WINDOW_MAX_DEPTH - *n_wordsp)
                return import_full(import, WINDOW_E_FULL);
        memcpy(words + *n_wordsp, location->words, location->n_words * sizeof(*words));
        *n_wordsp += location->n_words;
        return 0;
}

static int convert_stack(Import *import, int32_t index, uint32_t *stackp) {
        const OtlpStack *row = import->dictionary->stack_table[index];
        size_t n = 0;

        for (size_t i = 0; i < row->n_location_indices; i++) {
                int r = add_frames(import, row->location_indices[i], import->words, &n);

                if (r)
                        return r;
        }
        return import_full(import, window_stack(import->window, import->words, n, stackp));
}

static int import_stack(Import *import, int32_t index, uint32_t *stackp) {
        return import_row(import, "stack_index", "stack_table", import->dictionary->n_stack_table,
                          import->stacks, convert_stack, index, stackp);
}

/* Resources, profiles and samples. */

static int import_link(Import *import, int32_t index, uint32_t *linkp) {
        const OtlpDictionary *dictionary = import->dictionary;
        const OtlpLink *link;
        WindowLink row;
        int r;

        if (!index) {
                *linkp = 0;
                return 0;
        }
        r = import_check_index(import, "link_index", index, dictionary->n_link_table);
        if (r)
                return r;
        link = dictionary->link_table[index];
        if (link->trace_id.len != sizeof(row.trace_id) || link->span_id.len != sizeof(row.span_id))
                return import_fail(import, OTLP_IMPORT_E_SHAPE,
                                   "dictionary.link_table[%" PRId32 "]: ids of %zu and %zu bytes", index,
                                   link->trace_id.len, link->span_id.len);
        memcpy(row.trace_id, link->trace_id.data, sizeof(row.trace_id));
        memcpy(row.span_id, link->span_id.data, sizeof(row.span_id));
        return import_full(import, window_link(import->window, &row, linkp));
}

static int import_attributes(Import *import, const OtlpSample *sample, uint32_t *setp) {
        uint32_t set[WINDOW_MAX_SET];

        if (sample->n_attribute_indices > ARRAY_SIZE(set))
                return import_full(import, WINDOW_E_FULL);
        for (size_t i = 0; i < sample->n_attribute_indices; i++) {
                int r = import_attribute(import, sample->attribute_indices[i], &set[i]);

                if (r)
                        return r;
        }
        return import_full(import,
                           window_attribute_set(import->window, set, sample->n_attribute_indices, setp));
}

/* Takes one value; times, each counting 1; or a value for each time. */
static int import_events(Import *import, const OtlpSample *sample, uint32_t profile, uint32_t stack,
                         uint32_t set, uint32_t link) {
        size_t n_values = sample->n_values, n_times = sample->n_timestamps_unix_nano;

        if (n_values == 1 && !n_times)
                return import_full(import, window_sample_untimed(import->window, profile, stack, set, link,
                                                                 sample->values[0]));
        if (!n_times || (n_values && n_values != n_times))
                return import_fail(import, OTLP_IMPORT_E_SHAPE, "%s: %zu values and %zu timestamps",
                                   import_path(import), n_values, n_times);
        for (size_t i = 0; i < n_times; i++) {
                int r = window_sample(import->window, profile, stack, set, link,
                                      n_values ? sample->values[i] : 1, sample->timestamps_unix_nano[i]);

                if (r)
                        return import_full(import, r);
        }
        return 0;
}

static int import_sample(Import *import, const OtlpSample *sample, uint32_t profile) {
        uint32_t stack, set, link;
        int r;

        r = import_stack(import, sample->stack_index, &stack);
        if (!r)
                r = import_attributes(import, sample, &set);
        if (!r)
                r = import_link(import, sample->link_index, &link);
        return r ? r : import_events(import, sample, profile, stack, set, link);
}

static int import_type(Import *import, const OtlpValueType *type, uint32_t *namep, uint32_t *unitp) {
        int r;

        *namep = *unitp = 0;
        if (!type)
                return 0;
        r = import_string(import, "type_strindex", type->type_strindex, namep);
        return r ? r : import_string(import, "unit_strindex", type->unit_strindex, unitp);
}

static int import_profile(Import *import, const OtlpProfile *profile, uint32_t resource) {
        uint32_t n = window_n_profiles(import->window), index;
        WindowProfileNames names;
        double before;
        int r;

        r = import_type(import, profile->sample_type, &names.type, &names.unit);
        if (!r)
                r = import_type(import, profile->period_type, &names.period_type, &names.period_unit);
        if (!r)
                r = import_full(
                        import,
                        window_profile_named(import->window, resource, &names, profile->period, &index));
        if (r)
                return r;
        if (index == n && profile->profile_id.len == 16)
                window_set_profile_id(import->window, index, profile->profile_id.data);
        before = window_get_profile(import->window, index)->total;
        for (size_t i = 0; i < profile->n_samples; i++) {
                import->at.sample = (ssize_t)i;
                r = import_sample(import, profile->samples[i], index);
                if (r)
                        return r;
        }
        import->at.sample = -1;
        window_mix_profile_period(import->window, index, before, profile->period);
        return 0;
}

/* Equal attributes make one resource. */
static uint64_t resource_key(const OtlpResource *resource, bool *failedp) {
        _cleanup_(freep) uint8_t *data = NULL;
        size_t size;

        if (!resource)
                return 0;
        size = protobuf_c_message_get_packed_size(&resource->base);
        data = malloc(size + 1);
        *failedp = !data;
        return data ? hash_bytes(data, protobuf_c_message_pack(&resource->base, data)) : 0;
}

static int import_resource(Import *import, const OtlpResource *resource, uint32_t *indexp) {
        uint32_t set[WINDOW_MAX_SET], n_before = window_n_resources(import->window);
        bool failed = false;
        int r;

        r = import_full(import, window_resource(import->window, resource_key(resource, &failed), indexp));
        if (failed)
                return error_origin(-ENOMEM);
        if (r || !resource || window_n_resources(import->window) == n_before)
                return r;
        if (resource->n_attributes > ARRAY_SIZE(set))
                return import_full(import, WINDOW_E_FULL);
        for (size_t i = 0; i < resource->n_attributes; i++) {
                r = import_key_value(import, resource->attributes[i], &set[i]);
                if (r)
                        return r;
        }
        return import_full(import,
                           window_resource_attributes(import->window, *indexp, set, resource->n_attributes));
}

static int import_resource_profiles(Import *import, const OtlpResourceProfiles *resource_profiles) {
        uint32_t resource;
        int r;

        r = import_resource(import, resource_profiles->resource, &resource);
        for (size_t i = 0; !r && i < resource_profiles->n_scope_profiles; i++) {
                const OtlpScopeProfiles *scope = resource_profiles->scope_profiles[i];

                for (size_t j = 0; !r && j < scope->n_profiles; j++) {
                        import->at.scope = (ssize_t)i;
                        import->at.profile = (ssize_t)j;
                        r = import_profile(import, scope->profiles[j], resource);
                }
                import->at.scope = import->at.profile = -1;
        }
        return r;
}

static int import_request(Window *window, const OtlpRequest *request, char *where, size_t where_size) {
        _cleanup_(import_deinit) Import import;
        int r;

        r = import_init(&import, window, request->dictionary, where, where_size);
        for (size_t i = 0; !r && i < request->n_resource_profiles; i++) {
                import.at.resource = (ssize_t)i;
                r = import_resource_profiles(&import, request->resource_profiles[i]);
        }
        return r;
}

static void widen(const OtlpResourceProfiles *resource, uint64_t *startp, uint64_t *endp) {
        for (size_t i = 0; i < resource->n_scope_profiles; i++) {
                for (size_t j = 0; j < resource->scope_profiles[i]->n_profiles; j++) {
                        const OtlpProfile *profile = resource->scope_profiles[i]->profiles[j];
                        uint64_t end_ns;

                        if (__builtin_add_overflow(profile->time_unix_nano, profile->duration_nano, &end_ns))
                                end_ns = UINT64_MAX;
                        *startp = MIN(*startp, profile->time_unix_nano);
                        *endp = MAX(*endp, end_ns);
                }
        }
}

int otlp_import_add(Window *window, const OtlpRequest *request, uint64_t *startp, uint64_t *endp, char *where,
                    size_t where_size) {
        if (where_size)
                where[0] = 0;
        *startp = UINT64_MAX;
        *endp = 0;
        for (size_t i = 0; i < request->n_resource_profiles; i++)
                widen(request->resource_profiles[i], startp, endp);
        return import_request(window, request, where, where_size);
}

/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Goes over a profile more than once, since its fields may come in any order, and turns samples
 * into events with one profile a column.
 */

#include "desk/pprof/pprof.h"

/*
 * A profile.proto is one message. Its samples name locations, those name functions and mappings, all by ids,
 * and every text is an index into the string table:
 *
 *     sample_type    cpu, nanoseconds            a column of each sample's values
 *     sample         location_id: 7 3, value: 10000000, label: …
 *     location       id: 7, mapping_id: 1, address: 0x401136, line: function_id: 4, line: 12
 *     function       id: 4, name: 9
 *     string_table   "", "samples", …            row 0 is empty
 *
 * Fields may come in any order, so the message is gone through more than once. The first pass notes where
 * strings and locations are. The second one makes rows of types, mappings and functions; then locations can
 * become frames, since the functions of their lines are known. The last one makes events of the samples. A
 * sample that names an unknown id is dropped and counted.
 *
 * Profiles of the CPU, ours and Go's, say each sample twice: how many, and the time that these stand for.
 * Where the one is the other times the period in every sample, it is read once, as the number: else a report
 * would have all tables twice, and a sum of both would count double. The writer makes the time again.
 */

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/data/cursor.h"
#include "core/base/data/hashmap.h"
#include "core/base/data/intern.h"
#include "core/base/data/protobuf.h"
#include "core/base/util/array.h"
#include "core/base/util/error.h"
#include "desk/pprof/pprof-fields.h"
#include "desk/pprof/prune.h"

enum { PPROF_MAX_COLUMNS = 64 };

typedef struct Bytes {
        const uint8_t *data;
        size_t size;
} Bytes;

typedef struct Mapping {
        uint32_t module;
        bool by_offset;                 /* addresses are of a process: file offsets are made of them */
        uint64_t start, offset;
} Mapping;

/* What drop_frames hides of a location, in a sample that has a frame which it does not hide above it. */
enum hidden {
        HIDES_NOTHING,
        HIDES_BELOW,                    /* all that it calls: its own inlined functions are gone already */
        HIDES_ALL,                      /* itself, too */
};

/* Frames of a location, innermost first: words[first … first + n). */
typedef struct Location {
        size_t first;
        uint32_t n;
        enum hidden hidden;
} Location;

/* A location in the stack of a sample. */
typedef struct Place {
        size_t first;                   /* its first word in the stack */
        enum hidden hidden;
} Place;

typedef struct Table {
        Hashmap ids;                    /* id → index + 1 */
        size_t n, room;
} Table;

/* The string table. */
typedef struct Texts {
        Bytes *rows;
        uint32_t *strings;              /* string of the window + 1; 0 = not made yet */
        size_t n, room;
} Texts;

/* Frames that drop_frames hides. */
typedef struct Hiding {
        uint64_t drop, keep;            /* strings with expressions */
        Prune *prune;                   /* NULL = none are hidden */
        bool *functions;                /* which ones */
        Place *places;                  /* of the sample that is read */
        size_t n_places, places_room, functions_room;
} Hiding;

typedef struct Parser {
        Window *window;
        Text *problem;
        PprofResult *result;
        uint64_t key;
        const uint8_t *begin;
        Texts texts;
        Bytes *locations_raw;
        Location *locations;
        uint32_t *functions;
        Mapping *mappings;
        Table location_ids, function_ids, mapping_ids;
        FrameWord *words, *stack;
        size_t n_words, words_room, stack_room;
        Hiding hiding;
        WindowProfileNames columns[PPROF_MAX_COLUMNS];      /* names of each column */
        uint32_t n_columns, counted, timed;     /* columns of the CPU: samples, and their time */
        uint64_t period_type, period_unit;
        int64_t period, time_ns, duration_ns;
        bool below_zero;                /* values below zero are kept */
        bool says_twice;                /* each sample's time is its number times the period */
} Parser;

static int full(int r) {
        return r == WINDOW_E_FULL ? PPROF_E_FULL : r;
}

/* Says that @what at @at is broken. Return: PPROF_E_MALFORMED. */
static int malformed(Parser *parser, const uint8_t *at, const char *what) {
        text_printf(parser->problem, "is pprof, but %s at byte %zu is damaged or cut off", what,
                    (size_t)(at - parser->begin));
        return PPROF_E_MALFORMED;
}

/* The fields of a message that are numbers, by their field numbers below @n. Return: 0, PPROF_E_MALFORMED. */
static int read_numbers(Parser *parser, const Field *message, uint64_t *numbers, size_t n, const char *what) {
        Cursor cursor = field_cursor(message);
        Field field;

        while (field_next(&cursor, &field))
                if (field.number < n)
                        numbers[field.number] = field.value;
        return cursor.failed ? malformed(parser, message->data, what) : 0;
}

static void read_type(const Field *field, uint64_t *typep, uint64_t *unitp) {
        Cursor cursor = field_cursor(field);
        Field inner;

        *typep = *unitp = 0;
        while (field_next(&cursor, &inner)) {
                if (inner.number == TYPE_TYPE)
                        *typep = inner.value;
                else if (inner.number == TYPE_UNIT)
                        *unitp = inner.value;
        }
}

/* Ids are any numbers; a second row with one id is not looked at. Return: 0, 1 = not wanted, -ENOMEM. */
static int add_id(Table *table, uint64_t id) {
        if (!id || hashmap_get(&table->ids, id))
                return 1;
        table->n++;
        return hashmap_put(&table->ids, id, (void *)(uintptr_t)table->n);
}

static bool find_id(const Table *table, uint64_t id, size_t *indexp) {
        uintptr_t index = (uintptr_t)hashmap_get(&table->ids, id);

        *indexp = index - 1;
        return index;
}

/* Rows of the window from the tables of a profile; strings when something first needs them. */

enum { BUILD_ID_MIN = 8 };              /* hex digits; less is no build id */

static int pprof_string(Parser *parser, uint64_t index, uint32_t *stringp) {
        const Bytes *text;
        int r;

        *stringp = 0;
        if (!index || index >= parser->texts.n)
                return 0;
        if (!parser->texts.strings[index]) {
                text = &parser->texts.rows[index];
                r = window_string(parser->window, (const char *)text->data, text->size,
                                  &parser->texts.strings[index]);
                if (r)
                        return full(r);
        }
        *stringp = parser->texts.strings[index];
        return 0;
}

static int add_column(Parser *parser, const Field *field) {
        WindowProfileNames *column = &parser->columns[parser->n_columns];
        uint64_t type, unit;
        int r;

        if (parser->n_columns == PPROF_MAX_COLUMNS)
                return malformed(parser, field->data, "a list of more than 64 value types");
        read_type(field, &type, &unit);
        r = pprof_string(parser, type, &column->type);
        r = r ? r : pprof_string(parser, unit, &column->unit);
        r = r ? r : pprof_string(parser, parser->period_type, &column->period_type);
        r = r ? r : pprof_string(parser, parser->period_unit, &column->period_unit);
        parser->n_columns += !r;
        return r;
}

static bool is_hex(const Bytes *text) {
        for (size_t i = 0; i < text->size; i++)
                if (!strchr("0123456789abcdef", text->data[i]) || !text->data[i])
                        return false;
        return text->size >= BUILD_ID_MIN;
}

/*
 * Adds a module. A build id in hexadecimal is GNU's; one with a slash is Go's. Programs give addresses of the
 * process. Ours, and those of position-dependent programs, are addresses of the file already: then offset and
 * start agree.
 */
static int add_mapping_row(Parser *parser, const uint64_t *fields) {
        const Bytes *id = fields[MAPPING_BUILD_ID] < parser->texts.n
                ? &parser->texts.rows[fields[MAPPING_BUILD_ID]]
                : NULL;
        uint64_t start = fields[MAPPING_START], limit = fields[MAPPING_LIMIT],
                 offset = fields[MAPPING_OFFSET];
        Mapping *mapping = &parser->mappings[parser->mapping_ids.n - 1];
        WindowModule module = { 0 };
        int r = pprof_string(parser, fields[MAPPING_FILE], &module.path);

        *mapping = (Mapping){ .start = start, .offset = offset, .by_offset = start >= UINT64_C(1) << 32 };
        if (!r && id && is_hex(id))
                r = pprof_string(parser, fields[MAPPING_BUILD_ID], &module.build_id_gnu);
        else if (!r && id)
                r = pprof_string(parser, fields[MAPPING_BUILD_ID], &module.build_id_go);
        module.start = mapping->by_offset ? offset : start;
        module.limit = limit == UINT64_MAX || limit < start ? 0 : module.start + (limit - start);
        module.offset = offset;
        if (!module.limit)
                module.start = 0;
        return r ? r : full(window_module(parser->window, &module, &mapping->module));
}

static int add_mapping(Parser *parser, const Field *message) {
        uint64_t fields[MAPPING_BUILD_ID + 1] = { 0 };
        Table *table = &parser->mapping_ids;
        int r = read_numbers(parser, message, fields, ARRAY_SIZE(fields), "the mapping");

        if (r)
                return r;
        r = array_reserve(&parser->mappings, &table->room, table->n + 1, 256);
        r = r ? r : add_id(table, fields[MAPPING_ID]);
        return r < 0 ? r : r ? 0 : add_mapping_row(parser, fields);
}

/* The last function that was added, and its name. */
static int note_hidden(Parser *parser, uint64_t name) {
        const Bytes *text = name && name < parser->texts.n ? &parser->texts.rows[name] : NULL;
        Hiding *hiding = &parser->hiding;
        size_t n = parser->function_ids.n;
        int r;

        if (!hiding->prune)
                return 0;
        r = array_reserve(&hiding->functions, &hiding->functions_room, n, 256);
        if (r)
                return r;
        r = text && text->size ? prune_matches(hiding->prune, (const char *)text->data, text->size) : 0;
        hiding->functions[n - 1] = r > 0;
        return MIN(r, 0);
}

static int add_function(Parser *parser, const Field *message) {
        uint64_t fields[FUNCTION_START + 1] = { 0 };
        Table *table = &parser->function_ids;
        WindowFunction function = { 0 };
        int r = read_numbers(parser, message, fields, ARRAY_SIZE(fields), "the function");

        if (r)
                return r;
        r = array_reserve(&parser->functions, &table->room, table->n + 1, 256);
        r = r ? r : add_id(table, fields[FUNCTION_ID]);
        if (r)
                return MIN(r, 0);
        r = pprof_string(parser, fields[FUNCTION_NAME], &function.name);
        r = r ? r : pprof_string(parser, fields[FUNCTION_SYSTEM_NAME], &function.system_name);
        r = r ? r : pprof_string(parser, fields[FUNCTION_FILE], &function.filename);
        function.start_line = (int64_t)fields[FUNCTION_START];
        r = r ? r : note_hidden(parser, fields[FUNCTION_NAME]);
        return r ? r
                 : full(window_function(parser->window, &function, &parser->functions[table->n - 1]));
}

/* ---- locations ---- */

static int put_word(Parser *parser, const WindowFrame *frame) {
        int r = array_reserve(&parser->words, &parser->words_room, parser->n_words + 1, 256);

        r = r ? r : full(window_frame(parser->window, frame, &parser->words[parser->n_words]));
        parser->n_words += !r;
        return r;
}

static int put_line(Parser *parser, const Field *message, WindowFrame *frame, bool *hiddenp) {
        uint64_t fields[LINE_LINE + 1] = { 0 };
        bool is_known;
        size_t index;
        int r = read_numbers(parser, message, fields, ARRAY_SIZE(fields), "the line");

        if (r)
                return r;
        is_known = find_id(&parser->function_ids, fields[LINE_FUNCTION], &index);
        frame->function = is_known ? parser->functions[index] : 0;
        *hiddenp = is_known && parser->hiding.prune && parser->hiding.functions[index];
        frame->line = (int64_t)fields[LINE_LINE];
        return put_word(parser, frame);
}

static int set_address(Parser *parser, uint64_t mapping_id, uint64_t address, WindowFrame *frame) {
        const Mapping *mapping;
        size_t index;

        frame->address = address;
        if (!find_id(&parser->mapping_ids, mapping_id, &index))
                return 0;
        mapping = &parser->mappings[index];
        frame->module = mapping->module;
        if (mapping->by_offset && mapping->module)
                frame->address = address - mapping->start + mapping->offset;
        return full(window_string(parser->window, "native", 6, &frame->type));
}

static bool is_line(const Field *field) {
        return field->number == LOCATION_LINE && field->wire == WIRE_BYTES;
}

/* @end: words up to the outermost function that is hidden; 0 = none is. What it calls inline goes with it. */
static void cut_location(Parser *parser, Location *location, size_t end) {
        location->hidden = !end ? HIDES_NOTHING : end == parser->n_words ? HIDES_ALL : HIDES_BELOW;
        if (location->hidden == HIDES_BELOW)
                location->first = end;
        location->n = (uint32_t)(parser->n_words - location->first);
}

/*
 * Lines refer to mapping and address, which may come behind them. All but the last are inlined into the next.
 */
static int make_location(Parser *parser, const Bytes *message, Location *location) {
        Cursor cursor = cursor_make(message->data, message->size), again = cursor;
        uint64_t mapping = 0, address = 0, n_left = 0;
        WindowFrame frame = { 0 };
        size_t hidden_end = 0;
        bool is_hidden;
        Field field;
        int r;

        while (field_next(&cursor, &field)) {
                if (field.number == LOCATION_MAPPING)
                        mapping = field.value;
                else if (field.number == LOCATION_ADDRESS)
                        address = field.value;
                n_left += is_line(&field);
        }
        location->first = parser->n_words;
        r = cursor.failed ? malformed(parser, message->data, "the location")
                          : set_address(parser, mapping, address, &frame);
        while (!r && field_next(&again, &field)) {
                if (!is_line(&field))
                        continue;
                frame.is_inlined = --n_left > 0;
                r = put_line(parser, &field, &frame, &is_hidden);
                if (!r && is_hidden)
                        hidden_end = parser->n_words;
        }
        if (!r && parser->n_words == location->first)
                r = put_word(parser, &frame);
        cut_location(parser, location, hidden_end);
        return r;
}

static int make_locations(Parser *parser) {
        int r = 0;

        parser->locations = calloc(parser->location_ids.n + 1, sizeof(*parser->locations));
        if (!parser->locations)
                return error_origin(-ENOMEM);
        for (size_t i = 0; i < parser->location_ids.n && !r; i++)
                r = make_location(parser, &parser->locations_raw[i], &parser->locations[i]);
        return r;
}

/* Events of the window from the samples. */

enum { MAX_FRAMES = WINDOW_MAX_DEPTH };

typedef struct Sample {
        uint64_t values[PPROF_MAX_COLUMNS];
        size_t n_values, n_frames;
        uint32_t attributes[WINDOW_MAX_SET], own[2];    /* own: of the resource */
        size_t n_attributes, n_own;
        WindowLink link;
        bool bad;                       /* refers to what is not there */
        bool deep;                      /* has more frames than a stack may have */
} Sample;

/* A number of a repeated field that is packed: @rest holds what is left of it. */
static bool next_number(Cursor *rest, uint64_t *valuep) {
        if (!cursor_left(rest))
                return false;
        *valuep = cursor_varint(rest);
        return !rest->failed;
}

static int add_place(Parser *parser, const Location *location, size_t first) {
        Hiding *hiding = &parser->hiding;
        int r;

        if (!hiding->prune)
                return 0;
        r = array_reserve(&hiding->places, &hiding->places_room, hiding->n_places + 1, 64);
        if (!r)
                hiding->places[hiding->n_places++] = (Place){ first, location->hidden };
        return r;
}

/* From the root on: nothing is hidden above the first function that is not, else a stack could be empty. */
static void hide_frames(Parser *parser, Sample *sample) {
        const Hiding *hiding = &parser->hiding;
        bool is_shown = false;
        size_t first = 0;

        for (size_t i = hiding->n_places; i-- > 0 && !first;) {
                const Place *place = &hiding->places[i];

                if (place->hidden == HIDES_NOTHING)
                        is_shown = true;
                else if (is_shown)
                        first = place->hidden == HIDES_BELOW ? place->first : hiding->places[i + 1].first;
        }
        if (first)
                memmove(parser->stack, parser->stack + first,
                        (sample->n_frames - first) * sizeof(*parser->stack));
        sample->n_frames -= first;
}

static int add_frames(Parser *parser, Sample *sample, uint64_t id) {
        const Location *location;
        size_t index;
        int r;

        if (!find_id(&parser->location_ids, id, &index)) {
                sample->bad = true;
                return 0;
        }
        location = &parser->locations[index];
        if (sample->n_frames + location->n > MAX_FRAMES) {
                parser->result->n_deep += !sample->deep;
                sample->deep = true;
                return 0;
        }
        r = array_reserve(&parser->stack, &parser->stack_room, sample->n_frames + location->n, 256);
        r = r ? r : add_place(parser, location, sample->n_frames);
        if (!r && location->n)
                memcpy(parser->stack + sample->n_frames, parser->words + location->first,
                       location->n * sizeof(*parser->words));
        sample->n_frames += r ? 0 : location->n;
        return r;
}

static void add_value(Sample *sample, uint64_t value) {
        if (sample->n_values < PPROF_MAX_COLUMNS)
                sample->values[sample->n_values] = value;
        sample->n_values++;
}

/* ---- labels ---- */

static bool is_text(const Parser *parser, uint64_t index, const char *text) {
        return index < parser->texts.n && parser->texts.rows[index].size == strlen(text) &&
               !memcmp(parser->texts.rows[index].data, text, strlen(text));
}

static bool take_id(const Parser *parser, uint64_t index, uint8_t *to, size_t size) {
        const Bytes *text = index < parser->texts.n ? &parser->texts.rows[index] : NULL;

        if (!text || text->size != 2 * size)
                return false;
        for (size_t i = 0; i < size; i++) {
                uint64_t byte;

                if (text_hex((const char *)text->data + 2 * i, (const char *)text->data + 2 * i + 2, &byte))
                        return false;
                to[i] = (uint8_t)byte;
        }
        return true;
}

/* Labels that are ours, or that name what OTLP has a place of its own for. */
static bool take_link(const Parser *parser, Sample *sample, const uint64_t *fields) {
        if (is_text(parser, fields[LABEL_KEY], "trace_id"))
                return take_id(parser, fields[LABEL_TEXT], sample->link.trace_id,
                               sizeof(sample->link.trace_id));
        return is_text(parser, fields[LABEL_KEY], "span_id") &&
               take_id(parser, fields[LABEL_TEXT], sample->link.span_id, sizeof(sample->link.span_id));
}

static int make_attribute(Parser *parser, const uint64_t *fields, uint32_t *indexp) {
        WindowAttribute attribute = { .kind = fields[LABEL_TEXT] ? ATTRIBUTE_STRING : ATTRIBUTE_INT };
        int r = pprof_string(parser, fields[LABEL_KEY], &attribute.key);

        r = r ? r : pprof_string(parser, fields[LABEL_UNIT], &attribute.unit);
        r = r ? r : pprof_string(parser, fields[LABEL_TEXT], &attribute.string);
        if (!fields[LABEL_TEXT])
                attribute.integer = (int64_t)fields[LABEL_NUMBER];
        return r ? r : full(window_attribute(parser->window, &attribute, indexp));
}

static int add_label(Parser *parser, Sample *sample, const Field *message) {
        uint64_t fields[LABEL_UNIT + 1] = { 0 };
        uint32_t attribute;
        bool own;
        int r = read_numbers(parser, message, fields, ARRAY_SIZE(fields), "the label");

        if (r)
                return r;
        if (!fields[LABEL_KEY] || fields[LABEL_KEY] >= parser->texts.n || take_link(parser, sample, fields))
                return 0;
        own = is_text(parser, fields[LABEL_KEY], "process.pid") ||
                is_text(parser, fields[LABEL_KEY], "service.name");
        if (own ? sample->n_own == ARRAY_SIZE(sample->own) : sample->n_attributes == WINDOW_MAX_SET) {
                parser->result->n_labels_cut++;
                return 0;
        }
        r = make_attribute(parser, fields, &attribute);
        if (!r && own)
                sample->own[sample->n_own++] = attribute;
        else if (!r)
                sample->attributes[sample->n_attributes++] = attribute;
        return r;
}

/* ---- events ---- */

static int take_sample_field(Parser *parser, Sample *sample, const Field *field) {
        bool packed = field->wire == WIRE_BYTES;
        Cursor rest = cursor_make(field->data, packed ? field->size : 0);
        uint64_t value = field->value;
        int r = 0;

        if (field->number == SAMPLE_LABEL)
                return packed ? add_label(parser, sample, field) : 0;
        if (field->number > SAMPLE_LABEL)
                return 0;
        while (!r && (packed ? next_number(&rest, &value) : true)) {
                if (field->number == SAMPLE_LOCATION)
                        r = add_frames(parser, sample, value);
                else
                        add_value(sample, value);
                if (!packed)
                        break;
        }
        return r ? r : rest.failed ? malformed(parser, field->data, "a list") : 0;
}

static int find_resource(Parser *parser, const Sample *sample, uint32_t *resourcep) {
        uint32_t n = window_n_resources(parser->window);
        uint64_t key[4] = { parser->key, sample->n_own, sample->n_own ? sample->own[0] : 0,
                            sample->n_own > 1 ? sample->own[1] : 0 };
        int r = window_resource(parser->window, hash_bytes(key, sizeof(key)), resourcep);

        if (!r && *resourcep == n && sample->n_own)
                r = window_resource_attributes(parser->window, *resourcep, sample->own, sample->n_own);
        return full(r);
}

/* Zeros of other columns are no events, and the time of samples that are counted says nothing more. */
static int put_values(Parser *parser, const Sample *sample, uint32_t resource, uint32_t stack, uint32_t set,
                      uint32_t link) {
        for (uint32_t i = 0; i < MIN(sample->n_values, (size_t)parser->n_columns); i++) {
                uint32_t profile;
                int r;

                if (!sample->values[i] || (parser->says_twice && i == parser->timed))
                        continue;
                if ((int64_t)sample->values[i] < 0 && !parser->below_zero) {
                        parser->result->n_negative++;
                        continue;
                }
                r = window_profile_named(parser->window, resource, &parser->columns[i], parser->period,
                                         &profile);
                if (!r)
                        r = window_sample_untimed(parser->window, profile, stack, set, link,
                                                  (int64_t)sample->values[i]);
                if (r)
                        return full(r);
        }
        return 0;
}

static int put_sample(Parser *parser, const Sample *sample) {
        uint32_t resource, stack, set, link;
        int r = find_resource(parser, sample, &resource);

        r = r ? r : full(window_stack(parser->window, parser->stack, sample->n_frames, &stack));
        r = r ? r
              : full(
                        window_attribute_set(parser->window, sample->attributes, sample->n_attributes, &set));
        r = r ? r : full(window_link(parser->window, &sample->link, &link));
        return r ? r : put_values(parser, sample, resource, stack, set, link);
}

static int add_sample(Parser *parser, const Field *message) {
        Cursor cursor = field_cursor(message);
        Sample sample;
        Field field;
        int r = 0;

        sample.n_values = sample.n_frames = sample.n_attributes = sample.n_own = 0;
        memset(&sample.link, 0, sizeof(sample.link));
        sample.bad = sample.deep = false;
        parser->hiding.n_places = 0;
        while (!r && field_next(&cursor, &field))
                r = take_sample_field(parser, &sample, &field);
        if (r || cursor.failed)
                return r ? r : malformed(parser, message->data, "the sample");
        if (sample.bad || sample.n_values != parser->n_columns) {
                parser->result->n_dropped++;
                return 0;
        }
        if (sample.deep)
                return 0;
        parser->result->n_samples++;
        hide_frames(parser, &sample);
        return put_sample(parser, &sample);
}

/* ---- columns that say the same ---- */

static bool names_are(const Parser *parser, uint32_t type, uint32_t unit, const char *type_text,
                      const char *unit_text) {
        return !strcmp(window_get_string(parser->window, type, NULL), type_text) &&
                !strcmp(window_get_string(parser->window, unit, NULL), unit_text);
}

/* Looks for samples/count and cpu/nanoseconds with a period of CPU time. */
static bool find_pair(Parser *parser) {
        uint32_t n = parser->n_columns;

        parser->counted = parser->timed = n;
        for (uint32_t i = 0; i < n; i++) {
                const WindowProfileNames *column = &parser->columns[i];

                if (!names_are(parser, column->period_type, column->period_unit, "cpu", "nanoseconds"))
                        return false;
                if (names_are(parser, column->type, column->unit, "samples", "count"))
                        parser->counted = i;
                else if (names_are(parser, column->type, column->unit, "cpu", "nanoseconds"))
                        parser->timed = i;
        }
        return parser->counted < n && parser->timed < n && parser->period > 0;
}

static void read_values(const Field *field, Sample *sample) {
        Cursor rest = cursor_make(field->data, field->wire == WIRE_BYTES ? field->size : 0);
        uint64_t value = field->value;

        if (field->number != SAMPLE_VALUE)
                return;
        if (field->wire != WIRE_BYTES)
                add_value(sample, value);
        while (field->wire == WIRE_BYTES && next_number(&rest, &value))
                add_value(sample, value);
}

/* A sample that disagrees clears says_twice. One that is broken is another pass's to tell. */
static int compare_columns(Parser *parser, const Field *message) {
        Cursor cursor = field_cursor(message);
        Sample sample;
        Field field;
        uint64_t time;

        if (message->number != PROFILE_SAMPLE || message->wire != WIRE_BYTES || !parser->says_twice)
                return 0;
        sample.n_values = 0;
        while (field_next(&cursor, &field))
                read_values(&field, &sample);
        if (sample.n_values != parser->n_columns)
                return 0;
        if (__builtin_mul_overflow(sample.values[parser->counted], (uint64_t)parser->period, &time) ||
            time != sample.values[parser->timed])
                parser->says_twice = false;
        return 0;
}

/* The whole profile. */

/* ---- first pass: where things are ---- */

static int note_text(Parser *parser, const Field *field) {
        int r = array_reserve(&parser->texts.rows, &parser->texts.room, parser->texts.n + 1, 256);

        if (!r)
                parser->texts.rows[parser->texts.n++] = (Bytes){ field->data, field->size };
        return r;
}

static uint64_t read_id(const Field *message, unsigned number) {
        Cursor cursor = field_cursor(message);
        Field field;
        uint64_t id = 0;

        while (field_next(&cursor, &field))
                if (field.number == number && field.wire == WIRE_VARINT)
                        id = field.value;
        return cursor.failed ? 0 : id;
}

static int note_location(Parser *parser, const Field *field) {
        Table *table = &parser->location_ids;
        int r = array_reserve(&parser->locations_raw, &table->room, table->n + 1, 256);

        if (!r)
                r = add_id(table, read_id(field, LOCATION_ID));
        if (!r)
                parser->locations_raw[table->n - 1] = (Bytes){ field->data, field->size };
        return MIN(r, 0);
}

static int note_field(Parser *parser, const Field *field) {
        bool bytes = field->wire == WIRE_BYTES;

        if (field->number == PROFILE_STRING && bytes)
                return note_text(parser, field);
        if (field->number == PROFILE_LOCATION && bytes)
                return note_location(parser, field);
        if (field->number == PROFILE_PERIOD_TYPE && bytes)
                read_type(field, &parser->period_type, &parser->period_unit);
        if (bytes || field->wire != WIRE_VARINT)
                return 0;
        if (field->number == PROFILE_DROP_FRAMES)
                parser->hiding.drop = field->value;
        else if (field->number == PROFILE_KEEP_FRAMES)
                parser->hiding.keep = field->value;
        else if (field->number == PROFILE_PERIOD)
                parser->period = (int64_t)field->value;
        else if (field->number == PROFILE_TIME)
                parser->time_ns = (int64_t)field->value;
        else if (field->number == PROFILE_DURATION)
                parser->duration_ns = (int64_t)field->value;
        return 0;
}

/* ---- all passes ---- */

/* Return: 0, PPROF_E_*, -ENOMEM, or what @take returned. */
static int each_field(Parser *parser, Bytes message, int (*take_field)(Parser *parser, const Field *field)) {
        Cursor cursor = cursor_make(message.data, message.size);
        Field field;
        int r = 0;

        while (!r && field_next(&cursor, &field))
                r = take_field(parser, &field);
        return r ? r : cursor.failed ? malformed(parser, message.data + cursor.at, "what begins") : 0;
}

static int take_row(Parser *parser, const Field *field) {
        if (field->wire != WIRE_BYTES)
                return 0;
        if (field->number == PROFILE_SAMPLE_TYPE)
                return add_column(parser, field);
        if (field->number == PROFILE_MAPPING)
                return add_mapping(parser, field);
        return field->number == PROFILE_FUNCTION ? add_function(parser, field) : 0;
}

static int take_samples(Parser *parser, const Field *field) {
        return field->number == PROFILE_SAMPLE && field->wire == WIRE_BYTES ? add_sample(parser, field)
                                                                             : 0;
}

static void set_times(const Parser *parser, PprofResult *result) {
        if (parser->time_ns <= 0)
                return;
        result->start_ns = (uint64_t)parser->time_ns;
        result->end_ns = result->start_ns + (parser->duration_ns > 0 ? (uint64_t)parser->duration_ns : 1);
}

/* Expressions alone say nothing: without drop_frames, keep_frames has nothing to keep. */
static int find_hiding(Parser *parser) {
        static const Bytes none;
        Hiding *hiding = &parser->hiding;
        const Bytes *drop = hiding->drop < parser->texts.n ? &parser->texts.rows[hiding->drop] : &none;
        const Bytes *keep = hiding->keep < parser->texts.n ? &parser->texts.rows[hiding->keep] : &none;
        int r;

        if (!drop->size)
                return 0;
        r = prune_new(&hiding->prune, (const char *)drop->data, drop->size, (const char *)keep->data,
                      keep->size);
        parser->result->hides_unknown = r > 0;
        return MIN(r, 0);
}

/*
 * A file that was cut off has samples and, as tables come behind them, none of its names: the first pass goes
 * as far as it can, and what it has found is used.
 */
static int parse(Parser *parser, Bytes message) {
        int first = each_field(parser, message, note_field), r = MIN(first, 0);
        Text ignored = { 0 };
        Text *problem = parser->problem;

        parser->texts.strings = calloc(parser->texts.n + 1, sizeof(*parser->texts.strings));
        if (!parser->texts.strings)
                r = error_origin(-ENOMEM);
        if (first > 0)
                parser->problem = &ignored;     /* the first problem is the one to tell */
        r = r ? r : find_hiding(parser);
        r = r ? r : each_field(parser, message, take_row);
        if (!r || (r == PPROF_E_MALFORMED && first > 0)) {
                r = make_locations(parser);
                parser->says_twice = !r && find_pair(parser);
                if (parser->says_twice)
                        each_field(parser, message, compare_columns);
                r = r ? r : each_field(parser, message, take_samples);
        }
        parser->problem = problem;
        text_deinit(&ignored);
        return r < 0 ? r : first ? first : r;
}

static void parser_deinit(Parser *parser) {
        free(parser->texts.rows);
        free(parser->texts.strings);
        free(parser->locations_raw);
        free(parser->locations);
        free(parser->functions);
        free(parser->mappings);
        free(parser->words);
        free(parser->stack);
        free(parser->hiding.functions);
        free(parser->hiding.places);
        prune_free(parser->hiding.prune);
        hashmap_deinit(&parser->location_ids.ids);
        hashmap_deinit(&parser->function_ids.ids);
        hashmap_deinit(&parser->mapping_ids.ids);
}

int pprof_import(Window *window, const uint8_t *data, size_t size, uint64_t key, bool below_zero,
                 PprofResult *result, Text *problem) {
        Parser parser = { .window = window, .problem = problem, .result = result,
                          .key = key, .begin = data, .below_zero = below_zero };
        int r;

        *result = (PprofResult){ 0 };
        r = parse(&parser, (Bytes){ data, size });
        set_times(&parser, result);
        parser_deinit(&parser);
        if (r == PPROF_E_FULL)
                text_printf(problem, "holds more than a profile can: what came first is in it");
        return r;
}

/* ---- recognizing ---- */

static bool is_type(const Field *field) {
        return field->size && field->size <= 22 &&
                (field->data[0] == TYPE_TYPE << 3 || field->data[0] == TYPE_UNIT << 3);
}

static bool is_known_field(const Field *field) {
        bool message = field->number <= PROFILE_STRING || field->number == PROFILE_PERIOD_TYPE;

        return field->number <= PROFILE_DEFAULT_TYPE && field->wire == (message ? WIRE_BYTES : WIRE_VARINT);
}

/*
 * Whether the bytes are pprof and not OTLP. Field 1 of both is a message; pprof's has a type and a unit,
 * which are two small numbers. The numbers of other fields tell the forms apart.
 */
bool pprof_recognize(const uint8_t *data, size_t size) {
        Cursor cursor = cursor_make(data, size);
        unsigned n_own = 0;
        Field field;

        while (field_next(&cursor, &field)) {
                if (!is_known_field(&field))
                        return false;
                if (field.number == PROFILE_SAMPLE_TYPE)
                        return is_type(&field);
                n_own += field.number > PROFILE_SAMPLE;
        }
        return n_own > 1;
}

/* SPDX-License-Identifier: Apache-2.0 */
#include "formats/pprof/pprof-private.h"

#include <errno.h>
#include <stdlib.h>

#include "base/util/error.h"

/* ---- first pass: where things are ---- */

static int note_text(Parser *parser, const Field *field) {
        int r = pprof_grow((void **)&parser->texts, &parser->texts_room, parser->n_texts,
                           sizeof(*parser->texts));

        if (!r)
                parser->texts[parser->n_texts++] = (Bytes){ field->data, field->size };
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
        int r = pprof_grow((void **)&parser->locations_raw, &table->room, table->n,
                           sizeof(*parser->locations_raw));

        if (!r)
                r = pprof_add_id(table, read_id(field, LOCATION_ID));
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
                pprof_read_type(field, &parser->period_type, &parser->period_unit);
        if (bytes || field->wire != WIRE_VARINT)
                return 0;
        if (field->number == PROFILE_PERIOD)
                parser->period = (int64_t)field->value;
        else if (field->number == PROFILE_TIME)
                parser->time_ns = (int64_t)field->value;
        else if (field->number == PROFILE_DURATION)
                parser->duration_ns = (int64_t)field->value;
        return 0;
}

/* ---- both passes ---- */

/* Return: 0, PPROF_E_*, -ENOMEM, or what @take returned. */
static int each_field(Parser *parser, Bytes message, int (*take_field)(Parser *parser, const Field *field)) {
        Cursor cursor = cursor_make(message.data, message.size);
        Field field;
        int r = 0;

        while (!r && field_next(&cursor, &field))
                r = take_field(parser, &field);
        return r ? r : cursor.failed ? pprof_malformed(parser, message.data + cursor.at, "what begins") : 0;
}

static int take_row(Parser *parser, const Field *field) {
        if (field->wire != WIRE_BYTES)
                return 0;
        if (field->number == PROFILE_SAMPLE_TYPE)
                return pprof_add_column(parser, field);
        if (field->number == PROFILE_MAPPING)
                return pprof_add_mapping(parser, field);
        return field->number == PROFILE_FUNCTION ? pprof_add_function(parser, field) : 0;
}

static int take_samples(Parser *parser, const Field *field) {
        return field->number == PROFILE_SAMPLE && field->wire == WIRE_BYTES ? pprof_add_sample(parser, field)
                                                                             : 0;
}

static void set_times(const Parser *parser, PprofResult *result) {
        if (parser->time_ns <= 0)
                return;
        result->start_ns = (uint64_t)parser->time_ns;
        result->end_ns = result->start_ns + (parser->duration_ns > 0 ? (uint64_t)parser->duration_ns : 1);
}

/*
 * A file that was cut off has samples and, as tables come behind them, none of its names: the first pass goes
 * as far as it can, and what it has found is used.
 */
static int parse(Parser *parser, Bytes message) {
        int first = each_field(parser, message, note_field), r = MIN(first, 0);
        Text ignored = { 0 };
        Text *problem = parser->problem;

        parser->strings = calloc(parser->n_texts + 1, sizeof(*parser->strings));
        if (!parser->strings)
                r = error_origin(-ENOMEM);
        if (first > 0)
                parser->problem = &ignored;     /* the first problem is the one to tell */
        r = r ? r : each_field(parser, message, take_row);
        if (!r || (r == PPROF_E_MALFORMED && first > 0)) {
                r = pprof_make_locations(parser);
                r = r ? r : each_field(parser, message, take_samples);
        }
        parser->problem = problem;
        text_deinit(&ignored);
        return r < 0 ? r : first ? first : r;
}

static void parser_deinit(Parser *parser) {
        free(parser->texts);
        free(parser->strings);
        free(parser->locations_raw);
        free(parser->locations);
        free(parser->functions);
        free(parser->mappings);
        free(parser->words);
        free(parser->stack);
        hashmap_deinit(&parser->location_ids.ids);
        hashmap_deinit(&parser->function_ids.ids);
        hashmap_deinit(&parser->mapping_ids.ids);
}

int pprof_import(Window *window, const uint8_t *data, size_t size, uint64_t key, PprofResult *result,
                 Text *problem) {
        Parser parser = { .window = window, .problem = problem, .result = result, .key = key, .begin = data };
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
 * What both have is a message in field 1: a type and a unit here, which are two small numbers. All else tells
 * by its number.
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

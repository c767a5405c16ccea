/* SPDX-License-Identifier: Apache-2.0 */

/* Rows of the window from the tables of a profile; strings when something first needs them. */

#include "formats/pprof/pprof-private.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/util/error.h"

enum { BUILD_ID_MIN = 8 };              /* hex digits; less is no build id */

int pprof_string(Parser *parser, uint64_t index, uint32_t *stringp) {
        const Bytes *text;
        int r;

        *stringp = 0;
        if (!index || index >= parser->n_texts)
                return 0;
        if (!parser->strings[index]) {
                text = &parser->texts[index];
                r = window_string(parser->window, (const char *)text->data, text->size,
                                  &parser->strings[index]);
                if (r)
                        return pprof_full(r);
        }
        *stringp = parser->strings[index];
        return 0;
}

int pprof_add_column(Parser *parser, const Field *field) {
        WindowProfileNames *column = &parser->columns[parser->n_columns];
        uint64_t type, unit;
        int r;

        if (parser->n_columns == PPROF_MAX_COLUMNS)
                return pprof_malformed(parser, field->data, "a list of more than 64 value types");
        pprof_read_type(field, &type, &unit);
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
 * Which of our kinds of build id it is, shows its form: a slash is Go's. Programs give addresses of the
 * process; ours (and those of position-dependent programs) are already those of the file, then offset and
 * start agree.
 */
static int add_mapping_row(Parser *parser, const uint64_t *fields) {
        const Bytes *id = fields[MAPPING_BUILD_ID] < parser->n_texts
                ? &parser->texts[fields[MAPPING_BUILD_ID]]
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
        return r ? r : pprof_full(window_module(parser->window, &module, &mapping->module));
}

int pprof_add_mapping(Parser *parser, const Field *message) {
        uint64_t fields[MAPPING_BUILD_ID + 1] = { 0 };
        Table *table = &parser->mapping_ids;
        int r = pprof_read_numbers(parser, message, fields, ARRAY_SIZE(fields), "the mapping");

        if (r)
                return r;
        r = pprof_grow((void **)&parser->mappings, &table->room, table->n, sizeof(*parser->mappings));
        r = r ? r : pprof_add_id(table, fields[MAPPING_ID]);
        return r < 0 ? r : r ? 0 : add_mapping_row(parser, fields);
}

int pprof_add_function(Parser *parser, const Field *message) {
        uint64_t fields[FUNCTION_START + 1] = { 0 };
        Table *table = &parser->function_ids;
        WindowFunction function = { 0 };
        int r = pprof_read_numbers(parser, message, fields, ARRAY_SIZE(fields), "the function");

        if (r)
                return r;
        r = pprof_grow((void **)&parser->functions, &table->room, table->n, sizeof(*parser->functions));
        r = r ? r : pprof_add_id(table, fields[FUNCTION_ID]);
        if (r)
                return MIN(r, 0);
        r = pprof_string(parser, fields[FUNCTION_NAME], &function.name);
        r = r ? r : pprof_string(parser, fields[FUNCTION_SYSTEM_NAME], &function.system_name);
        r = r ? r : pprof_string(parser, fields[FUNCTION_FILE], &function.filename);
        function.start_line = (int64_t)fields[FUNCTION_START];
        return r ? r
                 : pprof_full(window_function(parser->window, &function, &parser->functions[table->n - 1]));
}

/* ---- locations ---- */

static int put_word(Parser *parser, const WindowFrame *frame) {
        int r = pprof_grow((void **)&parser->words, &parser->words_room, parser->n_words,
                           sizeof(*parser->words));

        r = r ? r : pprof_full(window_frame(parser->window, frame, &parser->words[parser->n_words]));
        parser->n_words += !r;
        return r;
}

static int put_line(Parser *parser, const Field *message, WindowFrame *frame) {
        uint64_t fields[LINE_LINE + 1] = { 0 };
        size_t index;
        int r = pprof_read_numbers(parser, message, fields, ARRAY_SIZE(fields), "the line");

        if (r)
                return r;
        frame->function = pprof_find_id(&parser->function_ids, fields[LINE_FUNCTION], &index)
                ? parser->functions[index]
                : 0;
        frame->line = (int64_t)fields[LINE_LINE];
        return put_word(parser, frame);
}

static int set_address(Parser *parser, uint64_t mapping_id, uint64_t address, WindowFrame *frame) {
        const Mapping *mapping;
        size_t index;

        frame->address = address;
        if (!pprof_find_id(&parser->mapping_ids, mapping_id, &index))
                return 0;
        mapping = &parser->mappings[index];
        frame->module = mapping->module;
        if (mapping->by_offset && mapping->module)
                frame->address = address - mapping->start + mapping->offset;
        return pprof_full(window_string(parser->window, "native", 6, &frame->type));
}

/* Lines refer to mapping and address, which may come behind them. */
static int make_location(Parser *parser, const Bytes *message, Location *location) {
        Cursor cursor = cursor_make(message->data, message->size), again = cursor;
        uint64_t mapping = 0, address = 0;
        WindowFrame frame = { 0 };
        Field field;
        int r;

        while (field_next(&cursor, &field)) {
                if (field.number == LOCATION_MAPPING)
                        mapping = field.value;
                else if (field.number == LOCATION_ADDRESS)
                        address = field.value;
        }
        location->first = parser->n_words;
        r = cursor.failed ? pprof_malformed(parser, message->data, "the location")
                          : set_address(parser, mapping, address, &frame);
        while (!r && field_next(&again, &field))
                if (field.number == LOCATION_LINE && field.wire == WIRE_BYTES)
                        r = put_line(parser, &field, &frame);
        if (!r && parser->n_words == location->first)
                r = put_word(parser, &frame);
        location->n = (uint32_t)(parser->n_words - location->first);
        return r;
}

int pprof_make_locations(Parser *parser) {
        int r = 0;

        parser->locations = calloc(parser->location_ids.n + 1, sizeof(*parser->locations));
        if (!parser->locations)
                return error_origin(-ENOMEM);
        for (size_t i = 0; i < parser->location_ids.n && !r; i++)
                r = make_location(parser, &parser->locations_raw[i], &parser->locations[i]);
        return r;
}

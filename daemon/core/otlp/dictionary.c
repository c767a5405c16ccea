/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Where most stacks are new, locations and the stacks' indexes of them are two thirds of a packed request.
 * dictionary_arrange() gives locations the numbers that take least. The number of bytes of an index comes
 * first: the 127 that stacks name most take one byte each, the next 16,256 two. Within such a class they
 * stand by mapping, type and address:
 *
 *     in order of first use               by address
 *     10 02 18 f3 91 12 …                 10 02 18 a0 91 12 …
 *     10 01 18 c4 e7 05 …                 10 02 18 f3 91 12 …      all but the low bits are those of the
 *     10 02 18 a0 91 12 …                 10 02 18 b1 92 12 …      row before, so gzip has one match for them
 *
 * (a varint begins with its low bits.) A numbering by count alone has no fewer bytes, so a request that fits
 * still does.
 */
#include "core/otlp/dictionary.h"

#include <errno.h>
#include <stdlib.h>

#include "core/base/util/array.h"
#include "core/base/util/error.h"
#include "core/base/util/macro.h"
#include "core/otlp/attribute.h"
#include "core/otlp/messages.h"
#include "core/otlp/wire.h"

enum {
        N_TABLES = 7,
        EMPTY_ROW = 2,                  /* tag and length of row 0 */
        FIRST_WORDS = 256,
        FIRST_INDEXES = 4096,
};

static int table_init(DictionaryTable *table, uint32_t n_window) {
        table->local = calloc(n_window, 2 * sizeof(*table->local));
        if (!table->local)
                return error_origin(-ENOMEM);
        table->rows = table->local + n_window;
        table->n = 1;
        return 0;
}

static void table_reset(DictionaryTable *table) {
        for (uint32_t i = 1; i < table->n; i++)
                table->local[table->rows[i]] = 0;
        table->n = 1;
}

/* Gives @index the next place. */
static int32_t table_add(DictionaryTable *table, uint32_t index) {
        table->rows[table->n] = index;
        table->local[index] = table->n;
        return (int32_t)table->n++;
}

static void init_tags(DictionaryTags *tags) {
        tags->stack_locations = wire_tag(OTLP_STACK_DESCRIPTOR, "location_indices");
        tags->location_mapping = wire_number_tag(OTLP_LOCATION_DESCRIPTOR, "mapping_index");
        tags->location_address = wire_number_tag(OTLP_LOCATION_DESCRIPTOR, "address");
        tags->location_lines = wire_tag(OTLP_LOCATION_DESCRIPTOR, "lines");
        tags->location_attributes = wire_tag(OTLP_LOCATION_DESCRIPTOR, "attribute_indices");
        tags->line_function = wire_number_tag(OTLP_LINE_DESCRIPTOR, "function_index");
        tags->line_line = wire_number_tag(OTLP_LINE_DESCRIPTOR, "line");
        tags->function_name = wire_number_tag(OTLP_FUNCTION_DESCRIPTOR, "name_strindex");
        tags->function_system_name = wire_number_tag(OTLP_FUNCTION_DESCRIPTOR, "system_name_strindex");
        tags->function_filename = wire_number_tag(OTLP_FUNCTION_DESCRIPTOR, "filename_strindex");
        tags->function_start_line = wire_number_tag(OTLP_FUNCTION_DESCRIPTOR, "start_line");
}

int dictionary_init(Dictionary *dictionary, const Window *window) {
        int r;

        *dictionary = (Dictionary){ .window = window, .n_locations = 1, .size = N_TABLES * EMPTY_ROW };
        init_tags(&dictionary->tags);
        locations_init(&dictionary->chains, window);
        r = table_init(&dictionary->mappings, window_n_modules(window));
        if (!r)
                r = table_init(&dictionary->functions, window_n_functions(window));
        if (!r)
                r = table_init(&dictionary->links, window_n_links(window));
        if (!r)
                r = table_init(&dictionary->strings, window_n_strings(window));
        if (!r)
                r = table_init(&dictionary->attributes, window_n_attributes(window));
        if (!r)
                r = table_init(&dictionary->stacks, window_n_stacks(window));
        if (!r)
                r = table_init(&dictionary->frame_rows, window_n_frames(window));
        if (!r) {
                dictionary->lengths = calloc(window_n_stacks(window), sizeof(*dictionary->lengths));
                r = dictionary->lengths ? 0 : error_origin(-ENOMEM);
        }
        if (r)
                dictionary_deinit(dictionary);
        return r;
}

void dictionary_deinit(Dictionary *dictionary) {
        free(dictionary->mappings.local);
        free(dictionary->functions.local);
        free(dictionary->links.local);
        free(dictionary->strings.local);
        free(dictionary->attributes.local);
        free(dictionary->stacks.local);
        free(dictionary->frame_rows.local);
        free(dictionary->words);
        free(dictionary->indexes);
        free(dictionary->lengths);
        locations_deinit(&dictionary->chains);
        hashmap_deinit(&dictionary->locations);
        *dictionary = (Dictionary){ 0 };
}

void dictionary_reset(Dictionary *dictionary) {
        table_reset(&dictionary->mappings);
        table_reset(&dictionary->functions);
        table_reset(&dictionary->links);
        table_reset(&dictionary->strings);
        table_reset(&dictionary->attributes);
        table_reset(&dictionary->stacks);
        table_reset(&dictionary->frame_rows);
        hashmap_deinit(&dictionary->locations);
        dictionary->n_locations = 1;
        dictionary->n_indexes = 0;
        dictionary->size = N_TABLES * EMPTY_ROW;
}

int32_t dictionary_string(Dictionary *dictionary, uint32_t index) {
        size_t size;

        if (!index || dictionary->strings.local[index])
                return (int32_t)dictionary->strings.local[index];
        window_get_string(dictionary->window, index, &size);
        dictionary->size += wire_field_size(size);
        return table_add(&dictionary->strings, index);
}

/*
 * The messages below are filled in the same way for their size and for the request. Of functions, locations
 * and stacks there are so many that they are not made with protobuf-c, which looks at each field's
 * description each time.
 */

typedef struct AttributeRow {
        OtlpAttribute message;
        OtlpAnyValue value;
} AttributeRow;

static void fill_attribute(Dictionary *dictionary, uint32_t index, AttributeRow *row) {
        const WindowAttribute *attribute = window_get_attribute(dictionary->window, index);

        row->message = (OtlpAttribute)OTLP_ATTRIBUTE_INIT;
        row->message.key_strindex = dictionary_string(dictionary, attribute->key);
        row->message.unit_strindex = dictionary_string(dictionary, attribute->unit);
        row->message.value = &row->value;
        otlp_fill_value(dictionary->window, attribute, &row->value);
}

int32_t dictionary_attribute(Dictionary *dictionary, uint32_t index) {
        AttributeRow row;

        if (!index || dictionary->attributes.local[index])
                return (int32_t)dictionary->attributes.local[index];
        fill_attribute(dictionary, index, &row);
        dictionary->size += wire_message_size(&row.message.base);
        return table_add(&dictionary->attributes, index);
}

static void fill_link(const Dictionary *dictionary, uint32_t index, OtlpLink *message) {
        const WindowLink *link = window_get_link(dictionary->window, index);

        *message = (OtlpLink)OTLP_LINK_INIT;
        message->trace_id = (ProtobufCBinaryData){ sizeof(link->trace_id), (uint8_t *)link->trace_id };
        message->span_id = (ProtobufCBinaryData){ sizeof(link->span_id), (uint8_t *)link->span_id };
}

int32_t dictionary_link(Dictionary *dictionary, uint32_t index) {
        OtlpLink message;

        if (!index || dictionary->links.local[index])
                return (int32_t)dictionary->links.local[index];
        fill_link(dictionary, index, &message);
        dictionary->size += wire_message_size(&message.base);
        return table_add(&dictionary->links, index);
}

typedef struct MappingRow {
        OtlpMapping message;
        int32_t attributes[WINDOW_MODULE_ATTRIBUTES];
} MappingRow;

static void fill_mapping(Dictionary *dictionary, uint32_t index, MappingRow *row) {
        const WindowModule *module = window_get_module(dictionary->window, index);
        const uint32_t *set;
        size_t n;

        set = window_get_attribute_set(dictionary->window,
                                       window_get_module_attributes(dictionary->window, index), &n);
        for (size_t i = 0; i < n; i++)
                row->attributes[i] = dictionary_attribute(dictionary, set[i]);
        row->message = (OtlpMapping)OTLP_MAPPING_INIT;
        row->message.memory_start = module->start;
        row->message.memory_limit = module->limit;
        row->message.file_offset = module->offset;
        row->message.filename_strindex = dictionary_string(dictionary, module->path);
        row->message.n_attribute_indices = n;
        row->message.attribute_indices = row->attributes;
}

static int32_t add_mapping(Dictionary *dictionary, uint32_t index) {
        MappingRow row;

        if (!index || dictionary->mappings.local[index])
                return (int32_t)dictionary->mappings.local[index];
        fill_mapping(dictionary, index, &row);
        dictionary->size += wire_message_size(&row.message.base);
        return table_add(&dictionary->mappings, index);
}

typedef struct FunctionRow {
        uint64_t name, system_name, filename, start_line;
        size_t size;
} FunctionRow;

static FunctionRow function_row(Dictionary *dictionary, uint32_t index) {
        const WindowFunction *function = window_get_function(dictionary->window, index);
        FunctionRow row = { .start_line = (uint64_t)function->start_line };

        row.name = (uint32_t)dictionary_string(dictionary, function->name);
        row.system_name = (uint32_t)dictionary_string(dictionary, function->system_name);
        row.filename = (uint32_t)dictionary_string(dictionary, function->filename);
        row.size = wire_number_size(row.name) + wire_number_size(row.system_name) +
                wire_number_size(row.filename) + wire_number_size(row.start_line);
        return row;
}

static uint32_t add_function(Dictionary *dictionary, uint32_t index) {
        if (!index || dictionary->functions.local[index])
                return dictionary->functions.local[index];
        dictionary->size += wire_field_size(function_row(dictionary, index).size);
        return (uint32_t)table_add(&dictionary->functions, index);
}

typedef struct LineRow {
        uint64_t function, line;
        size_t size;
} LineRow;

typedef struct LocationRow {
        uint64_t mapping, address;
        const FrameWord *words;         /* frames whose lines it has, innermost first */
        size_t n_lines;
        int32_t attributes[2];
        size_t n_attributes;
        size_t size;
} LocationRow;

static void add_attribute(Dictionary *dictionary, uint32_t attribute, LocationRow *row) {
        if (attribute)
                row->attributes[row->n_attributes++] = dictionary_attribute(dictionary, attribute);
}

static LineRow line_row(Dictionary *dictionary, const WindowFrame *frame) {
        LineRow row = { .line = (uint64_t)frame->line };

        row.function = add_function(dictionary, frame->function);
        row.size = wire_number_size(row.function) + wire_number_size(row.line);
        return row;
}

/* @wordp outlives the row: lines are read from there. */
static LocationRow location_row(Dictionary *dictionary, const FrameWord *wordp) {
        size_t n;
        const FrameWord *words = locations_get(&dictionary->chains, wordp, &n);
        WindowFrame frame = window_expand_frame(dictionary->window, words[n - 1]);
        LocationRow row = { .address = frame.address, .words = words };

        row.mapping = (uint32_t)add_mapping(dictionary, frame.module);
        row.size = wire_number_size(row.mapping) + wire_number_size(row.address);
        row.n_lines = n > 1 || frame.function || frame.line ? n : 0;
        for (size_t i = 0; i < row.n_lines; i++) {
                WindowFrame inner = i + 1 < n ? window_expand_frame(dictionary->window, words[i]) : frame;

                row.size += wire_field_size(line_row(dictionary, &inner).size);
        }
        add_attribute(dictionary, window_get_type_attribute(dictionary->window, frame.type), &row);
        add_attribute(dictionary, frame.attribute, &row);
        if (row.n_attributes)
                row.size += wire_field_size(wire_indexes_size(row.attributes, row.n_attributes));
        return row;
}

/*
 * Rows of the window's frame table know their location by their number, and only other words are looked up.
 */
static int32_t find_location(const Dictionary *dictionary, FrameWord word) {
        if (!window_frame_row(word))
                return (int32_t)(uintptr_t)hashmap_get(&dictionary->locations, word);
        return (int32_t)dictionary->frame_rows.local[window_frame_row(word)];
}

static bool note_location(Dictionary *dictionary, FrameWord word, uint32_t index) {
        uint32_t row = window_frame_row(word);

        if (!row)
                return !hashmap_put(&dictionary->locations, word, (void *)(uintptr_t)index);
        dictionary->frame_rows.rows[dictionary->frame_rows.n++] = row;
        dictionary->frame_rows.local[row] = index;
        return true;
}

static int32_t add_location(Dictionary *dictionary, FrameWord word) {
        int32_t index = find_location(dictionary, word);
        size_t size;

        if (index || word == FRAME_WORD_EMPTY)
                return index;
        size = location_row(dictionary, &word).size;
        if (array_reserve(&dictionary->words, &dictionary->words_size, dictionary->n_locations + 1u,
                          FIRST_WORDS) ||
            !note_location(dictionary, word, dictionary->n_locations)) {
                dictionary->failed = true;
                return 0;
        }
        dictionary->words[dictionary->n_locations] = word;
        dictionary->size += wire_field_size(size);
        return (int32_t)dictionary->n_locations++;
}

/* Without its tag and length. */
static size_t stack_size(const int32_t *indexes, size_t n) {
        return n ? wire_field_size(wire_indexes_size(indexes, n)) : 0;
}

/* Adds the location that @words begin with. Return: how many words it has; 0 = no memory. */
static size_t add_next(Dictionary *dictionary, const FrameWord *words, size_t n, int32_t *indexp) {
        FrameWord location;
        size_t used;

        if (locations_next(&dictionary->chains, words, n, &location, &used))
                return 0;
        *indexp = add_location(dictionary, location);
        return used;
}

/* Locations are looked up once: arranging and writing go by their indexes. */
int32_t dictionary_stack(Dictionary *dictionary, uint32_t index) {
        const FrameWord *words;
        size_t n, n_locations = 0, used = 0;
        int32_t *indexes;

        if (!index || dictionary->stacks.local[index])
                return (int32_t)dictionary->stacks.local[index];
        words = window_get_stack(dictionary->window, index, &n);
        if (array_reserve(&dictionary->indexes, &dictionary->indexes_size, dictionary->n_indexes + n,
                          FIRST_INDEXES)) {
                dictionary->failed = true;
                return 0;
        }
        for (size_t i = 0; i < n; i++)
                hashmap_prefetch(&dictionary->locations, words[i]);
        indexes = dictionary->indexes + dictionary->n_indexes;
        for (size_t i = 0; i < n; i += used) {
                used = add_next(dictionary, words + i, n - i, &indexes[n_locations]);
                if (!used) {
                        dictionary->failed = true;
                        return 0;
                }
                n_locations++;
        }
        dictionary->n_indexes += n_locations;
        dictionary->lengths[dictionary->stacks.n] = (uint32_t)n_locations;
        dictionary->size += wire_field_size(stack_size(indexes, n_locations));
        return table_add(&dictionary->stacks, index);
}

typedef struct Place {
        FrameWord word;
        uint64_t address;
        uint32_t index, n_uses;
        uint32_t mapping, type;
} Place;

static int by_uses(const void *a, const void *b) {
        const Place *x = a, *y = b;

        if (x->n_uses != y->n_uses)
                return x->n_uses > y->n_uses ? -1 : 1;
        return x->index < y->index ? -1 : 1;
}

static int by_address(const void *a, const void *b) {
        const Place *x = a, *y = b;

        if (x->mapping != y->mapping)
                return x->mapping < y->mapping ? -1 : 1;
        if (x->type != y->type)
                return x->type < y->type ? -1 : 1;
        if (x->address != y->address)
                return x->address < y->address ? -1 : 1;
        return x->index < y->index ? -1 : 1;
}

/* The indexes of stack @row of this dictionary; *atp: where they begin, then where the next stack's do. */
static const int32_t *next_stack(const Dictionary *dictionary, uint32_t row, size_t *atp, size_t *np) {
        const int32_t *indexes = dictionary->indexes + *atp;

        *np = dictionary->lengths[row];
        *atp += *np;
        return indexes;
}

static size_t stacks_size(const Dictionary *dictionary) {
        size_t size = 0, at = 0, n;

        for (uint32_t i = 1; i < dictionary->stacks.n; i++) {
                const int32_t *indexes = next_stack(dictionary, i, &at, &n);

                size += wire_field_size(stack_size(indexes, n));
        }
        return size;
}

static void fill_place(Dictionary *dictionary, uint32_t index, Place *place) {
        FrameWord word = dictionary->words[index];
        WindowFrame frame = locations_outer(&dictionary->chains, word);

        *place = (Place){ .word = word, .index = index, .address = frame.address };
        place->mapping = (uint32_t)add_mapping(dictionary, frame.module);
        place->type = window_get_type_attribute(dictionary->window, frame.type);
}

static void sort_places(Place *places, size_t n) {
        qsort(places, n, sizeof(*places), by_uses);
        for (size_t from = 0, limit = 0x80; from < n; limit <<= 7) {
                size_t to = MIN(n, limit - 1);          /* places[i] gets index i + 1 */

                qsort(places + from, to - from, sizeof(*places), by_address);
                from = to;
        }
}

/* @places stand in the new order. @numbers: zeros, room for the new index of each old one. */
static void renumber(Dictionary *dictionary, const Place *places, size_t n, int32_t *numbers) {
        for (size_t i = 0; i < n; i++) {
                dictionary->words[i + 1] = places[i].word;
                numbers[places[i].index] = (int32_t)i + 1;
        }
        for (size_t i = 0; i < dictionary->n_indexes; i++)
                dictionary->indexes[i] = numbers[dictionary->indexes[i]];
}

int dictionary_arrange(Dictionary *dictionary) {
        size_t n = dictionary->n_locations - 1, before = stacks_size(dictionary);
        _cleanup_(freep) Place *places = calloc(n + 1, sizeof(*places));
        _cleanup_(freep) int32_t *numbers = calloc(n + 1, sizeof(*numbers));

        if (!places || !numbers)
                return error_origin(-ENOMEM);
        for (uint32_t i = 0; i < n; i++)
                fill_place(dictionary, i + 1, &places[i]);
        for (size_t i = 0; i < dictionary->n_indexes; i++)
                if (dictionary->indexes[i])
                        places[dictionary->indexes[i] - 1].n_uses++;
        sort_places(places, n);
        renumber(dictionary, places, n, numbers);
        dictionary->size -= before - stacks_size(dictionary);
        return 0;
}

static uint8_t *write_mappings(Dictionary *dictionary, uint8_t tag, uint8_t *to) {
        to = wire_put_header(to, tag, 0);
        for (uint32_t i = 1; i < dictionary->mappings.n; i++) {
                MappingRow row;

                fill_mapping(dictionary, dictionary->mappings.rows[i], &row);
                to = wire_put_message(to, tag, &row.message.base);
        }
        return to;
}

static uint8_t *write_locations(Dictionary *dictionary, uint8_t tag, uint8_t *to) {
        const DictionaryTags *tags = &dictionary->tags;

        to = wire_put_header(to, tag, 0);
        for (uint32_t i = 1; i < dictionary->n_locations; i++) {
                LocationRow row = location_row(dictionary, &dictionary->words[i]);

                to = wire_put_header(to, tag, row.size);
                to = wire_put_number(to, tags->location_mapping, row.mapping);
                to = wire_put_number(to, tags->location_address, row.address);
                for (size_t k = 0; k < row.n_lines; k++) {
                        WindowFrame frame = window_expand_frame(dictionary->window, row.words[k]);
                        LineRow line = line_row(dictionary, &frame);

                        to = wire_put_header(to, tags->location_lines, line.size);
                        to = wire_put_number(to, tags->line_function, line.function);
                        to = wire_put_number(to, tags->line_line, line.line);
                }
                to = wire_put_indexes(to, tags->location_attributes, row.attributes, row.n_attributes);
        }
        return to;
}

static uint8_t *write_functions(Dictionary *dictionary, uint8_t tag, uint8_t *to) {
        const DictionaryTags *tags = &dictionary->tags;

        to = wire_put_header(to, tag, 0);
        for (uint32_t i = 1; i < dictionary->functions.n; i++) {
                FunctionRow row = function_row(dictionary, dictionary->functions.rows[i]);

                to = wire_put_header(to, tag, row.size);
                to = wire_put_number(to, tags->function_name, row.name);
                to = wire_put_number(to, tags->function_system_name, row.system_name);
                to = wire_put_number(to, tags->function_filename, row.filename);
                to = wire_put_number(to, tags->function_start_line, row.start_line);
        }
        return to;
}

static uint8_t *write_links(Dictionary *dictionary, uint8_t tag, uint8_t *to) {
        to = wire_put_header(to, tag, 0);
        for (uint32_t i = 1; i < dictionary->links.n; i++) {
                OtlpLink message;

                fill_link(dictionary, dictionary->links.rows[i], &message);
                to = wire_put_message(to, tag, &message.base);
        }
        return to;
}

static uint8_t *write_strings(Dictionary *dictionary, uint8_t tag, uint8_t *to) {
        to = wire_put_header(to, tag, 0);
        for (uint32_t i = 1; i < dictionary->strings.n; i++) {
                size_t size;
                const char *text = window_get_string(dictionary->window, dictionary->strings.rows[i], &size);

                to = wire_put_bytes(to, tag, text, size);
        }
        return to;
}

static uint8_t *write_attributes(Dictionary *dictionary, uint8_t tag, uint8_t *to) {
        to = wire_put_header(to, tag, 0);
        for (uint32_t i = 1; i < dictionary->attributes.n; i++) {
                AttributeRow row;

                fill_attribute(dictionary, dictionary->attributes.rows[i], &row);
                to = wire_put_message(to, tag, &row.message.base);
        }
        return to;
}

static uint8_t *write_stacks(Dictionary *dictionary, uint8_t tag, uint8_t *to) {
        size_t at = 0, n;

        to = wire_put_header(to, tag, 0);
        for (uint32_t i = 1; i < dictionary->stacks.n; i++) {
                const int32_t *indexes = next_stack(dictionary, i, &at, &n);

                to = wire_put_header(to, tag, stack_size(indexes, n));
                to = wire_put_indexes(to, dictionary->tags.stack_locations, indexes, n);
        }
        return to;
}

/* In the order of the field numbers, so that a reader that packs it again gets the same bytes. */
uint8_t *dictionary_write(Dictionary *dictionary, uint8_t *to) {
        static const struct {
                const char *table;
                uint8_t *(*write)(Dictionary *dictionary, uint8_t tag, uint8_t *to);
        } tables[N_TABLES] = {
                { "mapping_table", write_mappings },     { "location_table", write_locations },
                { "function_table", write_functions },   { "link_table", write_links },
                { "string_table", write_strings },       { "attribute_table", write_attributes },
                { "stack_table", write_stacks },
        };

        for (int i = 0; i < N_TABLES; i++)
                to = tables[i].write(dictionary, wire_tag(OTLP_DICTIONARY_DESCRIPTOR, tables[i].table), to);
        return to;
}

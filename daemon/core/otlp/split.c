/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Resources of a request share its dictionary, whose rows name each other by index:
 *
 *     sample → stack → location → function → string
 *                              → mapping   → attribute → string
 *            → link, attribute
 *
 * For each part, the rows that its resources name are taken, table after table in an order in which no
 * table names one before it. Then the indexes in these rows are rewritten in place, the part is packed, and
 * they are written back. So nothing is copied, and the work for a part is in proportion to its size:
 *
 *     rows        0   1   2   3   4
 *     taken       0   3   4                   what the part has, in the order in which it was named
 *     place       1   –   –   2   3           index in the part + 1
 *
 * Row 0 is the empty one, so each part has it.
 */

#include "core/otlp/split.h"

#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/data/intern.h"
#include "core/base/util/clock.h"
#include "core/base/util/error.h"
#include "core/base/util/text.h"
#include "core/otlp/message-field.h"

/* In the order of the comment above. */
typedef enum Table {
        TABLE_STACKS,
        TABLE_LOCATIONS,
        TABLE_FUNCTIONS,
        TABLE_MAPPINGS,
        TABLE_LINKS,
        TABLE_ATTRIBUTES,
        TABLE_STRINGS,
        N_TABLES,
} Table;

#define DAY_NS (86400 * NS_PER_SEC)

typedef struct Rows {
        void **rows;
        size_t n, n_taken;
        uint32_t *place, *taken;
        void **subset;
} Rows;

typedef struct Split {
        OtlpRequest *request;
        size_t room;                    /* bytes that parts may still take */
        bool is_unsound;                /* has a field of number 0, which cannot be written again */
        Rows tables[N_TABLES];
        Intern keys;                    /* service, host and day of each part */
        uint32_t *part_of;              /* part that each resource goes to */
        OtlpResourceProfiles **resources;
        OtlpParts parts;
} Split;

typedef void Visit(Rows *rows, int32_t *index);

/* ---- indexes ---- */

static bool is_inside(const Rows *rows, int32_t index) {
        return index >= 0 && (size_t)index < rows->n;
}

static void take_row(Rows *rows, int32_t *index) {
        if (!is_inside(rows, *index) || rows->place[*index])
                return;
        rows->taken[rows->n_taken] = (uint32_t)*index;
        rows->subset[rows->n_taken] = rows->rows[*index];
        rows->place[*index] = (uint32_t)++rows->n_taken;
}

static void rewrite(Rows *rows, int32_t *index) {
        if (is_inside(rows, *index))
                *index = (int32_t)rows->place[*index] - 1;
}

static void write_back(Rows *rows, int32_t *index) {
        if (*index >= 0 && (size_t)*index < rows->n_taken)
                *index = (int32_t)rows->taken[*index];
}

/* The table that a field points into, by its name. Return: N_TABLES = none. */
static Table table_of(const ProtobufCFieldDescriptor *field) {
        static const char *const names[N_TABLES] = {
                [TABLE_STACKS] = "stack_index",       [TABLE_LOCATIONS] = "location_indices",
                [TABLE_FUNCTIONS] = "function_index", [TABLE_MAPPINGS] = "mapping_index",
                [TABLE_LINKS] = "link_index",         [TABLE_ATTRIBUTES] = "attribute_indices",
        };
        size_t size = strlen(field->name), suffix = strlen("_strindex");
        Table table = 0;

        if (field->type != PROTOBUF_C_TYPE_INT32)
                return N_TABLES;
        if (size > suffix && !strcmp(field->name + size - suffix, "_strindex"))
                return TABLE_STRINGS;
        while (table < TABLE_STRINGS && strcmp(field->name, names[table]))
                table++;
        return table < TABLE_STRINGS ? table : N_TABLES;
}

static bool is_set(const ProtobufCMessage *message, const ProtobufCFieldDescriptor *field) {
        return !(field->flags & PROTOBUF_C_FIELD_FLAG_ONEOF) || *field_case(message, field) == field->id;
}

static void walk(Split *split, ProtobufCMessage *message, Visit *visit);

static void walk_field(Split *split, ProtobufCMessage *message, const ProtobufCFieldDescriptor *field,
                       Visit *visit) {
        bool repeated = field->label == PROTOBUF_C_LABEL_REPEATED;
        void *place = field_place(message, field);
        size_t n = repeated ? *field_count(message, field) : 1;
        Table table = table_of(field);

        if (repeated)
                place = *(void **)place;
        for (size_t i = 0; i < n && field->type == PROTOBUF_C_TYPE_MESSAGE; i++)
                walk(split, ((ProtobufCMessage **)place)[i], visit);
        for (size_t i = 0; i < n && table != N_TABLES; i++)
                visit(&split->tables[table], (int32_t *)place + i);
}

static bool has_field_zero(const ProtobufCMessage *message) {
        for (unsigned i = 0; i < message->n_unknown_fields; i++)
                if (!message->unknown_fields[i].tag)
                        return true;
        return false;
}

/* As deep as the decoder lets messages be (OTLP_DECODE_MAX_DEPTH). */
static void walk(Split *split, ProtobufCMessage *message, Visit *visit) {
        split->is_unsound |= message && has_field_zero(message);
        for (unsigned i = 0; message && i < message->descriptor->n_fields; i++)
                if (is_set(message, &message->descriptor->fields[i]))
                        walk_field(split, message, &message->descriptor->fields[i], visit);
}

/* ---- whose a resource is ---- */

static const char *string_at(const OtlpDictionary *dictionary, int32_t index) {
        if (!dictionary || index < 0 || (size_t)index >= dictionary->n_string_table)
                return "";
        return dictionary->string_table[index];
}

static const char *value_text(const OtlpDictionary *dictionary, const OtlpAnyValue *value) {
        if (value && value->value_case == OTLP_ANY_STRING)
                return value->string_value;
        if (value && value->value_case == OTLP_ANY_STRINDEX)
                return string_at(dictionary, value->string_value_strindex);
        return NULL;
}

static const char *find_text(const OtlpDictionary *dictionary, const OtlpResource *resource,
                             const char *key) {
        for (size_t i = 0; resource && i < resource->n_attributes; i++) {
                const OtlpKeyValue *pair = resource->attributes[i];

                if (!strcmp(pair->key_strindex ? string_at(dictionary, pair->key_strindex) : pair->key, key))
                        return value_text(dictionary, pair->value);
        }
        return NULL;
}

typedef struct Times {
        uint64_t start_ns, end_ns;
} Times;

static void cover(Times *times, uint64_t start_ns, uint64_t duration_ns) {
        if (!start_ns)
                return;
        times->start_ns = MIN(times->start_ns, start_ns);
        times->end_ns = MAX(times->end_ns, start_ns + MIN(duration_ns, UINT64_MAX - start_ns));
}

static void cover_profile(Times *times, const OtlpProfile *profile) {
        cover(times, profile->time_unix_nano, profile->duration_nano);
        for (size_t i = 0; i < profile->n_samples; i++)
                for (size_t k = 0; k < profile->samples[i]->n_timestamps_unix_nano; k++)
                        cover(times, profile->samples[i]->timestamps_unix_nano[k], 0);
}

static uint32_t find_day(const OtlpResourceProfiles *resource) {
        Times times = { .start_ns = UINT64_MAX };
        uint64_t day;

        for (size_t i = 0; i < resource->n_scope_profiles; i++)
                for (size_t k = 0; k < resource->scope_profiles[i]->n_profiles; k++)
                        cover_profile(&times, resource->scope_profiles[i]->profiles[k]);
        day = times.start_ns / DAY_NS;
        return times.start_ns > times.end_ns || times.end_ns / DAY_NS > day + 1 ? OTLP_SPLIT_NO_DAY
                                                                              : (uint32_t)day;
}

/* A text and whether there is one. */
static void append_key(Text *key, const char *text) {
        if (text)
                text_append(key, text, strlen(text));
        text_append(key, text ? "\0s" : "\0n", 2);
}

/* Return: 0, OTLP_SPLIT_E_LIMIT, -ENOMEM. */
static int assign(Split *split, size_t index) {
        const OtlpResourceProfiles *resource = split->request->resource_profiles[index];
        const OtlpDictionary *dictionary = split->request->dictionary;
        OtlpPart part = { .service = find_text(dictionary, resource->resource, "service.name"),
                          .host = find_text(dictionary, resource->resource, "host.name"),
                          .day = find_day(resource) };
        _cleanup_(text_deinit) Text key = { 0 };
        int r;

        append_key(&key, part.service);
        append_key(&key, part.host);
        text_append(&key, (const char *)&part.day, sizeof(part.day));
        if (key.failed)
                return error_origin(-ENOMEM);
        r = intern_add(&split->keys, key.data, key.size, &split->part_of[index]);
        if (!r)
                split->parts.parts[split->parts.n++] = part;
        return r == INTERN_E_FULL ? OTLP_SPLIT_E_LIMIT : MIN(r, 0);
}

/* ---- one part ---- */

static void begin_part(Split *split) {
        for (Table table = 0; table < N_TABLES; table++) {
                Rows *rows = &split->tables[table];
                int32_t empty = 0;

                for (size_t i = 0; i < rows->n_taken; i++)
                        rows->place[rows->taken[i]] = 0;
                rows->n_taken = 0;
                take_row(rows, &empty);
        }
}

static size_t gather(Split *split, uint32_t part) {
        size_t n = 0;

        for (size_t i = 0; i < split->request->n_resource_profiles; i++)
                if (split->part_of[i] == part)
                        split->resources[n++] = split->request->resource_profiles[i];
        return n;
}

/* Strings name nothing, so that their table is none of messages. */
static void walk_rows(Split *split, Visit *visit) {
        for (Table table = 0; table < TABLE_STRINGS; table++)
                for (size_t i = 0; i < split->tables[table].n_taken; i++)
                        walk(split, split->tables[table].subset[i], visit);
}

static void walk_resources(Split *split, size_t n, Visit *visit) {
        for (size_t i = 0; i < n; i++)
                walk(split, &split->resources[i]->base, visit);
}

#define SET_TABLE(_dictionary, _member, _split, _table) \
        do { \
                (_dictionary)->n_##_member = (_split)->tables[_table].n_taken; \
                (_dictionary)->_member = (void *)(_split)->tables[_table].subset; \
        } while (0)

static void set_tables(const Split *split, OtlpDictionary *dictionary) {
        SET_TABLE(dictionary, stack_table, split, TABLE_STACKS);
        SET_TABLE(dictionary, location_table, split, TABLE_LOCATIONS);
        SET_TABLE(dictionary, function_table, split, TABLE_FUNCTIONS);
        SET_TABLE(dictionary, mapping_table, split, TABLE_MAPPINGS);
        SET_TABLE(dictionary, link_table, split, TABLE_LINKS);
        SET_TABLE(dictionary, attribute_table, split, TABLE_ATTRIBUTES);
        SET_TABLE(dictionary, string_table, split, TABLE_STRINGS);
}

/* Return: 0, OTLP_SPLIT_E_LIMIT, -ENOMEM. */
static int pack(Split *split, OtlpRequest *message, OtlpPart *part) {
        size_t size = protobuf_c_message_get_packed_size(&message->base);

        if (size > split->room || split->is_unsound)
                return OTLP_SPLIT_E_LIMIT;
        part->data = malloc(size + 1);
        if (!part->data)
                return error_origin(-ENOMEM);
        split->room -= size;
        part->size = protobuf_c_message_pack(&message->base, part->data);
        return 0;
}

static int make_part(Split *split, uint32_t index) {
        OtlpRequest message = *split->request;
        OtlpDictionary dictionary;
        int r;

        split->is_unsound |= has_field_zero(&message.base) ||
                (message.dictionary && has_field_zero(&message.dictionary->base));
        message.n_resource_profiles = gather(split, index);
        message.resource_profiles = split->resources;
        begin_part(split);
        walk_resources(split, message.n_resource_profiles, take_row);
        walk_rows(split, take_row);
        if (message.dictionary) {
                dictionary = *message.dictionary;
                message.dictionary = &dictionary;
                set_tables(split, &dictionary);
        }
        walk_resources(split, message.n_resource_profiles, rewrite);
        walk_rows(split, rewrite);
        r = pack(split, &message, &split->parts.parts[index]);
        walk_resources(split, message.n_resource_profiles, write_back);
        walk_rows(split, write_back);
        return r;
}

/* ---- all of them ---- */

static int open_table(Rows *rows, size_t n, void *table) {
        *rows = (Rows){ .rows = table, .n = n };
        rows->place = calloc(n + 1, sizeof(*rows->place));
        rows->taken = calloc(n + 1, sizeof(*rows->taken));
        rows->subset = calloc(n + 1, sizeof(*rows->subset));
        return rows->place && rows->taken && rows->subset ? 0 : error_origin(-ENOMEM);
}

static int open_tables(Split *split) {
        static const OtlpDictionary none = OTLP_DICTIONARY_INIT;
        const OtlpDictionary *from = split->request->dictionary ? split->request->dictionary : &none;
        const struct {
                size_t n;
                void *table;
        } tables[N_TABLES] = {
                [TABLE_STACKS] = { from->n_stack_table, from->stack_table },
                [TABLE_LOCATIONS] = { from->n_location_table, from->location_table },
                [TABLE_FUNCTIONS] = { from->n_function_table, from->function_table },
                [TABLE_MAPPINGS] = { from->n_mapping_table, from->mapping_table },
                [TABLE_LINKS] = { from->n_link_table, from->link_table },
                [TABLE_ATTRIBUTES] = { from->n_attribute_table, from->attribute_table },
                [TABLE_STRINGS] = { from->n_string_table, from->string_table },
        };
        int r = 0;

        for (Table table = 0; table < N_TABLES && !r; table++)
                r = open_table(&split->tables[table], tables[table].n, tables[table].table);
        return r;
}

static int split_open(Split *split) {
        size_t n = split->request->n_resource_profiles;

        intern_init(&split->keys, OTLP_SPLIT_MAX_PARTS);
        split->part_of = calloc(n + 1, sizeof(*split->part_of));
        split->resources = calloc(n + 1, sizeof(*split->resources));
        split->parts.parts = calloc(MIN(n + 1, (size_t)OTLP_SPLIT_MAX_PARTS), sizeof(*split->parts.parts));
        if (!split->part_of || !split->resources || !split->parts.parts)
                return error_origin(-ENOMEM);
        return open_tables(split);
}

static void split_close(Split *split) {
        for (Table table = 0; table < N_TABLES; table++) {
                free(split->tables[table].place);
                free(split->tables[table].taken);
                free(split->tables[table].subset);
        }
        free(split->part_of);
        free(split->resources);
        intern_deinit(&split->keys);
        otlp_split_deinit(&split->parts);
}

int otlp_split(OtlpRequest *request, size_t size, OtlpParts *partsp) {
        Split split = { .request = request, .room = size * OTLP_SPLIT_MAX_RATIO };
        int r = split_open(&split);

        for (size_t i = 0; i < request->n_resource_profiles && !r; i++)
                r = assign(&split, i);
        for (uint32_t i = 0; i < split.parts.n && !r; i++)
                r = make_part(&split, i);
        if (!r) {
                *partsp = split.parts;
                split.parts = (OtlpParts){ 0 };
        }
        split_close(&split);
        return r;
}

void otlp_split_deinit(OtlpParts *parts) {
        for (size_t i = 0; i < parts->n; i++)
                free(parts->parts[i].data);
        free(parts->parts);
        *parts = (OtlpParts){ 0 };
}

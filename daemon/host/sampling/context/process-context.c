/* SPDX-License-Identifier: Apache-2.0 */

/*
 * A payload in protobuf's wire format, for example (0a = field 1, bytes):
 *
 *     0a 1c  0a 1a                             Resource, its attribute:
 *              0a 0c "service.name"              key
 *              12 0a  0a 08 "checkout"           value: AnyValue, string
 *     12 22                                    about threads:
 *              0a 1d "threadlocal.attribute_key_map" …
 *
 * Of an AnyValue only the plain kinds are taken, and an array of strings for the
 * key map: there is no recursion that a payload could drive. Every message may
 * hold unknown fields; they are stepped over.
 */
#include "host/sampling/context/process-context.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/data/protobuf.h"
#include "core/base/util/error.h"
#include "host/sampling/process/memory.h"

enum {
        VALUE_STRING = 1,
        VALUE_BOOL = 2,
        VALUE_INT = 3,
        VALUE_DOUBLE = 4,
        VALUE_ARRAY = 5,

        NODE_MAX_OFFSET = 248,
        READ_TRIES = 4,                 /* an update is a few stores: who needs more is flapping */
};

#define SCHEMA_KEY "threadlocal.schema_version"
#define KEY_MAP_KEY "threadlocal.attribute_key_map"

static ContextText text_of(const Field *field) {
        return (ContextText){ (const char *)field->data, field->size };
}

typedef struct KeyValue {
        ContextText key;
        Field value;                    /* the last one of AnyValue; number 0 = none */
} KeyValue;

static bool read_any(const Field *message, Field *value) {
        Cursor cursor = field_cursor(message);
        Field field;

        while (field_next(&cursor, &field))
                *value = field;
        return !cursor.failed;
}

static bool read_key_value(const Field *message, KeyValue *pair) {
        Cursor cursor = field_cursor(message);
        Field field;

        *pair = (KeyValue){ 0 };
        while (field_next(&cursor, &field)) {
                if (field.wire != WIRE_BYTES)
                        continue;
                if (field.number == 1)
                        pair->key = text_of(&field);
                else if (field.number == 2 && !read_any(&field, &pair->value))
                        return false;
        }
        return !cursor.failed;
}

static bool text_is(const ContextText *text, const char *word) {
        return text->size == strlen(word) && !memcmp(text->data, word, text->size);
}

static bool take_value(const Field *value, ContextAttribute *attribute) {
        if (value->number == VALUE_STRING && value->wire == WIRE_BYTES) {
                attribute->kind = CONTEXT_STRING;
                attribute->string = text_of(value);
                return true;
        }
        attribute->integer = (int64_t)value->value;
        if (value->number == VALUE_DOUBLE && value->wire == WIRE_FIXED64)
                attribute->kind = CONTEXT_DOUBLE;
        else if (value->number == VALUE_INT && value->wire == WIRE_VARINT)
                attribute->kind = CONTEXT_INT;
        else if (value->number == VALUE_BOOL && value->wire == WIRE_VARINT) {
                attribute->kind = CONTEXT_BOOL;
                attribute->integer = !!attribute->integer;
        } else
                return false;
        return true;
}

/* The first of two attributes with one key counts, as everywhere in a window. */
static void add_attribute(ProcessContext *context, const KeyValue *pair) {
        ContextAttribute attribute = { .key = pair->key };

        if (!pair->key.size || context->n_attributes == PROCESS_CONTEXT_MAX_ATTRIBUTES ||
            !take_value(&pair->value, &attribute))
                context->n_left_out++;
        else
                context->attributes[context->n_attributes++] = attribute;
}

static bool read_resource(ProcessContext *context, const Field *message) {
        Cursor cursor = field_cursor(message);
        KeyValue pair;
        Field field;

        while (field_next(&cursor, &field)) {
                if (field.number != 1 || field.wire != WIRE_BYTES)
                        continue;
                if (!read_key_value(&field, &pair))
                        return false;
                add_attribute(context, &pair);
        }
        return !cursor.failed;
}

/* An ArrayValue: field 1 = AnyValue, each with a string. What is none keeps its place, as an empty name. */
static bool read_key_map(ProcessContext *context, const Field *message) {
        Cursor cursor = field_cursor(message);
        Field field, value;

        context->n_keys = 0;
        while (field_next(&cursor, &field)) {
                if (field.number != 1 || field.wire != WIRE_BYTES)
                        continue;
                value = (Field){ 0 };
                if (!read_any(&field, &value))
                        return false;
                if (context->n_keys == PROCESS_CONTEXT_MAX_KEYS) {
                        context->n_left_out++;
                        continue;
                }
                context->keys[context->n_keys++] = value.number == VALUE_STRING && value.wire == WIRE_BYTES
                        ? text_of(&value)
                        : (ContextText){ "", 0 };
        }
        return !cursor.failed;
}

/* Offsets that Node's writer tells of V8's objects, by their keys. */
typedef enum NodeOffset {
        NODE_TAGGED_SIZE,
        NODE_TABLE,
        NODE_HEADER,
        NODE_RECORD,
        NODE_WRAPPER,
        NODE_FIELDS,
        NODE_OFFSET_N,
} NodeOffset;

static const char *const node_keys[NODE_OFFSET_N] = {
        [NODE_TAGGED_SIZE] = "threadlocal.tagged_size",
        [NODE_TABLE] = "threadlocal.js_map_table_offset",
        [NODE_HEADER] = "threadlocal.ordered_hash_map_header_size",
        [NODE_RECORD] = "threadlocal.js_object_record_offset",
        [NODE_WRAPPER] = "threadlocal.wrapped_object_offset",
        [NODE_FIELDS] = "threadlocal.native_wrap_fields_offset",
};

/* Takes an offset that fits a byte and is a multiple of a word; −1 stays where there is none such. */
static void read_node_offset(const KeyValue *pair, int16_t offsets[NODE_OFFSET_N]) {
        const Field *value = &pair->value;

        for (size_t i = 0; i < NODE_OFFSET_N; i++)
                if (text_is(&pair->key, node_keys[i]) && value->number == VALUE_INT &&
                    value->wire == WIRE_VARINT && value->value <= NODE_MAX_OFFSET && !(value->value % 8))
                        offsets[i] = (int16_t)value->value;
}

/* A layout that is told in part is none. An object has its record itself, or leads to a wrapper. */
static void take_node_layout(ProcessContext *context, const int16_t offsets[NODE_OFFSET_N]) {
        bool is_wrapped = offsets[NODE_WRAPPER] > 0 && offsets[NODE_FIELDS] >= 0;

        if (offsets[NODE_TAGGED_SIZE] != 8 || offsets[NODE_TABLE] <= 0 || offsets[NODE_HEADER] <= 0 ||
            (offsets[NODE_RECORD] <= 0 && !is_wrapped))
                return;
        is_wrapped = offsets[NODE_RECORD] <= 0;
        context->node = (struct node_layout){
                .table_at = (uint8_t)offsets[NODE_TABLE],
                .header_size = (uint8_t)offsets[NODE_HEADER],
                .object_at = (uint8_t)offsets[is_wrapped ? NODE_WRAPPER : NODE_RECORD],
                .wrap_at = (uint8_t)(is_wrapped ? offsets[NODE_FIELDS] : 0),
                .is_told = true,
                .is_wrapped = is_wrapped,
        };
}

static bool read_extra(ProcessContext *context, const Field *message, int16_t offsets[NODE_OFFSET_N]) {
        KeyValue pair;

        if (!read_key_value(message, &pair))
                return false;
        if (text_is(&pair.key, SCHEMA_KEY) && pair.value.number == VALUE_STRING &&
            pair.value.wire == WIRE_BYTES)
                context->schema = text_of(&pair.value);
        else if (text_is(&pair.key, KEY_MAP_KEY) && pair.value.number == VALUE_ARRAY &&
                 pair.value.wire == WIRE_BYTES)
                return read_key_map(context, &pair.value);
        read_node_offset(&pair, offsets);
        return true;
}

static bool read_payload(ProcessContext *context) {
        int16_t offsets[NODE_OFFSET_N] = { -1, -1, -1, -1, -1, -1 };
        Cursor cursor = cursor_make(context->payload, context->payload_size);
        Field field;

        while (field_next(&cursor, &field)) {
                bool good = true;

                if (field.wire == WIRE_BYTES && field.number == 1)
                        good = read_resource(context, &field);
                else if (field.wire == WIRE_BYTES && field.number == 2)
                        good = read_extra(context, &field, offsets);
                if (!good)
                        return false;
        }
        take_node_layout(context, offsets);
        return !cursor.failed;
}

int process_context_decode(const void *payload, size_t size, ProcessContext **contextp) {
        _cleanup_(process_context_freep) ProcessContext *context = calloc(1, sizeof(*context));
        static uint64_t last_serial;

        if (!context)
                return error_origin(-ENOMEM);
        context->payload = malloc(size ? size : 1);
        if (!context->payload)
                return error_origin(-ENOMEM);
        memcpy(context->payload, payload, size);
        context->payload_size = size;
        if (!read_payload(context))
                return PROCESS_CONTEXT_E_MALFORMED;
        context->serial = ++last_serial;
        *contextp = take(context);
        return 0;
}

ProcessContext *process_context_free(ProcessContext *context) {
        if (!context)
                return NULL;
        free(context->payload);
        free(context);
        return NULL;
}

unsigned process_header_faults(const struct spanprof_process_header *header) {
        unsigned faults = 0;

        if (memcmp(header->signature, SPANPROF_PROCESS_SIGNATURE, sizeof(header->signature)))
                faults |= PROCESS_FAULT_SIGNATURE;
        if (header->version != SPANPROF_PROCESS_VERSION)
                faults |= PROCESS_FAULT_VERSION;
        if (!header->published_ns)
                faults |= PROCESS_FAULT_TIME;
        if (!header->payload_size || header->payload_size > SPANPROF_PROCESS_MAX_PAYLOAD)
                faults |= PROCESS_FAULT_SIZE;
        return faults;
}

/* ---- in a process ---- */

static int condition(int memory) {
        return memory == MEMORY_E_GONE ? PROCESS_CONTEXT_E_GONE : PROCESS_CONTEXT_E_NONE;
}

static int read_header(pid_t pid, uint64_t address, struct spanprof_process_header *header) {
        int r = memory_read(pid, address, header, sizeof(*header));

        if (r)
                return condition(r);
        return process_header_faults(header) & PROCESS_FAULT_SIGNATURE ? PROCESS_CONTEXT_E_NONE : 0;
}

/* Tries to read once. Return: also BUSY = the header has changed meanwhile. */
static int read_once(pid_t pid, uint64_t address, uint8_t *payload, struct spanprof_process_header *before) {
        struct spanprof_process_header after;
        int r = read_header(pid, address, before);
        unsigned faults;

        if (r)
                return r;
        faults = process_header_faults(before);
        if (faults & PROCESS_FAULT_VERSION)
                return before->version ? PROCESS_CONTEXT_E_VERSION : PROCESS_CONTEXT_E_BUSY;
        if (faults)
                return faults & PROCESS_FAULT_TIME ? PROCESS_CONTEXT_E_BUSY : PROCESS_CONTEXT_E_MALFORMED;
        r = memory_read(pid, before->payload, payload, before->payload_size);
        if (r == MEMORY_E_GONE)
                return PROCESS_CONTEXT_E_GONE;
        if (read_header(pid, address, &after) || after.published_ns != before->published_ns)
                return PROCESS_CONTEXT_E_BUSY;
        return r ? PROCESS_CONTEXT_E_MALFORMED : 0;
}

int process_context_copy(pid_t pid, uint64_t address, struct spanprof_process_header *header,
                         uint8_t *payload) {
        int r = PROCESS_CONTEXT_E_BUSY;

        *header = (struct spanprof_process_header){ 0 };
        for (unsigned i = 0; i < READ_TRIES && r == PROCESS_CONTEXT_E_BUSY; i++)
                r = read_once(pid, address, payload, header);
        return r;
}

int process_context_read(pid_t pid, uint64_t address, uint32_t *versionp, ProcessContext **contextp) {
        _cleanup_(freep) uint8_t *payload = malloc(SPANPROF_PROCESS_MAX_PAYLOAD);
        struct spanprof_process_header header;
        int r;

        *versionp = 0;
        if (!payload)
                return error_origin(-ENOMEM);
        r = process_context_copy(pid, address, &header, payload);
        *versionp = header.version;
        if (!r)
                r = process_context_decode(payload, header.payload_size, contextp);
        if (r)
                return r;
        (*contextp)->address = address;
        (*contextp)->published_ns = header.published_ns;
        return 0;
}

int process_context_check(pid_t pid, const ProcessContext *context) {
        struct spanprof_process_header header;
        int r = read_header(pid, context->address, &header);

        if (r)
                return r;
        return header.published_ns == context->published_ns ? 0 : PROCESS_CONTEXT_E_BUSY;
}

/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * What the JSON printer and reader (and the decoder) share: names, and where protobuf-c keeps a field.
 */

#include <protobuf-c/protobuf-c.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

/* Whether @json is @name (time_unix_nano) in lowerCamelCase (timeUnixNano). */
static inline bool json_name_equals(const char *name, const char *json) {
        for (; *name; name++, json++) {
                char c = *name;

                if (c == '_' && name[1] >= 'a' && name[1] <= 'z')
                        c = (char)(*++name - 'a' + 'A');
                if (c != *json)
                        return false;
        }
        return !*json;
}

/* OTLP's exception to protobuf's JSON: ids are hex, other bytes base64. */
static inline bool json_is_hex(const ProtobufCFieldDescriptor *field) {
        return !strcmp(field->name, "trace_id") || !strcmp(field->name, "span_id") ||
               !strcmp(field->name, "profile_id");
}

static inline void *json_place(const ProtobufCMessage *message, const ProtobufCFieldDescriptor *field) {
        return (uint8_t *)message + field->offset;
}

static inline size_t *json_count(const ProtobufCMessage *message, const ProtobufCFieldDescriptor *field) {
        return (size_t *)((uint8_t *)message + field->quantifier_offset);
}

/* Of a member of a oneof: the number of the member that is set. */
static inline uint32_t *json_case(const ProtobufCMessage *message, const ProtobufCFieldDescriptor *field) {
        return (uint32_t *)((uint8_t *)message + field->quantifier_offset);
}

static inline size_t json_value_size(const ProtobufCFieldDescriptor *field) {
        switch (field->type) {
        case PROTOBUF_C_TYPE_INT64:
        case PROTOBUF_C_TYPE_SINT64:
        case PROTOBUF_C_TYPE_SFIXED64:
        case PROTOBUF_C_TYPE_UINT64:
        case PROTOBUF_C_TYPE_FIXED64:
        case PROTOBUF_C_TYPE_DOUBLE:
                return 8;
        case PROTOBUF_C_TYPE_BOOL:
                return sizeof(protobuf_c_boolean);
        case PROTOBUF_C_TYPE_STRING:
        case PROTOBUF_C_TYPE_MESSAGE:
                return sizeof(void *);
        case PROTOBUF_C_TYPE_BYTES:
                return sizeof(ProtobufCBinaryData);
        default:
                return 4;
        }
}

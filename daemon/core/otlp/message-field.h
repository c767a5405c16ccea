/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Message Fields
 *
 * Where protobuf-c keeps the fields of a message, for those who walk over any message by its descriptor.
 */

#include <protobuf-c/protobuf-c.h>
#include <stddef.h>
#include <stdint.h>

static inline void *field_place(const ProtobufCMessage *message, const ProtobufCFieldDescriptor *field) {
        return (uint8_t *)message + field->offset;
}

static inline size_t *field_count(const ProtobufCMessage *message, const ProtobufCFieldDescriptor *field) {
        return (size_t *)((uint8_t *)message + field->quantifier_offset);
}

/* Number of the oneof's member that is set. @field: a member of it. */
static inline uint32_t *field_case(const ProtobufCMessage *message, const ProtobufCFieldDescriptor *field) {
        return (uint32_t *)((uint8_t *)message + field->quantifier_offset);
}

/* Size of one value of a repeated field. */
static inline size_t field_value_size(const ProtobufCFieldDescriptor *field) {
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

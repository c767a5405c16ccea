/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Wire
 *
 * The little of the protobuf wire format that the encoder frames by hand: a
 * message too large to build as a tree is written as tag, length and the packed
 * messages inside it. Field numbers come from the generated descriptors.
 */

#include <protobuf-c/protobuf-c.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

/* Tag of a length-delimited field; every number that we frame is below 16, so it is one byte. */
static inline uint8_t wire_tag(const ProtobufCMessageDescriptor *descriptor, const char *name) {
        return (uint8_t)(protobuf_c_message_descriptor_get_field_by_name(descriptor, name)->id << 3 | 2);
}

/* The same of a number. */
static inline uint8_t wire_number_tag(const ProtobufCMessageDescriptor *descriptor, const char *name) {
        return (uint8_t)(protobuf_c_message_descriptor_get_field_by_name(descriptor, name)->id << 3);
}

static inline size_t wire_varint_size(uint64_t value) {
        return (size_t)(63 - __builtin_clzll(value | 1)) / 7 + 1;
}

static inline uint8_t *wire_put_varint(uint8_t *to, uint64_t value) {
        for (; value >= 0x80; value >>= 7)
                *to++ = (uint8_t)(value | 0x80);
        *to++ = (uint8_t)value;
        return to;
}

/* Bytes of a field with @size bytes inside. */
static inline size_t wire_field_size(size_t size) {
        return 1 + wire_varint_size(size) + size;
}

static inline uint8_t *wire_put_header(uint8_t *to, uint8_t tag, size_t size) {
        *to++ = tag;
        return wire_put_varint(to, size);
}

static inline uint8_t *wire_put_bytes(uint8_t *to, uint8_t tag, const void *data, size_t size) {
        to = wire_put_header(to, tag, size);
        memcpy(to, data, size);
        return to + size;
}

/* A number as a field: 0 is left out. */
static inline size_t wire_number_size(uint64_t value) {
        return value ? 1 + wire_varint_size(value) : 0;
}

static inline uint8_t *wire_put_number(uint8_t *to, uint8_t tag, uint64_t value) {
        if (!value)
                return to;
        *to++ = tag;
        return wire_put_varint(to, value);
}

/* Indexes in one field. Return: bytes inside. */
static inline size_t wire_indexes_size(const int32_t *indexes, size_t n) {
        size_t size = 0;

        for (size_t i = 0; i < n; i++)
                size += wire_varint_size((uint64_t)indexes[i]);
        return size;
}

static inline uint8_t *wire_put_indexes(uint8_t *to, uint8_t tag, const int32_t *indexes, size_t n) {
        if (!n)
                return to;
        to = wire_put_header(to, tag, wire_indexes_size(indexes, n));
        for (size_t i = 0; i < n; i++)
                to = wire_put_varint(to, (uint64_t)indexes[i]);
        return to;
}

static inline size_t wire_message_size(const ProtobufCMessage *message) {
        return wire_field_size(protobuf_c_message_get_packed_size(message));
}

static inline uint8_t *wire_put_message(uint8_t *to, uint8_t tag, const ProtobufCMessage *message) {
        to = wire_put_header(to, tag, protobuf_c_message_get_packed_size(message));
        return to + protobuf_c_message_pack(message, to);
}

/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Walks over the bytes by the descriptors of protobuf-c, and adds up the memory that decoding would take.
 * Only a message within the limits of depth and memory is decoded.
 */

#include "core/otlp/decode.h"

#include <errno.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/data/arena.h"
#include "core/base/data/cursor.h"
#include "core/base/util/error.h"
#include "core/base/util/macro.h"
#include "core/otlp/json.h"
#include "core/otlp/message-field.h"

enum {
        /*
         * Beyond this and so many times the input, a message is made to waste memory: honest ones take five
         * to ten.
         */
        FREE_MEMORY = 64 << 20,
        MAX_AMPLIFICATION = 16,
        /* protobuf-c notes each field of a message while it unpacks it; the first 16 on the stack. */
        PER_FIELD = 48,
        FREE_FIELDS = 16,
};

typedef struct Scan {
        size_t memory, max_memory;
} Scan;

/*
 * Fields are read as protobuf-c reads them, not by core/base/data/protobuf.h: the scan foresees what
 * protobuf-c will allocate, so it must not refuse what that takes. It takes bits of a varint above the 64th.
 */
static uint64_t read_varint(Cursor *cursor) {
        uint64_t value = 0;

        for (unsigned shift = 0; shift < 70; shift += 7) {
                uint8_t byte = cursor_u8(cursor);

                value |= shift < 64 ? (uint64_t)(byte & 0x7F) << shift : 0;
                if (!(byte & 0x80))
                        return value;
        }
        cursor->failed = true;
        return 0;
}

/* Takes the value of a field. *innerp: the bytes of a length-delimited one. */
static void take_value(Cursor *cursor, unsigned wire_type, Cursor *innerp) {
        uint64_t size;

        *innerp = (Cursor){ 0 };
        switch (wire_type) {
        case 0:
                read_varint(cursor);
                break;
        case 1:
                cursor_take(cursor, 8);
                break;
        case 2:
                size = read_varint(cursor);
                if (size <= cursor_left(cursor))
                        *innerp = cursor_make(cursor_take(cursor, size), size);
                else
                        cursor->failed = true;
                break;
        case 5:
                cursor_take(cursor, 4);
                break;
        default:
                cursor->failed = true;  /* groups: protobuf-c has none */
        }
}

/* Memory that protobuf-c will allocate for a value of @size bytes. */
static size_t value_memory(const ProtobufCFieldDescriptor *field, size_t size) {
        if (!field)
                return size + 32;       /* kept as an unknown field */
        if (field->type == PROTOBUF_C_TYPE_STRING || field->type == PROTOBUF_C_TYPE_BYTES)
                return size + 32;
        return (size + 1) * field_value_size(field);    /* packed: one byte may be one value */
}

static int scan_message(Scan *scan, const ProtobufCMessageDescriptor *descriptor, Cursor cursor,
                        unsigned depth) {
        if (depth == OTLP_DECODE_MAX_DEPTH)
                return OTLP_DECODE_E_TOO_DEEP;
        scan->memory += descriptor->sizeof_message;
        for (size_t n = 0; cursor_left(&cursor); n++) {
                uint64_t tag = read_varint(&cursor);
                const ProtobufCFieldDescriptor *field = NULL;
                Cursor inner;
                int r;

                if (tag >> 3 <= UINT32_MAX >> 3)
                        field = protobuf_c_message_descriptor_get_field(descriptor, (unsigned)(tag >> 3));
                take_value(&cursor, (unsigned)tag & 7, &inner);
                scan->memory += n < FREE_FIELDS ? sizeof(void *) : PER_FIELD;
                if (field && field->type == PROTOBUF_C_TYPE_MESSAGE && (tag & 7) == 2) {
                        r = scan_message(scan, field->descriptor, inner, depth + 1);
                        if (r)
                                return r;
                } else {
                        scan->memory += value_memory(field, inner.size);
                }
                if (scan->memory > scan->max_memory)
                        return OTLP_DECODE_E_TOO_LARGE;
        }
        return cursor.failed ? OTLP_DECODE_E_MALFORMED : 0;
}

static int decode(const ProtobufCMessageDescriptor *descriptor, const uint8_t *data, size_t size,
                  size_t max_memory, ProtobufCAllocator *allocator, ProtobufCMessage **messagep) {
        Scan scan = { .max_memory = MIN(FREE_MEMORY + MAX_AMPLIFICATION * size, max_memory) };
        ProtobufCMessage *message;
        int r;

        if (size > OTLP_DECODE_MAX_BYTES)
                return OTLP_DECODE_E_TOO_LARGE;
        r = scan_message(&scan, descriptor, cursor_make(data, size), 0);
        if (r)
                return r;
        message = protobuf_c_message_unpack(descriptor, allocator, size, data);
        if (!message)
                return OTLP_DECODE_E_MALFORMED;
        *messagep = message;
        return 0;
}

int otlp_decode(const ProtobufCMessageDescriptor *descriptor, const uint8_t *data, size_t size,
                size_t max_memory, ProtobufCMessage **messagep) {
        return decode(descriptor, data, size, max_memory, NULL, messagep);
}

/*
 * A request and what it consists of: millions of small pieces, which are given back at once if they came from
 * protobuf, and one by one if they came from JSON.
 */
typedef struct Owned {
        Arena arena;
        ProtobufCMessage *heap;
        OtlpRequest request;
} Owned;

static Owned *owner(OtlpRequest *request) {
        return (Owned *)((uint8_t *)request - offsetof(Owned, request));
}

static void *arena_give(void *arena, size_t size) {
        return arena_alloc(arena, size);
}

static void arena_take(void *arena, void *piece) {
}

static const char *describe(int r) {
        switch (r) {
        case OTLP_DECODE_E_TOO_LARGE:
                return "too large";
        case OTLP_DECODE_E_TOO_DEEP:
                return "nested too deeply";
        default:
                return "no protobuf of an ExportProfilesServiceRequest";
        }
}

static int parse_json(const uint8_t *data, size_t size, ProtobufCMessage **messagep, char *where,
                      size_t where_size) {
        char path[256];
        int r;

        if (size > OTLP_DECODE_MAX_BYTES) {
                snprintf(where, where_size, "%s", describe(OTLP_DECODE_E_TOO_LARGE));
                return OTLP_DECODE_E_TOO_LARGE;
        }
        r = otlp_json_parse(OTLP_REQUEST_DESCRIPTOR, (const char *)data, size, messagep, path, sizeof(path));
        if (r == OTLP_JSON_E_SYNTAX)
                snprintf(where, where_size, "no JSON near %s", path);
        else if (r == OTLP_JSON_E_SHAPE)
                snprintf(where, where_size, "%s: wrong type or out of range", path[0] ? path : "the whole");
        return r > 0 ? OTLP_DECODE_E_MALFORMED : r;
}

static bool is_blank(uint8_t c) {
        return c == ' ' || c == '\t' || c == '\r' || c == '\n';
}

/* A protobuf may begin with white space and a brace too: a newline is the tag of resource_profiles. */
static bool looks_like_json(const uint8_t *data, size_t size) {
        while (size && is_blank(*data)) {
                data++;
                size--;
        }
        return size && *data == '{';
}

int otlp_decode_request_as(const uint8_t *data, size_t size, OtlpRequest **requestp, bool *jsonp, char *where,
                           size_t where_size) {
        Owned *owned = calloc(1, sizeof(*owned));
        _cleanup_(otlp_request_freep) OtlpRequest *request = owned ? &owned->request : NULL;
        ProtobufCAllocator allocator = { .alloc = arena_give, .free = arena_take, .allocator_data = owned };
        ProtobufCMessage *message = NULL;
        int r = OTLP_DECODE_E_MALFORMED;

        *jsonp = false;
        if (!owned)
                return error_origin(-ENOMEM);
        if (!size || data[0] != '{')
                r = decode(OTLP_REQUEST_DESCRIPTOR, data, size, SIZE_MAX, &allocator, &message);
        *jsonp = r == OTLP_DECODE_E_MALFORMED && looks_like_json(data, size);
        if (*jsonp)
                r = parse_json(data, size, &message, where, where_size);
        else if (r)
                snprintf(where, where_size, "%s", describe(r));
        if (r)
                return r;
        owned->request = *(OtlpRequest *)message;
        owned->heap = *jsonp ? message : NULL;
        *requestp = take(request);
        return 0;
}

int otlp_decode_request(const uint8_t *data, size_t size, OtlpRequest **requestp, char *where,
                        size_t where_size) {
        bool json;

        return otlp_decode_request_as(data, size, requestp, &json, where, where_size);
}

void otlp_request_freep(OtlpRequest **requestp) {
        if (*requestp) {
                Owned *owned = owner(*requestp);

                protobuf_c_message_free_unpacked(owned->heap, NULL);
                arena_deinit(&owned->arena);
                free(owned);
        }
        *requestp = NULL;
}

void otlp_request_free_profile(OtlpRequest *request, OtlpProfile *profile) {
        if (owner(request)->heap)
                protobuf_c_message_free_unpacked(&profile->base, NULL);
}

/* Within a document there is always a comma or bracket between `}` and `{`. */
size_t otlp_document_size(const uint8_t *data, size_t size) {
        const uint8_t *end = data + size;

        if (!size || *data != '{')
                return size;
        for (const uint8_t *at = data; (at = memchr(at, '\n', (size_t)(end - at))); at++) {
                const uint8_t *before = at, *after = at;

                while (before > data && is_blank(*before))
                        before--;
                while (after < end && is_blank(*after))
                        after++;
                if (*before == '}' && after < end && *after == '{')
                        return (size_t)(after - data);
        }
        return size;
}

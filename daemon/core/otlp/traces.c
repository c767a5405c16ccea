/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Tells the two forms apart by the first byte, decodes message by message, and visits its spans:
 *
 *     {                  JSON, a message a line
 *     00 to 04           four bytes of a length (big-endian, up to 64 MiB), then that much protobuf, or a
 *                        packed message of either encoding
 *
 * Source: documentation of the file exporter of OpenTelemetry's Collector (formats json and proto).
 */

#include "core/otlp/traces.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/data/intern.h"
#include "core/base/file/unpack.h"
#include "core/base/util/error.h"
#include "core/base/util/macro.h"
#include "core/base/util/text.h"
#include "core/otlp/decode.h"
#include "core/otlp/json.h"
#include "opentelemetry/proto/trace/v1/trace.pb-c.h"

typedef Opentelemetry__Proto__Trace__V1__TracesData TracesData;
typedef Opentelemetry__Proto__Trace__V1__ResourceSpans ResourceSpans;
typedef Opentelemetry__Proto__Trace__V1__Span Span;

#define DESCRIPTOR (&opentelemetry__proto__trace__v1__traces_data__descriptor)
#define KIND(_kind) OPENTELEMETRY__PROTO__TRACE__V1__SPAN__SPAN_KIND__SPAN_KIND_##_kind

enum {
        LENGTH_SIZE = 4,
        HIGHEST_BYTE = OTLP_DECODE_MAX_BYTES >> 24,     /* highest byte of a length */
        MAX_MEMORY = 1 << 30,           /* bytes of a message, decoded */
};

typedef struct Reading {
        OtlpSpanTake *on_span;
        void *userdata;
        uint64_t *placep;
        char *where;
        size_t where_size;
} Reading;

static int invalid(const Reading *reading, const char *text) {
        snprintf(reading->where, reading->where_size, "%s", text);
        return OTLP_TRACES_E_INVALID;
}

/* ---- a message ---- */

static uint64_t id_of(const ProtobufCBinaryData *bytes) {
        uint64_t id = 0;

        for (size_t i = 0; bytes->len == 8 && i < 8; i++)
                id = id << 8 | bytes->data[i];
        return id;
}

static int process_of(const OtlpResource *resource, uint64_t *processp) {
        size_t size = resource ? protobuf_c_message_get_packed_size(&resource->base) : 0;
        _cleanup_(freep) uint8_t *data = malloc(size + 1);

        if (!data)
                return error_origin(-ENOMEM);
        *processp = resource ? hash_bytes(data, protobuf_c_message_pack(&resource->base, data)) : 0;
        return 0;
}

static const char *route_of(const Span *span) {
        for (size_t i = 0; i < span->n_attributes; i++) {
                const OtlpKeyValue *pair = span->attributes[i];

                if (!strcmp(pair->key, "http.route") && pair->value && pair->value->value_case == OTLP_ANY_STRING)
                        return pair->value->string_value;
        }
        return "";
}

static int visit_span(const Reading *reading, const Span *span, uint64_t process) {
        const OtlpSpan found = { .id = id_of(&span->span_id),
                                 .parent = id_of(&span->parent_span_id),
                                 .process = process,
                                 .is_entry = span->kind == KIND(SERVER) || span->kind == KIND(CONSUMER),
                                 .name = span->name,
                                 .route = route_of(span) };

        return found.id ? reading->on_span(reading->userdata, &found) : 0;
}

static int visit_resource(const Reading *reading, const ResourceSpans *spans) {
        uint64_t process = 0;
        int r = process_of(spans->resource, &process);

        for (size_t i = 0; i < spans->n_scope_spans; i++)
                for (size_t k = 0; k < spans->scope_spans[i]->n_spans && !r; k++)
                        r = visit_span(reading, spans->scope_spans[i]->spans[k], process);
        return r;
}

static int visit(const Reading *reading, ProtobufCMessage *message) {
        const TracesData *data = (const TracesData *)message;
        int r = 0;

        for (size_t i = 0; i < data->n_resource_spans && !r; i++)
                r = visit_resource(reading, data->resource_spans[i]);
        protobuf_c_message_free_unpacked(message, NULL);
        return r;
}

/* ---- the forms ---- */

static int read_protobuf(const Reading *reading, const char *data, size_t size) {
        ProtobufCMessage *message;
        int r = otlp_decode(DESCRIPTOR, (const uint8_t *)data, size, MAX_MEMORY, &message);

        if (r < 0)
                return error_fold(r);
        return r ? invalid(reading, "this is no message of traces in OTLP") : visit(reading, message);
}

static int read_line(const Reading *reading, const char *data, size_t size) {
        char where[64];
        ProtobufCMessage *message;
        int r;

        if (size > OTLP_DECODE_MAX_BYTES || otlp_json_memory(data, size) > MAX_MEMORY)
                return invalid(reading, "the line is too long");
        r = otlp_json_parse(DESCRIPTOR, data, size, &message, where, sizeof(where));
        if (r < 0)
                return error_fold(r);
        if (!r)
                return visit(reading, message);
        snprintf(reading->where, reading->where_size, "this is no %s: %s",
                 r == OTLP_JSON_E_SYNTAX ? "JSON" : "message of traces in OTLP", where);
        return OTLP_TRACES_E_INVALID;
}

/* ---- messages with their lengths before them ---- */

static int append(const uint8_t *data, size_t size, void *userdata) {
        Text *text = userdata;

        if (text->size + size > OTLP_DECODE_MAX_BYTES)
                return OTLP_TRACES_E_INVALID;
        text_append(text, (const char *)data, size);
        return text->failed ? error_origin(-ENOMEM) : 0;
}

static int unpack(const Reading *reading, const char *data, size_t size, Text *text) {
        _cleanup_(unpack_freep) Unpack *unpack = NULL;
        int r = unpack_new(&unpack, (const uint8_t *)data, size);

        if (!r)
                r = unpack_feed(unpack, (const uint8_t *)data, size, append, text);
        if (!r)
                r = unpack_end(unpack);
        if (r < 0)
                return error_fold(r);
        return r ? invalid(reading, "the packed message is damaged, or too large") : 0;
}

static int read_plain(const Reading *reading, const char *data, size_t size) {
        return size && data[0] == '{' ? read_line(reading, data, size) : read_protobuf(reading, data, size);
}

/* With `compression: zstd` the exporter packs each message, and writes lengths also of JSON. */
static int read_message(const Reading *reading, const char *data, size_t size) {
        _cleanup_(text_deinit) Text text = { 0 };
        int r;

        if (!unpack_is_packed((const uint8_t *)data, size))
                return read_plain(reading, data, size);
        r = unpack(reading, data, size, &text);
        return r ? r : read_plain(reading, text.data ? text.data : "", text.size);
}

static int read_messages(const Reading *reading, const char *data, size_t size) {
        for (size_t at = 0; at < size;) {
                size_t length = 0;
                int r;

                ++*reading->placep;
                for (int i = 0; i < LENGTH_SIZE && size - at >= LENGTH_SIZE; i++)
                        length = length << 8 | (uint8_t)data[at + (size_t)i];
                if (size - at < LENGTH_SIZE || length > size - at - LENGTH_SIZE)
                        return invalid(reading, "the message is cut off, or this is no file of a file exporter");
                r = read_message(reading, data + at + LENGTH_SIZE, length);
                if (r)
                        return r;
                at += LENGTH_SIZE + length;
        }
        return 0;
}

static bool is_blank(const char *at, const char *end) {
        while (at < end && (*at == ' ' || *at == '\t' || *at == '\r'))
                at++;
        return at == end;
}

static int read_lines(const Reading *reading, const char *data, size_t size) {
        for (const char *at = data, *end = data + size; at < end;) {
                const char *newline = memchr(at, '\n', (size_t)(end - at)), *stop = newline ? newline : end;
                int r = 0;

                ++*reading->placep;
                if (!is_blank(at, stop))
                        r = read_line(reading, at, (size_t)(stop - at));
                if (r)
                        return r;
                at = newline ? newline + 1 : end;
        }
        return 0;
}

bool otlp_traces_are(const char *data, size_t size) {
        return size && (data[0] == '{' || (uint8_t)data[0] <= HIGHEST_BYTE);
}

int otlp_traces_read(const char *data, size_t size, OtlpSpanTake *on_span, void *userdata, uint64_t *placep,
                     char *where, size_t where_size) {
        const Reading reading = { on_span, userdata, placep, where, where_size };

        *placep = 0;
        return size && data[0] == '{' ? read_lines(&reading, data, size) : read_messages(&reading, data, size);
}

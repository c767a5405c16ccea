/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * OTLP Decoder
 *
 * Bytes of another program → a message. protobuf-c has no limit on depth and takes some
 * fifty times the memory of a message full of empty ones, so the bytes are scanned
 * before it sees them.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/otlp/messages.h"

enum {
        _OTLP_DECODE_E_SUCCESS,
        /* more than OTLP_DECODE_MAX_BYTES, or it would need too much memory */
        OTLP_DECODE_E_TOO_LARGE,
        OTLP_DECODE_E_TOO_DEEP,         /* messages in messages, more than OTLP_DECODE_MAX_DEPTH */
        OTLP_DECODE_E_MALFORMED,        /* no such protobuf, or no such JSON */
};

enum {
        OTLP_DECODE_MAX_BYTES = 64 << 20,
        OTLP_DECODE_MAX_DEPTH = 32,
};

/*
 * *messagep is owned by the caller (protobuf_c_message_free_unpacked). Its strings may be no UTF-8.
 * @max_memory: of the message; there is a bound in proportion to @size in any case. Return: 0,
 * OTLP_DECODE_E_*.
 */
int otlp_decode(const ProtobufCMessageDescriptor *descriptor, const uint8_t *data, size_t size,
                size_t max_memory, ProtobufCMessage **messagep);

/*
 * A request as protobuf or as JSON, told by the first byte (`{` begins no request).
 * @where (@where_size bytes): what is wrong, for people. Return: 0, OTLP_DECODE_E_*, -ENOMEM.
 */
int otlp_decode_request(const uint8_t *data, size_t size, OtlpRequest **requestp, char *where,
                        size_t where_size);

/* The same; *jsonp: which of the two it was. */
int otlp_decode_request_as(const uint8_t *data, size_t size, OtlpRequest **requestp, bool *jsonp, char *where,
                           size_t where_size);

/*
 * Size of the first JSON document of a text of several, one a line, as the file exporter of a collector
 * writes them; of protobuf it is all.
 */
size_t otlp_document_size(const uint8_t *data, size_t size);

/* Only of what otlp_decode_request() made, with all profiles that are still in it. */
void otlp_request_freep(OtlpRequest **requestp);

/* Frees a profile that the caller has taken out of the request. */
void otlp_request_free_profile(OtlpRequest *request, OtlpProfile *profile);

/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * OTLP/JSON
 *
 * One printer and one reader for all messages, both driven by protobuf-c's
 * message descriptors. JSON rules of OTLP: lowerCamelCase names; trace ids, span ids
 * and profile ids as hex; other bytes base64; 64-bit integers as decimal strings; enums as
 * numbers; zero values left out; unknown names ignored on the way in. There the names of the .proto
 * (resource_profiles) are taken as well, as protobuf's own parsers take them.
 */

#include <protobuf-c/protobuf-c.h>
#include <stddef.h>

#include "core/base/util/text.h"

enum {
        _OTLP_JSON_E_SUCCESS,
        OTLP_JSON_E_SYNTAX,             /* no JSON */
        OTLP_JSON_E_SHAPE,              /* JSON, but a field has the wrong type or range */
};

/* Appends @message to @text, indented when @pretty. Check text->failed afterwards. */
void otlp_json_print(Text *text, const ProtobufCMessage *message, int pretty);

/* Return: 0 = go on; anything else ends the printing. */
typedef int OtlpJsonTake(const char *data, size_t size, void *userdata);

/*
 * The same, handed on piece by piece: it takes no memory for the whole. Return: 0, what @on_piece returned,
 * -ENOMEM.
 */
int otlp_json_write(const ProtobufCMessage *message, int pretty, OtlpJsonTake *on_piece, void *userdata);

/* Upper bound of the memory that otlp_json_parse() will allocate for this text, which need not be JSON. */
size_t otlp_json_memory(const char *data, size_t size);

/*
 * Reads a message of @descriptor. *messagep is owned by the caller (protobuf_c_message_free_unpacked).
 * @where (with @where_size bytes) gets the path of the offending element on error, or for
 * OTLP_JSON_E_SYNTAX the line and column (where a name should be, cJSON points one too far).
 * Return: 0, OTLP_JSON_E_*, -ENOMEM.
 */
int otlp_json_parse(const ProtobufCMessageDescriptor *descriptor, const char *data, size_t size,
                    ProtobufCMessage **messagep, char *where, size_t where_size);

/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Responses
 *
 * Reads the two tiny messages that a receiver sends back: an ExportProfilesServiceResponse after success and
 * a google.rpc.Status after an error, each as protobuf or JSON, or any text that comes instead. The bytes
 * are not trusted: nothing is allocated, every length is checked, and a message leaves here as one printable
 * line.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/http/transport.h"

enum { RESPONSE_MESSAGE_MAX = 256 };

typedef struct Response {
        bool malformed;                 /* success: neither empty nor such a message, or not all of it came */
        bool is_other;                  /* success: all of it came, and is something else */
        uint64_t n_rejected;            /* profiles; only in a success */
        char message[RESPONSE_MESSAGE_MAX];     /* "" = none */
} Response;

/* @content_type: header of the reply, "" = none. */
void response_read_success(Response *response, const char *content_type, const uint8_t *data, size_t size);
void response_read_error(Response *response, const char *content_type, const uint8_t *data, size_t size);

/* The body of a reply with a status: expands it, picks the right reader, trusts no half of a success. */
void response_read_reply(Response *response, const HttpReply *reply);

/* Whether the body of a reply, expanded, has @words anywhere. */
bool response_says(const HttpReply *reply, const char *words);

/*
 * Copies text so that it fits into a log line: bad UTF-8 repaired, lines joined, masked
 * (core/base/util/text.h), cut at @room.
 */
void response_clean(char *to, size_t room, const char *text, size_t size);

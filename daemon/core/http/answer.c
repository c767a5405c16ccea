/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Writes the body of an error by hand: two fields, in JSON or as protobuf.
 */

#include "core/http/answer.h"

#include <string.h>

#include "core/base/data/json-writer.h"

/* google.rpc.Code for a status: the specification asks for a google.rpc.Status in error bodies. */
static unsigned char rpc_code(int status) {
        switch (status) {
        case 401:
                return 16;
        case 404:
                return 5;
        case 405:
                return 12;
        case 413:
                return 8;
        case 503:
                return 14;
        default:
                return 3;
        }
}

/* Control characters of a message become blanks. */
void answer_status_json(Text *text, int status, const char *message) {
        JsonWriter json = { .text = text };
        _cleanup_(text_deinit) Text line = { 0 };

        for (; *message; message++)
                text_append(&line, (unsigned char)*message < ' ' ? " " : message, 1);
        json_open(&json, NULL, '{');
        json_number(&json, "code", rpc_code(status));
        json_text(&json, "message", line.data ? line.data : "");
        json_close(&json, '}');
}

void answer_status_protobuf(Text *text, int status, const char *message) {
        size_t size = strnlen(message, ANSWER_MESSAGE_MAX);
        unsigned char head[] = { 0x08, rpc_code(status), 0x12, (unsigned char)(size & 0x7F), 0 };

        /* the length is a varint: one byte up to 127, two here */
        if (size >= 0x80) {
                head[3] |= 0x80;
                head[4] = (unsigned char)(size >> 7);
        }
        text_append(text, (const char *)head, size >= 0x80 ? 5 : 4);
        text_append(text, message, size);
}

/* SPDX-License-Identifier: Apache-2.0 */

/*
 * JSON that somebody else chose: what is read must print as JSON that reads back to the same message.
 */

#include <stdlib.h>
#include <string.h>

#include "core/otlp/json.h"
#include "core/otlp/messages.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static ProtobufCMessage *parse(const char *data, size_t size) {
        ProtobufCMessage *message = NULL;
        char where[128];

        return otlp_json_parse(OTLP_REQUEST_DESCRIPTOR, data, size, &message, where, sizeof(where)) ? NULL
                                                                                                    : message;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
        ProtobufCMessage *first = parse((const char *)data, size), *second;
        Text a = { 0 }, b = { 0 };

        if (!first)
                return 0;
        otlp_json_print(&a, first, size & 1);
        second = parse(a.data, a.size);
        if (!second)
                abort();
        otlp_json_print(&b, second, size & 1);
        if (a.size != b.size || memcmp(a.data, b.data, a.size))
                abort();
        text_deinit(&a);
        text_deinit(&b);
        protobuf_c_message_free_unpacked(first, NULL);
        protobuf_c_message_free_unpacked(second, NULL);
        return 0;
}

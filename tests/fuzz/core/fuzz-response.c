/* SPDX-License-Identifier: Apache-2.0 */

/*
 * A receiver's reply: first byte = which content type and which of the readers, the rest is the body.
 * Whatever comes, the message is one printable line of UTF-8 and garbage rejects nothing.
 */

#include <stdlib.h>
#include <string.h>

#include "core/base/util/text.h"
#include "core/http/response.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check(const Response *response) {
        size_t n = strlen(response->message);

        if (n >= sizeof(response->message) || !text_is_utf8(response->message, n))
                abort();
        for (size_t i = 0; i < n; i++)
                if ((unsigned char)response->message[i] < ' ')
                        abort();
        if (response->n_rejected > INT64_MAX)
                abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
        static const char *const types[] = { "application/x-protobuf", "application/json", "text/plain",
                                             "text/html", "" };
        const char *type;
        Response response;

        if (size == 0)
                return 0;
        type = types[(data[0] & 0x7F) % 5];
        if (data[0] & 0x80) {
                response_read_error(&response, type, data + 1, size - 1);
        } else {
                response_read_success(&response, type, data + 1, size - 1);
                if (response.malformed && !strcmp(type, types[0]) && response.n_rejected)
                        abort();
        }
        check(&response);
        return 0;
}

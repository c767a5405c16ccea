/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Decodes one request and writes it in the other form: protobuf from JSON, or JSON from protobuf.
 */

#include "core/otlp/transcode.h"

#include <errno.h>

#include "core/base/util/error.h"
#include "core/base/util/macro.h"
#include "core/otlp/decode.h"
#include "core/otlp/json.h"

static int print(const OtlpRequest *request, uint8_t **datap, size_t *sizep) {
        _cleanup_(text_deinit) Text text = { 0 };

        otlp_json_print(&text, &request->base, 0);
        if (text.failed || !text.data)
                return error_origin(-ENOMEM);
        *sizep = text.size;
        *datap = (uint8_t *)take(text.data);
        return 0;
}

static int pack(const OtlpRequest *request, uint8_t **datap, size_t *sizep) {
        size_t size = protobuf_c_message_get_packed_size(&request->base);
        uint8_t *data = malloc(size ? size : 1);

        if (!data)
                return error_origin(-ENOMEM);
        *sizep = protobuf_c_message_pack(&request->base, data);
        *datap = data;
        return 0;
}

int otlp_transcode(const uint8_t *data, size_t size, bool to_json, uint8_t **datap, size_t *sizep) {
        _cleanup_(otlp_request_freep) OtlpRequest *request = NULL;
        char where[128];
        bool json;
        int r = otlp_decode_request_as(data, size, &request, &json, where, sizeof(where));

        if (r)
                return r;
        if (json == to_json)
                return OTLP_DECODE_E_MALFORMED;
        return to_json ? print(request, datap, sizep) : pack(request, datap, sizep);
}

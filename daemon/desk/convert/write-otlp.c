/* SPDX-License-Identifier: Apache-2.0 */

/* OTLP as one protobuf message, or as one JSON document. */

#include <errno.h>
#include <limits.h>

#include "core/base/util/error.h"
#include "core/otlp/json.h"
#include "core/otlp/messages.h"
#include "core/otlp/payload.h"
#include "desk/convert/format.h"

enum { MAX_BYTES = INT_MAX };           /* size of a protobuf message */

typedef struct Output {
        bool pretty;                    /* JSON on many lines */
        ConvertSink sink;
        void *userdata;
} Output;

static int encode(const Convert *convert, OtlpSink sink, void *userdata, Text *problem) {
        OtlpPayload payload = { .encoding = { .max_bytes = MAX_BYTES,
                                              .scope_version = convert->options->version,
                                              .timestamps = convert->options->timestamps,
                                              .one_value = convert->options->one_value,
                                              .untimed_ns = convert->untimed_ns } };
        uint64_t n_lost = 0;
        int r;

        if (convert->options->reshape)
                payload.reshape = *convert->options->reshape;
        r = otlp_payload_encode(&payload, convert->window, sink, userdata, &n_lost);

        if (!r && n_lost) {
                text_printf(problem, "%llu events fit no message", (unsigned long long)n_lost);
                return CONVERT_E_OUTPUT;
        }
        return r;
}

static int pass_on(const uint8_t *data, size_t size, uint64_t n_events, uint64_t n_profiles, void *userdata) {
        Output *output = userdata;

        return output->sink(data, size, n_events, output->userdata);
}

static int write_protobuf(const Convert *convert, ConvertSink sink, void *userdata, Text *problem) {
        Output output = { .sink = sink, .userdata = userdata };

        return encode(convert, pass_on, &output, problem);
}

static int print_json(const uint8_t *data, size_t size, uint64_t n_events, uint64_t n_profiles,
                      void *userdata) {
        Output *output = userdata;
        ProtobufCMessage *message = protobuf_c_message_unpack(OTLP_REQUEST_DESCRIPTOR, NULL, size, data);
        Text text = { 0 };
        int r;

        if (!message)
                return error_origin(-ENOMEM);
        otlp_json_print(&text, message, output->pretty);
        protobuf_c_message_free_unpacked(message, NULL);
        text_append(&text, "\n", 1);
        r = text.failed ? error_origin(-ENOMEM) :
                          output->sink((const uint8_t *)text.data, text.size, n_events, output->userdata);
        text_deinit(&text);
        return r;
}

static int write_json(const Convert *convert, ConvertSink sink, void *userdata, Text *problem) {
        Output output = { convert->options->pretty, sink, userdata };

        return encode(convert, print_json, &output, problem);
}

const ConvertWriter convert_write_otlp = {
        .name = "otlp", .suffixes = ".otlp .pb", .below_zero = true, .write = write_protobuf
};
const ConvertWriter convert_write_json = {
        .name = "json", .suffixes = ".json", .below_zero = true, .write = write_json
};

/* SPDX-License-Identifier: Apache-2.0 */

/*
 * A request that somebody else chose (protobuf or JSON): validate it, decode it, import it, and whatever
 * passes must be encoded and decoded again with as many events.
 */

#include <stdlib.h>
#include <string.h>

#include "core/base/util/text.h"
#include "core/otlp/decode.h"
#include "core/otlp/encode.h"
#include "core/otlp/validate.h"
#include "import-window.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* Paths and texts are whole, whatever the request holds. */
static void look(const ValidateFinding *finding, void *userdata) {
        if (!text_is_utf8(finding->text, strlen(finding->text)) || strlen(finding->path) >= VALIDATE_PATH_MAX)
                abort();
}

static int check(const uint8_t *data, size_t size, uint64_t n_events, uint64_t n_profiles, void *userdata) {
        OtlpRequest *request = NULL;
        char where[128];

        if (otlp_decode_request(data, size, &request, where, sizeof(where)))
                abort();
        otlp_request_freep(&request);
        *(uint64_t *)userdata += n_events;
        return 0;
}

static void round_trip(const Window *window) {
        OtlpOptions options = { .max_bytes = 4096, .timestamps = 1 };
        uint64_t n_events = 0, n_lost = 0;

        if (otlp_encode(window, &options, check, &n_events, &n_lost))
                abort();
        if (n_events + n_lost != window_n_events(window))
                abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
        OtlpRequest *request = NULL;
        Window *window = NULL;
        ValidateCounts counts;
        char where[128];

        if (otlp_validate(data, size, look, &counts, &counts))
                abort();
        if (otlp_decode_request(data, size, &request, where, sizeof(where))) {
                if (!counts.n_errors)
                        abort();
                return 0;
        }
        if (!import_window(&window, (const OtlpRequest *const[]){ request }, 1, &window_default_limits, where,
                           sizeof(where)))
                round_trip(window);
        window_free(window);
        otlp_request_freep(&request);
        return 0;
}

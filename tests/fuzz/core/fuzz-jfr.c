/* SPDX-License-Identifier: Apache-2.0 */

/*
 * A recording by anybody: read it, whatever is wrong with it, and encode what came out. Events that count are
 * in the window, and a second reading gives as many. Its secrets are overwritten in a copy.
 */

#include <stdlib.h>
#include <string.h>

#include "core/otlp/encode.h"
#include "core/jfr/jfr.h"
#include "core/jfr/mask.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static int count_events(const uint8_t *data, size_t size, uint64_t n_events, uint64_t n_profiles,
                        void *userdata) {
        *(uint64_t *)userdata += n_events;
        return 0;
}

static uint64_t read_once(const JfrMemory *bytes) {
        const JfrInput input = jfr_memory_input(bytes);
        const JfrOptions options = {
                .end_ns = UINT64_MAX, .timestamps = true, .max_times = 1000, .arguments = true
        };
        const OtlpOptions encoding = { .timestamps = 1 };
        Text diagnostics = { 0 }, problem = { 0 };
        uint64_t n_encoded = 0, n_lost = 0, n;
        Window *window;
        JfrResult result;
        int r;

        if (window_new(&window, 0, 0, NULL))
                abort();
        r = jfr_read(&input, &options, window, &result, &diagnostics, &problem);
        if (r < 0 || (r && !problem.size))
                abort();
        if (window_close(window, result.end_ns))
                abort();
        n = window_n_events(window);
        if (otlp_encode(window, &encoding, count_events, &n_encoded, &n_lost) || n_encoded + n_lost != n)
                abort();
        window_free(window);
        text_deinit(&diagnostics);
        text_deinit(&problem);
        return n;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
        const JfrMemory bytes = { data, size };
        uint8_t *copy = malloc(size + 1);

        if (!copy)
                abort();
        memcpy(copy, data, size);
        if (jfr_mask(copy, size, false) < 0)
                abort();
        free(copy);
        if (read_once(&bytes) != read_once(&bytes))
                abort();
        return 0;
}

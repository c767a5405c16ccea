/* SPDX-License-Identifier: Apache-2.0 */

/*
 * A chunk by anybody, read from its begin and from its middle: what a worker says of it is what may be said,
 * and a whole request that a window takes, with types of recordings alone.
 */

#include <stdlib.h>
#include <string.h>

#include "core/jfr/jfr.h"
#include "core/otlp/decode.h"
#include "core/otlp/import.h"
#include "host/jfr/jfr-tail.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void import(const uint8_t *data, size_t size) {
        _cleanup_(otlp_request_freep) OtlpRequest *request = NULL;
        _cleanup_(window_freep) Window *window = NULL;
        uint64_t start_ns, end_ns;
        char where[160];

        if (window_new(&window, 0, 0, NULL) ||
            otlp_decode_request(data, size, &request, where, sizeof(where)) ||
            otlp_import_add(window, request, &start_ns, &end_ns, where, sizeof(where)))
                abort();
        for (uint32_t i = 0; i < window_n_profiles(window); i++)
                if (!jfr_type_is_without_time(
                            window_get_string(window, window_get_profile(window, i)->names.type, NULL)))
                        abort();
}

static uint64_t read_from(const JfrMemory *bytes, uint64_t from) {
        const JfrInput input = jfr_memory_input(bytes);
        const JfrTailRequest request = { .magic = JFR_TAIL_MAGIC, .from = from };
        uint8_t *answer;
        JfrTailSaid said;

        if (jfr_tail_read(&input, &request, &said, &answer) || !jfr_tail_check(&said, &request))
                abort();
        if (said.n_bytes)
                import(answer, said.n_bytes);
        free(answer);
        return said.from;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
        const JfrMemory bytes = { data, size };
        uint64_t from = read_from(&bytes, 0);

        read_from(&bytes, from / 2);
        return 0;
}

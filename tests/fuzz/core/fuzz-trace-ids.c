/* SPDX-License-Identifier: Apache-2.0 */

/*
 * A request of spans: ids lie in it, each is one, of what is no request there are none, and a second reading
 * takes the same.
 */

#include <stdlib.h>
#include <string.h>

#include "core/otlp/trace-ids.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

typedef struct Seen {
        const uint8_t *data;
        size_t size;
        uint64_t n, sum;
} Seen;

static void see(void *userdata, const uint8_t id[static 16]) {
        static const uint8_t none[16];
        Seen *seen = userdata;

        if (id < seen->data || id + 16 > seen->data + seen->size || !memcmp(id, none, 16))
                abort();
        seen->n++;
        seen->sum += (uint64_t)(id - seen->data);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
        Seen first = { data, size, 0, 0 }, second = first;
        int r = otlp_trace_ids(data, size, see, &first);

        if (otlp_trace_ids(data, size, see, &second) != r || first.n != second.n || first.sum != second.sum)
                abort();
        if (18 * first.n > size || (r && first.n))      /* a tag, a length and the id */
                abort();
        return 0;
}

/* SPDX-License-Identifier: Apache-2.0 */
#include <stdint.h>
#include <stdlib.h>

#include "host/sampling/sample/kernel-types.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* Corpus: corpus/kernel-types.py makes it. What comes out of any input must go in again. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
        static const char *const names[] = { "pid", "upid", "kind", "nested" };
        void *out, *again;
        size_t out_size, again_size;

        if (kernel_types_extract(data, size, names, 4, &out, &out_size))
                return 0;
        if (kernel_types_extract(out, out_size, names, 4, &again, &again_size))
                abort();
        free(again);
        free(out);
        return 0;
}

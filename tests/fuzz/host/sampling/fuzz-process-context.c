/* SPDX-License-Identifier: Apache-2.0 */
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include "host/sampling/context/process-context.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static uint64_t touch(ContextText text) {
        uint64_t sum = text.size;

        for (size_t i = 0; i < text.size; i++)
                sum += (uint8_t)text.data[i];
        return sum;
}

/* Every text must lie in the payload. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
        ProcessContext *context;
        volatile uint64_t sum = 0;

        if (process_context_decode(data, size, &context))
                return 0;
        if (context->n_attributes > PROCESS_CONTEXT_MAX_ATTRIBUTES ||
            context->n_keys > PROCESS_CONTEXT_MAX_KEYS)
                abort();
        for (size_t i = 0; i < context->n_attributes; i++)
                sum += touch(context->attributes[i].key) + touch(context->attributes[i].string);
        for (size_t i = 0; i < context->n_keys; i++)
                sum += touch(context->keys[i]);
        sum += touch(context->schema);
        (void)sum;
        process_context_free(context);
        return 0;
}

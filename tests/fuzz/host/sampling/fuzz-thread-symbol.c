/* SPDX-License-Identifier: Apache-2.0 */
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include "host/sampling/process/thread-symbol.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
        ThreadSymbol symbol;

        if (thread_symbol_read(-1, data, size, &symbol) == 0 && symbol.n_slots > THREAD_SYMBOL_MAX_SLOTS)
                abort();
        return 0;
}

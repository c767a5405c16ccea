/* SPDX-License-Identifier: Apache-2.0 */

/* A file that is no profile: whatever its first bytes are, it has a name of some words, or none. */

#include <stdlib.h>
#include <string.h>

#include "desk/convert/foreign.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
        /* not opened: source_open_memory() unpacks, and fuzzers of the formats do that */
        Source source = { .name = "x", .fd = -1, .data = (uint8_t *)data, .size = size };
        const char *name = foreign_name(&source);

        if (name && (!*name || strchr(name, '\n')))
                abort();
        return 0;
}

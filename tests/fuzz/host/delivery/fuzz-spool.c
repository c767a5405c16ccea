/* SPDX-License-Identifier: Apache-2.0 */

/*
 * A file of the spool that somebody else wrote. Behind its checksums nothing but our own bytes is met, so
 * those are mended first when the first byte says so: then the lengths and the zstd behind them are what is
 * tried.
 */

#include <stdlib.h>
#include <string.h>

#include "core/base/data/intern.h"
#include "core/otlp/spool-file.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void mend(uint8_t *file, size_t size) {
        uint64_t stored_size = size - SPOOL_HEADER_SIZE,
                 hash = hash_stable(file + SPOOL_HEADER_SIZE, stored_size);
        uint32_t header_size = SPOOL_HEADER_SIZE;

        memcpy(file, "SPANSPL1", 8);
        memcpy(file + 8, &header_size, 4);
        memcpy(file + 72, &stored_size, 8);
        memcpy(file + 80, &hash, 8);
        hash = hash_stable(file, 88);
        memcpy(file + 88, &hash, 8);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
        uint8_t *file, *request = NULL;
        SpoolHeader header;
        int r;

        if (!size)
                return 0;
        file = malloc(size);
        memcpy(file, data + 1, size - 1);
        if (data[0] == 'm' && size - 1 >= SPOOL_HEADER_SIZE)
                mend(file, size - 1);
        r = spool_file_unpack(file, size - 1, &header, &request);
        if (!r &&
            (!request || header.request_size > SPOOL_MAX_REQUEST || strcmp(header.schema, SPOOL_SCHEMA)))
                abort();
        free(request);
        free(file);
        return 0;
}

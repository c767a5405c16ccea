/* SPDX-License-Identifier: Apache-2.0 */
#include <stdlib.h>

#include "core/symbol/object/maps.h"
#include "core/symbol/object/mounts.h"
#include "host/sampling/process/process-directory.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
        MapsCursor cursor = maps_cursor((const char *)data, size);
        static char path[MAPS_MAX_NAME];
        ProcessStat stat;
        MapsEntry entry;
        char *copy;
        int r;

        while ((r = maps_next(&cursor, &entry)) != MAPS_E_EOF) {
                if (r)
                        continue;
                if (entry.start >= entry.end || maps_path(&entry, path, NULL) >= sizeof(path))
                        abort();
                if (maps_is_memfd(&entry) && !maps_is_file(&entry))
                        abort();
                if (maps_is_file(&entry) && maps_is_private_memory(&entry))
                        abort();
                maps_has_name(&entry, "DD_OTEL_CTX");
        }
        mounts_find((const char *)data, size, 0, 45);
        copy = malloc(size + 1);
        for (size_t i = 0; i < size; i++)
                copy[i] = (char)data[i];
        copy[size] = 0;
        process_parse_stat(copy, size, &stat);
        free(copy);
        return 0;
}

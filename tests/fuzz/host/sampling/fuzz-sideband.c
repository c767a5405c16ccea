/* SPDX-License-Identifier: Apache-2.0 */
#include <stdlib.h>
#include <string.h>

#include "host/sampling/sample/sideband.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* Input: one record. Its size field is made right, since nearly nothing else would get past it. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
        SidebandRecord record;
        uint8_t *copy;

        if (size < 8 || size > UINT16_MAX)
                return 0;
        size &= ~(size_t)7;
        copy = malloc(size);            /* of its exact size, so that a sanitizer sees each byte beyond */
        if (!copy)
                abort();
        memcpy(copy, data, size);
        memcpy(copy + 6, &(uint16_t){ (uint16_t)size }, 2);
        if (sideband_parse(copy, size, &record) == 0 && record.kind == SIDEBAND_MAPPING) {
                const MappingNotice *mapping = &record.mapping;
                volatile uint8_t sum = 0;

                if (!mapping->size || mapping->start + mapping->size < mapping->start)
                        abort();
                for (size_t i = 0; i < mapping->path_size; i++)
                        sum = (uint8_t)(sum + mapping->path[i]);
        }
        free(copy);
        return 0;
}

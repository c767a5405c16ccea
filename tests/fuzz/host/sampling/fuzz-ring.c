/* SPDX-License-Identifier: Apache-2.0 */
#include <stdlib.h>
#include <string.h>

#include "host/sampling/context/ring.h"
#include "spanprof/ring.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* Input: address, end of the region, header. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
        uint64_t address, end;
        uint32_t capacity;

        if (size < 16 + sizeof(struct spanprof_ring_header))
                return 0;
        memcpy(&address, data, 8);
        memcpy(&end, data + 8, 8);
        if (ring_check_header(data + 16, address, end, &capacity) != RING_HEADER_VALID)
                return 0;
        if (!capacity || capacity > SPANPROF_RING_MAX_CAPACITY || end <= address ||
            end - address <
                    sizeof(struct spanprof_ring_header) + (uint64_t)capacity * SPANPROF_RING_SLOT_SIZE)
                abort();
        return 0;
}

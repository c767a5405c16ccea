/* SPDX-License-Identifier: Apache-2.0 */
#include <stdlib.h>
#include <string.h>

#include "host/sampling/process/elf.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
        ElfInfo info;

        if (elf_read(&(ElfInput){ .fd = -1, .data = data, .size = size }, NULL, &info))
                return 0;
        if (info.n_segments > ELF_MAX_SEGMENTS || info.gnu_size > ELF_MAX_BUILD_ID ||
            strlen(info.go) != info.go_size)
                abort();
        for (uint32_t i = 0; i < info.n_segments; i++)
                if (info.segments[i].address + info.segments[i].memory_size < info.segments[i].address ||
                    info.segments[i].file_size > info.segments[i].memory_size)
                        abort();
        return 0;
}

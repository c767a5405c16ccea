/* SPDX-License-Identifier: Apache-2.0 */
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "host/sampling/frames/kallsyms.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void look_up(const Kallsyms *kallsyms, uint64_t address) {
        uint64_t start;
        const char *name = kallsyms_find(kallsyms, address, &start);

        if (name &&
            (start > address || name < kallsyms->names || name >= kallsyms->names + kallsyms->names_used))
                abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
        KallsymsCursor cursor = { (const char *)data, size, 0 };
        int fd = memfd_create("fuzz", MFD_CLOEXEC), r;
        Kallsyms kallsyms;
        KallsymsLine line;

        if (fd < 0 || (size && write(fd, data, size) != (ssize_t)size) || kallsyms_load(&kallsyms, fd))
                abort();
        close(fd);
        while ((r = kallsyms_next(&cursor, &line)) != KALLSYMS_E_EOF)
                if (!r) {
                        look_up(&kallsyms, line.address);
                        look_up(&kallsyms, line.address - 1);
                }
        look_up(&kallsyms, 0);
        look_up(&kallsyms, UINT64_MAX);
        kallsyms_deinit(&kallsyms);
        return 0;
}

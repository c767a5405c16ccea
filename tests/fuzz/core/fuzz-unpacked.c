/* SPDX-License-Identifier: Apache-2.0 */

/*
 * The bytes of a file whose DWARF is read by a worker. Whatever they are: a section that was unpacked lies in
 * the map, with all its bytes, and the file itself is not changed.
 */

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "core/base/elf/unpacked.h"
#include "core/base/file/file.h"
#include "hand-elf.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static bool is_wanted(const char *name) {
        return name[0] != 'u';
}

static unsigned check(const ElfImage *image, const char *data, size_t mapped) {
        unsigned sum = 0;

        for (uint32_t i = 0; i < image->n_sections; i++) {
                bool was_packed = image->sections[i].sh_flags & SHF_COMPRESSED;
                Elf64_Shdr now;

                memcpy(&now, data + image->header.e_shoff + i * sizeof(now), sizeof(now));
                if (!was_packed || now.sh_flags & SHF_COMPRESSED || now.sh_type == SHT_NOBITS)
                        continue;
                if (now.sh_size > mapped || now.sh_offset > mapped - now.sh_size)
                        abort();
                for (uint64_t at = 0; at < now.sh_size; at++)
                        sum += (unsigned char)data[now.sh_offset + at];
        }
        return sum;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
        static volatile unsigned sum;
        int fd = hand_fd(data, size);
        ElfImage image;
        size_t mapped;
        char *map;

        if (!unpacked_map(fd, size, is_wanted, &map, &mapped)) {
                uint8_t *again = malloc(size);

                if (elf_image_init_memory(&image, data, size))
                        abort();
                sum += check(&image, map, mapped);
                (void)sum;
                elf_image_deinit(&image);
                munmap(map, mapped);
                if (!again || file_pread(fd, again, size, 0) != (ssize_t)size ||
                    memcmp(again, data, size) != 0)
                        abort();
                free(again);
        }
        close(fd);
        return 0;
}

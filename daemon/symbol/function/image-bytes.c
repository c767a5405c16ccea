/* SPDX-License-Identifier: Apache-2.0 */
#include "symbol/function/image-bytes.h"

#include <stdlib.h>
#include <sys/mman.h>

#include "base/util/error.h"

enum { PAGE = 4096 };

void image_bytes_deinit(ImageBytes *bytes) {
        free(bytes->owned);
        if (bytes->map)
                munmap(bytes->map, bytes->map_size);
        *bytes = (ImageBytes){ 0 };
}

/* Without a copy, which may be hundreds of MiB: a file that is cut meanwhile ends the process. */
static int map_bytes(const ElfImage *image, uint64_t offset, uint64_t size, ImageBytes *to) {
        uint64_t start = image->base + offset, before = start % PAGE;
        char *map = mmap(NULL, size + before, PROT_READ, MAP_PRIVATE, image->fd, (off_t)(start - before));

        if (map == MAP_FAILED)
                return IMAGE_E_UNREADABLE;
        *to = (ImageBytes){ .data = map + before, .size = size, .map = map, .map_size = size + before };
        return 0;
}

int image_bytes_init(ImageBytes *to, const ElfImage *image, uint64_t offset, uint64_t size, bool may_map) {
        char *owned;
        int r;

        if (offset > image->size || size > image->size - offset)
                return IMAGE_E_MALFORMED;
        if (image->data) {
                *to = (ImageBytes){ .data = (const char *)image->data + offset, .size = size };
                return 0;
        }
        if (may_map && size)
                return map_bytes(image, offset, size, to);
        r = elf_image_read(image, offset, size, &owned);
        if (r)
                return r < 0 ? error_fold(r) : r;
        *to = (ImageBytes){ .data = owned, .size = size, .owned = owned };
        return 0;
}

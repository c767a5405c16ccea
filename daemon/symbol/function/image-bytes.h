/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Image Bytes
 *
 * A part of an ELF file that is too large to be copied at will: names, tables. Borrowed from an image in
 * memory, mapped where a file that is cut may end the process, else read.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/util/macro.h"
#include "symbol/function/image.h"

typedef struct ImageBytes {
        const char *data;
        uint64_t size;
        char *owned, *map;              /* NULL = the image's own memory */
        size_t map_size;
} ImageBytes;

/* Return: 0 and @to, which is written on success only; IMAGE_E_MALFORMED, IMAGE_E_UNREADABLE, -ENOMEM. */
int image_bytes_init(ImageBytes *to, const ElfImage *image, uint64_t offset, uint64_t size, bool may_map);
void image_bytes_deinit(ImageBytes *bytes);

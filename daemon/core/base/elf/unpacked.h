/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Unpacked File
 *
 * A file of ELF as readers of DWARF want it in memory: what the compiler has compressed is unpacked behind
 * the file, and its section header says where. Sections that nobody wants are not unpacked.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/base/elf/image.h"

enum {
        UNPACKED_MAX_BYTES = 128 << 20, /* bytes of what is unpacked; more stays as it is */
};

/* Whether a section is wanted, by its name. */
typedef bool (*UnpackedWanted)(const char *name);

/*
 * Maps the whole file of 64 bits: what is read of it is paged in, and what is written stays here. A section
 * that is damaged, too large, or packed in another way than by zlib stays as it is. One that is not wanted
 * loses its bytes. Return: 0 and *datap, which is given back by munmap(); IMAGE_E_*, -ENOMEM.
 */
int unpacked_map(int fd, uint64_t size, UnpackedWanted is_wanted, char **datap, size_t *mappedp);

/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Deleted Files
 *
 * The kernel's mark behind the path of a file, or of a control group, that has no name any more
 * (fs/d_path.c). A file may be called so, too: what the mark is cut from is for people to read, and never
 * decides alone which file is meant.
 */

#include <stddef.h>
#include <string.h>

#define DELETED_MARK " (deleted)"

/* Length of the path without the mark; @size itself if it has none. */
static inline size_t deleted_plain_size(const char *path, size_t size) {
        const size_t n = sizeof(DELETED_MARK) - 1;

        return size > n && !memcmp(path + size - n, DELETED_MARK, n) ? size - n : size;
}

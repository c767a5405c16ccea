/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Pagemap
 *
 * What /proc/PID/pagemap says of a process' pages, without touching them
 * (Documentation/admin-guide/mm/pagemap.rst).
 */

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "core/base/thread/bounded-call.h"

#define PAGEMAP_PRESENT (UINT64_C(1) << 63)
#define PAGEMAP_SWAPPED (UINT64_C(1) << 62)

/*
 * The entries of up to @n pages from that of @address. @pid: whose it is, for the bounded call. Return: how
 * many it tells of.
 */
static inline size_t pagemap_read(pid_t pid, int fd, uint64_t address, uint64_t page_size, uint64_t *entries,
                                  size_t n) {
        ssize_t size = bounded_read(pid, fd, entries, n * sizeof(*entries),
                                    (int64_t)(address / page_size * sizeof(*entries)));

        return size < 0 ? 0 : (size_t)size / sizeof(*entries);
}

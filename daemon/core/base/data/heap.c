/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Prepares the C library's heap of a command that ends soon: large pages are asked for ahead of use, and
 * freed memory stays in the heap.
 */

#include "core/base/data/heap.h"

#include <malloc.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>

enum {
        LARGE_PAGE = 2 << 20,
        /* addresses, no memory; more would not pay: clearing memory that was not in use lately is slow */
        AHEAD = 24 << 20,
        /* blocks of that size grow by moving pages, which is cheaper than copying them */
        OWN_MAPPING = 4 << 20,
};

/*
 * Memory that is freed at the end of the heap stays there, so a block that is allocated and freed again
 * leaves the heap that large.
 */
void heap_prepare(void) {
        uintptr_t begin, end;
        void *block;

        /* an allocator that is not the C library's takes no such advice (sanitizers) */
        if (!mallopt(M_TRIM_THRESHOLD, 2 * AHEAD) || !mallopt(M_MMAP_THRESHOLD, 2 * AHEAD))
                return;
        block = malloc(AHEAD);
        if (block) {
                begin = ((uintptr_t)block + LARGE_PAGE - 1) & -(uintptr_t)LARGE_PAGE;
                end = ((uintptr_t)block + AHEAD) & -(uintptr_t)LARGE_PAGE;
                /* a kernel without them has small ones */
                (void)madvise((void *)begin, end - begin, MADV_HUGEPAGE);
                free(block);
        }
        mallopt(M_MMAP_THRESHOLD, OWN_MAPPING);
}

/* SPDX-License-Identifier: Apache-2.0 */
#include "util/heap.h"

#include <malloc.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>

enum {
        LARGE_PAGE = 2 << 20,
        AHEAD = 24 << 20,               /* addresses, no memory: only what is touched counts */
        OWN_MAPPING = 4 << 20,          /* blocks of that size grow by moving pages, which is cheaper than copying them */
};

void heap_prepare(void) {
        uintptr_t begin, end;
        void *block;

        mallopt(M_TRIM_THRESHOLD, 2 * AHEAD);
        mallopt(M_MMAP_THRESHOLD, 32 << 20);    /* the most that glibc takes */
        block = malloc(AHEAD);
        if (!block)
                return;
        begin = ((uintptr_t)block + LARGE_PAGE - 1) & -(uintptr_t)LARGE_PAGE;
        end = ((uintptr_t)block + AHEAD) & -(uintptr_t)LARGE_PAGE;
        if (begin < end)
                (void)madvise((void *)begin, end - begin, MADV_HUGEPAGE);      /* a kernel without them has small ones */
        free(block);
        mallopt(M_MMAP_THRESHOLD, OWN_MAPPING);
}

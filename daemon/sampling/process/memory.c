/* SPDX-License-Identifier: Apache-2.0 */
#include "sampling/process/memory.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/util/bounded-call.h"
#include "base/util/macro.h"
#include "sampling/process/pagemap.h"

enum {
        PIECE = BOUNDED_MAX_EACH,
        MAX_PIECES = BOUNDED_MAX_ADDRESSES,
        MAX_PAGES = MEMORY_MAX_READ / 4096 + 1,
};

static int check_pages(pid_t pid, uint64_t address, size_t size) {
        uint64_t page_size = (uint64_t)sysconf(_SC_PAGESIZE), first = address / page_size;
        uint64_t n = (address + size - 1) / page_size - first + 1, entries[MAX_PAGES] = { 0 };
        _cleanup_(closep) int fd = -1;
        char path[32];

        snprintf(path, sizeof(path), "/proc/%d/pagemap", (int)pid);
        fd = open(path, O_RDONLY | O_CLOEXEC);
        if (fd < 0)
                return errno == ENOENT || errno == ESRCH ? MEMORY_E_GONE : MEMORY_E_ABSENT;
        if (n > MAX_PAGES || pagemap_read(pid, fd, address, page_size, entries, n) != n)
                return MEMORY_E_ABSENT;
        for (uint64_t i = 0; i < n; i++)
                if (!(entries[i] & (PAGEMAP_PRESENT | PAGEMAP_SWAPPED)))
                        return MEMORY_E_ABSENT;
        return 0;
}

static int read_piece(pid_t pid, uint64_t address, size_t each, size_t n, uint8_t *to) {
        uint64_t addresses[MAX_PIECES];
        ssize_t got;

        for (size_t i = 0; i < n; i++)
                addresses[i] = address + i * each;
        got = bounded_read_memory(pid, addresses, n, each, to);
        if (got == (ssize_t)(n * each))
                return 0;
        return got == -ESRCH ? MEMORY_E_GONE : MEMORY_E_ABSENT;
}

int memory_read(pid_t pid, uint64_t address, void *to, size_t size) {
        uint8_t *at = to;
        int r;

        if (!size || size > MEMORY_MAX_READ || address + size < address || address >> 56)
                return MEMORY_E_ABSENT;
        r = check_pages(pid, address, size);
        while (!r && size >= PIECE) {
                size_t n = MIN(size / PIECE, (size_t)MAX_PIECES);

                r = read_piece(pid, address, PIECE, n, at);
                address += n * PIECE;
                at += n * PIECE;
                size -= n * PIECE;
        }
        return r || !size ? r : read_piece(pid, address, size, 1, at);
}

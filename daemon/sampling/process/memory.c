/* SPDX-License-Identifier: Apache-2.0 */
#include "sampling/process/memory.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/uio.h>
#include <unistd.h>

#include "base/util/bounded-call.h"
#include "base/util/macro.h"
#include "sampling/process/pagemap.h"

enum {
        PIECE = 4096,                   /* bytes of one bounded call, which are copied once more */
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

typedef struct Piece {
        pid_t pid;
        uint64_t address;
        size_t size;
        uint8_t data[PIECE];
} Piece;

static ssize_t read_now(void *data) {
        Piece *piece = data;
        const struct iovec to = { piece->data, piece->size };
        const struct iovec from = { (void *)(uintptr_t)piece->address, piece->size };
        ssize_t r = process_vm_readv(piece->pid, &to, 1, &from, 1, 0);

        return r < 0 ? -errno : r;
}

static int read_piece(Piece *piece) {
        ssize_t got;

        if (bounded_run(piece->pid, read_now, piece, sizeof(*piece), &got))
                return MEMORY_E_ABSENT;
        if (got == (ssize_t)piece->size)
                return 0;
        return got == -ESRCH ? MEMORY_E_GONE : MEMORY_E_ABSENT;
}

int memory_read(pid_t pid, uint64_t address, void *to, size_t size) {
        Piece piece = { .pid = pid };
        uint8_t *at = to;
        int r;

        if (!size || size > MEMORY_MAX_READ || address + size < address || address >> 56)
                return MEMORY_E_ABSENT;
        r = check_pages(pid, address, size);
        for (; !r && size; size -= piece.size, at += piece.size, address += piece.size) {
                piece.address = address;
                piece.size = MIN(size, (size_t)PIECE);
                r = read_piece(&piece);
                if (!r)
                        memcpy(at, piece.data, piece.size);
        }
        return r;
}

/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Looks in pagemap whether all pages are present, and only then reads, in pieces of one bounded call.
 */

#include "host/sampling/process/memory.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/uio.h>
#include <unistd.h>

#include "core/base/thread/bounded-call.h"
#include "core/base/util/macro.h"
#include "host/sampling/process/pagemap.h"
#include "host/sampling/process/process-directory.h"

enum {
        PIECE = 4096,                   /* bytes of one bounded call, which are copied once more */
};

typedef struct Piece {
        pid_t pid;
        int pagemap_fd;
        int fd;                         /* memory_open()'s; -1 = whoever has the pid */
        uint64_t address;
        size_t size;
        uint8_t data[PIECE];
} Piece;

/* Return: whether all pages are there; so it is not if pagemap does not tell. */
static bool is_present(int pagemap_fd, uint64_t address, size_t size) {
        uint64_t page_size = (uint64_t)sysconf(_SC_PAGESIZE), first = address / page_size;
        uint64_t entries[MEMORY_MAX_READ / 4096 + 1] = { 0 };
        size_t n = (size_t)((address + size - 1) / page_size - first + 1);
        ssize_t n_bytes = (ssize_t)(n * sizeof(*entries));

        if (n > ARRAY_SIZE(entries) ||
            pread(pagemap_fd, entries, (size_t)n_bytes, (off_t)(first * sizeof(*entries))) != n_bytes)
                return false;
        for (size_t i = 0; i < n; i++)
                if (!(entries[i] & (PAGEMAP_PRESENT | PAGEMAP_SWAPPED)))
                        return false;
        return true;
}

/*
 * Looks and reads in one call. The memory is read by a descriptor of its own: between the two, the caller of
 * a job that was given up may have closed its one.
 */
static ssize_t read_now(void *data) {
        Piece *piece = data;
        const struct iovec to = { piece->data, piece->size };
        const struct iovec from = { (void *)(uintptr_t)piece->address, piece->size };
        _cleanup_(closep) int fd = piece->fd < 0 ? -1 : fcntl(piece->fd, F_DUPFD_CLOEXEC, 0);
        ssize_t r;

        if ((piece->fd >= 0 && fd < 0) || !is_present(piece->pagemap_fd, piece->address, piece->size))
                return -EFAULT;
        r = fd < 0 ? process_vm_readv(piece->pid, &to, 1, &from, 1, 0)
                   : pread(fd, piece->data, piece->size, (off_t)piece->address);
        /* A program that has ended leaves an empty file. */
        if (fd >= 0 && !r)
                return -ESRCH;
        return r < 0 ? -errno : r;
}

int memory_read_now(int fd, int pagemap_fd, uint64_t address, void *to, size_t size) {
        ssize_t got;

        if (!size || size > MEMORY_MAX_READ || address + size < address || address >> 56 ||
            !is_present(pagemap_fd, address, size))
                return MEMORY_E_ABSENT;
        got = pread(fd, to, size, (off_t)address);
        if (got == (ssize_t)size)
                return 0;
        return got ? MEMORY_E_ABSENT : MEMORY_E_GONE;
}

static int read_piece(Piece *piece) {
        ssize_t got;

        if (bounded_run(piece->pid, read_now, piece, offsetof(Piece, data) + piece->size, &got))
                return MEMORY_E_ABSENT;
        if (got == (ssize_t)piece->size)
                return 0;
        return got == -ESRCH ? MEMORY_E_GONE : MEMORY_E_ABSENT;
}

int memory_open(pid_t pid, uint64_t start_time_ns) {
        _cleanup_(closep) int proc = -1;

        return process_open(pid, start_time_ns, &proc) ? -1 : openat(proc, "mem", O_RDONLY | O_CLOEXEC);
}

int memory_read(pid_t pid, uint64_t address, void *to, size_t size) {
        return memory_read_opened(pid, -1, address, to, size);
}

int memory_read_opened(pid_t pid, int fd, uint64_t address, void *to, size_t size) {
        _cleanup_(closep) int pagemap_fd = -1;
        uint8_t *at = to;
        Piece piece;
        char path[32];
        int r = 0;

        if (!size || size > MEMORY_MAX_READ || address + size < address || address >> 56)
                return MEMORY_E_ABSENT;
        snprintf(path, sizeof(path), "/proc/%d/pagemap", (int)pid);
        pagemap_fd = open(path, O_RDONLY | O_CLOEXEC);
        if (pagemap_fd < 0)
                return errno == ENOENT || errno == ESRCH ? MEMORY_E_GONE : MEMORY_E_ABSENT;
        piece.pid = pid;
        piece.pagemap_fd = pagemap_fd;
        piece.fd = fd;
        for (; !r && size; size -= piece.size, at += piece.size, address += piece.size) {
                piece.address = address;
                piece.size = MIN(size, (size_t)PIECE);
                r = read_piece(&piece);
                if (!r)
                        memcpy(at, piece.data, piece.size);
        }
        return r;
}

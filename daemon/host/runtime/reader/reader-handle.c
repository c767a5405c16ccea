/* SPDX-License-Identifier: Apache-2.0 */

/*
 * The daemon has the right to open these files, and the worker needs none to read from them. A page that is
 * not there may come from a server of the target's choice, which need not answer: pagemap says so before. A
 * target can take a page away in between. Then its worker hangs, is late, and is killed; the place that it
 * keeps while it cannot die is one of those for readers (reader-link.c).
 */
#include "host/runtime/reader/reader-handle.h"

#include <fcntl.h>
#include <unistd.h>

#include "core/base/sandbox/channel.h"
#include "core/base/util/macro.h"
#include "host/sampling/process/pagemap.h"
#include "host/sampling/process/process-directory.h"

enum { MAX_PAGES = (READER_MAX_READ >> 12) + 1 };       /* pages of one read, if pages are small */

bool reader_handle_open(ReaderHandle *handlep, pid_t pid, uint64_t start_time_ns) {
        _cleanup_(closep) int proc = -1, mem = -1, pagemap = -1;

        if (process_open(pid, start_time_ns, &proc))
                return false;
        mem = openat(proc, "mem", O_RDONLY | O_CLOEXEC);
        pagemap = openat(proc, "pagemap", O_RDONLY | O_CLOEXEC);
        if (mem < 0 || pagemap < 0)
                return false;
        *handlep = (ReaderHandle){ take_fd(mem), take_fd(pagemap) };
        return true;
}

void reader_handle_close(ReaderHandle *handle) {
        closep(&handle->mem);
        closep(&handle->pagemap);
        *handle = (ReaderHandle){ -1, -1 };
}

int reader_handle_send(const ReaderHandle *handle, WorkerSession *worker) {
        int r = worker_session_send(worker, "m", 1, handle->mem);

        return r ? r : worker_session_send(worker, "p", 1, handle->pagemap);
}

bool reader_handle_receive(ReaderHandle *handle, int socket) {
        ReaderHandle got = { -1, -1 };
        char letter;

        if (channel_receive(socket, &letter, 1, &got.mem, 0) == 1 && got.mem >= 0 &&
            channel_receive(socket, &letter, 1, &got.pagemap, 0) == 1 && got.pagemap >= 0) {
                *handle = got;
                return true;
        }
        reader_handle_close(&got);
        return false;
}

static bool is_there(const ReaderHandle *handle, uint64_t address, size_t size) {
        uint64_t page_size = (uint64_t)sysconf(_SC_PAGESIZE), first = address / page_size;
        uint64_t n = (address + size - 1) / page_size - first + 1, entries[MAX_PAGES];
        size_t bytes;

        if (n > MAX_PAGES)
                return false;
        bytes = (size_t)n * sizeof(*entries);
        if (pread(handle->pagemap, entries, bytes, (off_t)(first * sizeof(*entries))) != (ssize_t)bytes)
                return false;
        for (uint64_t i = 0; i < n; i++)
                if (!(entries[i] & (PAGEMAP_PRESENT | PAGEMAP_SWAPPED)))
                        return false;
        return true;
}

bool reader_handle_read(void *userdata, uint64_t address, void *to, size_t size) {
        const ReaderHandle *handle = userdata;

        return size && size <= READER_MAX_READ && address + size >= address && !(address >> 56) &&
                is_there(handle, address, size) &&
                pread(handle->mem, to, size, (off_t)address) == (ssize_t)size;
}

/* SPDX-License-Identifier: Apache-2.0 */
#include "service/run/worker-main.h"

#include <stddef.h>
#include <unistd.h>

#include "base/sandbox/channel.h"
#include "sampling/context/thread-wire.h"
#include "sampling/unwind/table-job.h"
#include "symbol/function/symbol-wire.h"
#include "symbol/jit/code-wire.h"

/* Each kind begins with a word of its own. */
typedef union Request {
        uint32_t magic;
        TableJobRequest table;
        ThreadWireRequest thread;
        CodeRequest code;
        SymbolRequest symbol;
} Request;

/* Return: 0 = nothing that we know. */
static size_t size_of(uint32_t magic) {
        switch (magic) {
        case TABLE_JOB_MAGIC:
                return sizeof(TableJobRequest);
        case THREAD_WIRE_MAGIC:
                return sizeof(ThreadWireRequest);
        case CODE_WIRE_MAGIC:
                return sizeof(CodeRequest);
        case SYMBOL_WIRE_MAGIC:
                return sizeof(SymbolRequest);
        }
        return 0;
}

/* A descriptor comes with the first byte. Return: whether somebody has asked for something. */
static bool receive(int socket, Request *request, int *fdp) {
        const size_t word = sizeof(request->magic);

        if (channel_receive(socket, request, word, fdp, 0) != (ssize_t)word || !size_of(request->magic))
                return false;
        return channel_receive_all(socket, (char *)request + word, size_of(request->magic) - word) == 0;
}

void worker_main(int socket) {
        Request request = { 0 };
        int fd;

        if (!receive(socket, &request, &fd))
                _exit(0);
        if (request.magic == CODE_WIRE_MAGIC)
                code_serve(socket, &request.code);
        else if (request.magic == SYMBOL_WIRE_MAGIC)
                symbol_serve(socket, fd, &request.symbol);
        else if (fd >= 0 && request.magic == TABLE_JOB_MAGIC)
                table_job_serve(socket, fd, &request.table);
        else if (fd >= 0)
                thread_wire_serve(socket, fd, &request.thread);
        _exit(0);
}

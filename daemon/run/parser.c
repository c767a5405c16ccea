/* SPDX-License-Identifier: Apache-2.0 */
#include "run/parser.h"

#include <stddef.h>
#include <unistd.h>

#include "jail/channel.h"
#include "symbol/code-wire.h"
#include "symbol/symbol-wire.h"
#include "target/thread-wire.h"
#include "unwind/maker.h"

static void make_table(int socket, int fd) {
        MakerRequest request = { .magic = MAKER_MAGIC };
        const size_t size = sizeof(request.magic);

        if (fd >= 0 && !channel_receive_all(socket, (char *)&request + size, sizeof(request) - size))
                maker_serve(socket, fd, &request);
}

static void find_thread_symbol(int socket, int fd) {
        ThreadWireRequest request = { .magic = THREAD_WIRE_MAGIC };
        const size_t size = sizeof(request.magic);

        if (fd >= 0 && !channel_receive_all(socket, (char *)&request + size, sizeof(request) - size))
                thread_wire_serve(socket, fd, &request);
}

/* Each kind of request begins with a word of its own, and a descriptor comes with the first byte. */
void parser_work(int socket) {
        uint32_t magic;
        int fd;
        ssize_t n = channel_receive(socket, &magic, sizeof(magic), &fd, 0);

        if (n != sizeof(magic))
                _exit(0);               /* nobody wanted us */
        if (magic == MAKER_MAGIC)
                make_table(socket, fd);
        else if (magic == THREAD_WIRE_MAGIC)
                find_thread_symbol(socket, fd);
        else if (magic == CODE_WIRE_MAGIC)
                code_serve(socket);
        else if (magic == SYMBOL_WIRE_MAGIC)
                symbol_serve(socket, fd);
        _exit(0);
}

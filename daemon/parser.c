/* SPDX-License-Identifier: Apache-2.0 */
#include "parser.h"

#include <string.h>
#include <unistd.h>

#include "jail/channel.h"
#include "jail/helper.h"
#include "unwind/maker.h"

void parser_work(int socket) {
        uint8_t request[HELPER_MAX_REQUEST];
        MakerRequest table;
        int fd;
        ssize_t n = channel_receive(socket, request, sizeof(request), &fd, 0);

        if (n <= 0)
                _exit(0);               /* nobody wanted us */
        memcpy(&table, request, sizeof(table));
        if (n == sizeof(table) && table.magic == MAKER_MAGIC && fd >= 0)
                maker_serve(socket, fd, &table);
        _exit(0);
}

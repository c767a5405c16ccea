/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * SocketHolder
 *
 * A small process that listens on the wake-up socket and holds its connections for as long as a
 * target does. A target writes to that socket without asking: were our end closed by a crash of
 * the engine, the write would end the target by SIGPIPE. The keeper hands a second
 * descriptor of each connection to the engine. Should the engine die, it tells targets not to wake
 * anybody, waits for their end and removes the files.
 */

#include <sys/types.h>

#include "coro/station/region.h"

typedef struct SocketHolder {
        pid_t pid;
        int control;                    /* to the keeper; readable = a connection */
} SocketHolder;

#define SOCKET_HOLDER_NONE ((SocketHolder){ .pid = -1, .control = -1 })

enum {
        _SOCKET_HOLDER_E_SUCCESS,
        /* the path is taken by something that is no socket; it is left alone */
        SOCKET_HOLDER_E_EXISTS,
        /* errno says what failed; ENAMETOOLONG: the path is too long for a socket */
        SOCKET_HOLDER_E_SYSTEM,
};

/*
 * Listens at @socket_path, in the place of an old socket, and starts the keeper. Both paths must stay as
 * they are. Return: 0, SOCKET_HOLDER_E_*.
 */
int socket_holder_start(SocketHolder *holder, const char *socket_path, const char *region_path,
                        Region *region, mode_t mode);

/* Says which process is the target, so that its end is known without the engine. */
void socket_holder_watch(SocketHolder *holder, int pidfd);

/* Takes a connection over. Return: its descriptor, -1 = none now. */
int socket_holder_accept(SocketHolder *holder);

/* The engine has ended in order and removed the files. The keeper goes when the last connection has gone. */
void socket_holder_release(SocketHolder *holder);

/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Socket Holder
 *
 * A small process that listens on the wake-up socket and holds each connection for as long as its target
 * does, also when the engine has crashed. It passes a second descriptor of each connection to the engine.
 */

#include <sys/types.h>

#include "coro/station/region.h"

typedef struct SocketHolder {
        pid_t pid;
        int control;                    /* socket to the process; readable = a connection */
} SocketHolder;

#define SOCKET_HOLDER_NONE ((SocketHolder){ .pid = -1, .control = -1 })

enum {
        _SOCKET_HOLDER_E_SUCCESS,
        /* the path is taken by a file that is no socket; it is left alone */
        SOCKET_HOLDER_E_EXISTS,
        /* errno says what failed; ENAMETOOLONG: the path is too long for a socket */
        SOCKET_HOLDER_E_SYSTEM,
};

/*
 * Listens at @socket_path, in the place of an old socket, and starts the process. Both paths must not change.
 * Return: 0, SOCKET_HOLDER_E_*.
 */
int socket_holder_start(SocketHolder *holder, const char *socket_path, const char *region_path,
                        Region *region, mode_t mode);

/* Tells which process is the target, so that the holder sees its end without the engine. */
void socket_holder_watch(SocketHolder *holder, int pidfd);

/* Takes a connection over. Return: its descriptor, -1 = there is none now. */
int socket_holder_accept(SocketHolder *holder);

/* The engine has ended in order and removed the files. The holder ends with its last connection. */
void socket_holder_release(SocketHolder *holder);

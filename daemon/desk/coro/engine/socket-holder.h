/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Socket Holder
 *
 * A small process that holds each connection of the wake-up socket for as long as its target does, also when
 * the engine has crashed. The engine accepts them and passes a second descriptor of each to the process.
 */

#include <sys/types.h>

#include "host/coro/region.h"

typedef struct SocketHolder {
        pid_t pid;
        int control;                    /* socket to the process */
        int listener;                   /* readable = a connection */
        int unheld;                     /* a connection that the process has not taken yet; -1 = it has all */
} SocketHolder;

#define SOCKET_HOLDER_NONE ((SocketHolder){ .pid = -1, .control = -1, .listener = -1, .unheld = -1 })

/* connections that are held; further ones wait in the queue of the socket, and wake no engine */
enum { SOCKET_HOLDER_MAX = 1024 };

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

/*
 * Accepts a connection. Return: its descriptor, -1 = there is none now, or the process has not taken the one
 * before.
 */
int socket_holder_accept(SocketHolder *holder);

/* The engine has ended in order and removed the files. The holder ends with its last connection. */
void socket_holder_release(SocketHolder *holder);

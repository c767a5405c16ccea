/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Zygote
 *
 * One process of the zygotes (zygotes.h), as the daemon sees it: a socket and an id. The first one is this
 * program executed again. Later ones are forked by one that lives.
 */

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "core/base/sandbox/zygotes.h"

typedef struct Zygote {
        int socket;                     /* -1 = there is none */
        pid_t pid;                      /* 0 = not told yet */
        uint64_t begin_ns;
        bool is_up;                     /* the zygote has said that it has given up all rights */
} Zygote;

/* Return: 0, -errno. */
int zygote_start(Zygote *zygote);

/* Asks @parent to fork @zygote. Return: 0, -errno. */
int zygote_start_successor(Zygote *zygote, const Zygote *parent);

/* Asks for a worker with this serial, which gets @socket. Return: 0, -errno: it is gone. */
int zygote_order(const Zygote *zygote, uint32_t serial, int socket);

enum {
        _ZYGOTE_SOCKET_E_SUCCESS,
        ZYGOTE_SOCKET_E_NOTHING,               /* nothing has come, for now */
        ZYGOTE_SOCKET_E_GONE,                  /* the zygote is gone, or says what is not so */
};

/* The next reply. The first message, by which a zygote is up, is none. Return: 0, ZYGOTE_SOCKET_E_*. */
int zygote_receive(Zygote *zygote, ZygoteReply *reply);

/* Closes our side alone; the process is killed and reaped elsewhere. */
void zygote_close(Zygote *zygote);

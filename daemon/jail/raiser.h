/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Raiser
 *
 * One process of the nursery (nursery.h), as the daemon sees it: a socket, and an id. The first one is this program started
 * anew, those after it are forked by one that lives.
 */

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "jail/nursery.h"

typedef struct Raiser {
        int socket;                     /* -1 = there is none */
        pid_t pid;                      /* 0 = not told yet */
        uint64_t begin_ns;
        bool is_up;                     /* it has said that it has given up all rights */
} Raiser;

/* Return: 0, -errno. */
int raiser_start(Raiser *raiser);

/* Asks @parent to fork @raiser. Return: 0, -errno. */
int raiser_start_successor(Raiser *raiser, const Raiser *parent);

/* Asks for a worker with this serial, which gets @socket. Return: 0, -errno: it is gone. */
int raiser_order(const Raiser *raiser, uint32_t serial, int socket);

enum {
        _RAISER_E_SUCCESS,
        RAISER_E_NOTHING,               /* has come, for now */
        RAISER_E_GONE,                  /* it is, or says what is not so */
};

/* What it says, after its first message, by which it is up. Return: 0, RAISER_E_*. */
int raiser_receive(Raiser *raiser, NurseryReply *reply);

/* Of @raiser alone: whoever is its child by id ends elsewhere. */
void raiser_close(Raiser *raiser);

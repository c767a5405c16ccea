/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Turns
 *
 * Who of several senders is served next, so that each gets the same time of a thread that serves one request
 * at a time. Senders are known by name; times are those that their requests took. A sender has a cap on its
 * requests, too: what is too short to show in times costs the receiver names, files and a place in line.
 */

#include <stdbool.h>
#include <stdint.h>

#include "core/base/util/macro.h"

typedef struct Turns Turns;

enum {
        TURNS_MAX = 512,                /* senders that are remembered; those that owe least are forgotten */
        TURNS_WINDOW_S = 10,
        TURNS_REQUESTS = 10000,         /* of one sender in it: a gateway of 15,000 hosts has as many */
};

/* Return: NULL = out of memory. */
Turns *turns_new(void);
Turns *turns_free(Turns *turns);
DEFINE_CLEANUP(Turns, turns_free)

/* When the turn of @sender is: of those that wait, the one with the least comes next. */
uint64_t turns_of(const Turns *turns, const char *sender);

/* A request of @sender was served, which took so long. */
void turns_served(Turns *turns, const char *sender, uint64_t took_ns);

/* Counts a request that begins. Return: whether @sender may have one more in this window of time. */
bool turns_begin(Turns *turns, const char *sender, uint64_t now_ns);

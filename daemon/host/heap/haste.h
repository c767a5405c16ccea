/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Haste
 *
 * Shares of a minute that looks have which cannot wait: one a look, and one for each 50 ms of CPU that it
 * took.
 */

#include <stdbool.h>
#include <stdint.h>

#include "core/base/data/shares.h"
#include "core/base/util/minute-limit.h"

enum {
        HASTE_SHARES = 32,
        HASTE_WISHES = 4,               /* wishes for a program in a minute */
};

/* All zeros is one. */
typedef struct Haste {
        Shares shares;
        uint64_t begin_ns;              /* MONOTONIC, of the minute */
} Haste;

/* Wish for a look at a program, which has not begun yet. All zeros is none. */
typedef struct HasteWish {
        const char *reason;             /* NULL = there is none */
        unsigned weight;                /* weight of that reason */
        MinuteLimit made;
} HasteWish;

/* Where there is a wish, the heavier reason is kept. Return: whether there is one. */
bool haste_wish(HasteWish *wish, const char *reason, unsigned weight, uint64_t now_ns);

void haste_deinit(Haste *haste);

/* Begins a minute, if the last one is over. */
void haste_begin(Haste *haste, uint64_t now_ns);

/* Whether there is a share for a look at a process of @owner; each leaves as many as it has. */
bool haste_may(const Haste *haste, const ShareOwner *owner);

/* Takes the share of such a look. Return: 0, -ENOMEM. */
int haste_look(Haste *haste, const ShareOwner *owner);

/* The look has taken so much CPU time. It has half of all shares at most. Return: 0, -ENOMEM. */
int haste_took(Haste *haste, const ShareOwner *owner, uint64_t cpu_ns);

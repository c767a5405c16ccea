/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Host Share
 *
 * A fleet that needs no profile of each host at each time: hosts sample in turns. Numbers in, decision out;
 * daemon-govern.c carries it out.
 */

#include <stdbool.h>
#include <stdint.h>

enum { HOST_SHARE_WHOLE = 10000 };      /* hundredths of a percent */

typedef struct HostShare {
        uint32_t share;                 /* parts of HOST_SHARE_WHOLE; 0 = each host samples always */
        uint64_t turn_ns;
} HostShare;

/* `10%/1h`: this part of the hosts, each for an hour. "" = all. Return: 0, 1 = not in that form. */
int host_share_parse(const char *text, HostShare *sharep);

/*
 * Whether it is the turn of the host whose number is @host, at REALTIME @now_ns. Turns begin at multiples of
 * turn_ns, so hosts agree on them without a word.
 */
bool host_share_has_turn(const HostShare *share, uint64_t host, uint64_t now_ns);

/* A number of this machine, the same after each start. */
uint64_t host_share_number(void);

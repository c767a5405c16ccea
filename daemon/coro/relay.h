/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Relay
 *
 * Hands events from the thread that harvests, which must not wait for a disk, to one that
 * writes. The queue between them is as long as a second of a large burst; when
 * it is full the harvest waits, and what the stations lose meanwhile is counted there.
 */

#include "coro/trace.h"

typedef struct Relay Relay;

/* Takes @writer over. Return: 0, -errno. */
int relay_new(Relay **relayp, TraceWriter *writer);

/* To be called by the harvest alone. */
void relay_put(Relay *relay, const CoroEvent *event);

/* After a scan with events: wakes the writer if it sleeps. */
void relay_kick(Relay *relay);

/* Times that the harvest had to wait. */
uint64_t relay_n_stalls(const Relay *relay);

/* Waits until all is written and ends the thread; the writer is back in the caller's hands. Return: it. */
TraceWriter *relay_finish(Relay *relay);
Relay *relay_free(Relay *relay);
DEFINE_CLEANUP(Relay, relay_free)

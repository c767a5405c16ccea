/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Window of the Daemon
 *
 * The end of a window: what it stands for, its names, and who gets it.
 */

#include "host/service/run/daemon-state.h"

/* Closes the window and hands it to the sink, or its requests to the exporters. Return: 0, -errno. */
int daemon_close_window(Daemon *daemon, uint64_t *length_nsp);

/* Hands over looks at heaps alone, which are not part of the window. Return: 0, -errno. */
int daemon_hand_over_heaps(Daemon *daemon);

/* Adds the allocations that are alive to the open window (stage-aggregate.c). Return: 0, -errno. */
int daemon_add_live(Daemon *daemon);

/*
 * Notes the time at which the first samples were delivered, for the summary. The loop asks after each of its
 * turns until it is known. Return: whether it is.
 */
bool daemon_note_delivery(Daemon *daemon);

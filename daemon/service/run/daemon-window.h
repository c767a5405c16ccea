/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Window of the Daemon
 *
 * The end of a window: what it stands for, its names, and who gets it.
 */

#include "service/run/daemon-state.h"

/* What the limits judge of a window that was closed. */
typedef struct DaemonClosed {
        uint64_t length_ns;
        uint64_t most_samples;          /* on the CPU, of one process */
} DaemonClosed;

/* Closes the window and hands it to the sink, or its requests to the exporters. Return: 0, -errno. */
int daemon_close_window(Daemon *daemon, DaemonClosed *closedp);

/*
 * Notes the time at which the first samples were delivered, for the summary. The loop asks after each of its
 * turns until it is known. Return: whether it is.
 */
bool daemon_note_delivery(Daemon *daemon);

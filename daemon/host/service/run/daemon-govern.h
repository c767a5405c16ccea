/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Limits of the Daemon
 *
 * Whether the daemon samples, and how fast.
 */

#include "host/service/run/daemon-state.h"

void daemon_make_governor(Daemon *daemon);

/*
 * Looks for /etc/spanprof/disabled, at a drain and five times a second at most; at the limits, each second.
 * Return: 0, -errno.
 */
int daemon_check_disabled(Daemon *daemon);
int daemon_govern(Daemon *daemon);

/* Return: 0, -errno. */
int daemon_pause_by_command(Daemon *daemon, bool paused);

/* disabled, command, memory, sample-hosts; NULL = not paused. */
const char *daemon_pause_reason(const Daemon *daemon);

/* Boosts have begun or ended: tells the kernel half, and ends the window. Return: 0, -errno. */
int daemon_follow_boosts(Daemon *daemon);

/* Begins a boost; @path: what is behind /boost. Return: HTTP status. */
int daemon_boost(Daemon *daemon, const char *path, Text *page);

/* Part that waits lack now, since threads switch too often; NULL = nothing. */
const char *daemon_waits_lack(const Daemon *daemon);

/*
 * Closes the window (daemon-window.h). The next one has the frequency that the volume of this one allows.
 * Return: 0, -errno.
 */
int daemon_end_window(Daemon *daemon);

/* The same, after the rings were read: what waits there was taken at this window's period. */
int daemon_drain_window(Daemon *daemon);

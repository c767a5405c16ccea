/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Loop of the Daemon
 *
 * Timers, signals, the stop. daemon_stop() is in daemon.h.
 */

#include "host/service/run/daemon-state.h"

/* The event loop with its signals, before there are stages. Return: 0, -errno. */
int daemon_make_loop(Daemon *daemon);

/* When sampling begins: drain, window, housekeeping. Return: 0, -errno. */
int daemon_add_timers(Daemon *daemon);
void daemon_remove_timers(Daemon *daemon);

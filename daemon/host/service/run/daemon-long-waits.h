/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Stacks of Long Waits
 *
 * Where waits are too many to walk them all, walks those that last (`off-cpu-long-wait`), while their threads
 * stand still.
 */

#include "host/service/run/daemon.h"

/* Begins to look for them, if waits have begun without a stack. It ends by itself. Return: 0, -errno. */
int daemon_watch_long_waits(Daemon *daemon);

/* Ends it. */
void daemon_drop_long_waits(Daemon *daemon);

/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Calls at Once
 *
 * As soon as a target begins (an exec, a first sample), the rings are drained, as often as a budget allows.
 * Its libraries come some ms later, so more looks follow.
 */

#include "host/service/run/daemon-state.h"

/* Adds the sources of calls, which come from daemon_hear() on. Return: 0, -errno. */
int daemon_add_calls(Daemon *daemon);
void daemon_remove_calls(Daemon *daemon);

/* Calls are wanted, if none is being answered. After each drain by the loop's own clock. */
void daemon_hear(Daemon *daemon);

/*
 * There is an edge on a ring: of samples, or of notices. Return: 0 = it is no call at once,
 * DAEMON_CALLS_E_TAKEN, -errno.
 */
int daemon_take_call(Daemon *daemon, bool by_sample);

enum {
        _DAEMON_CALLS_E_SUCCESS,
        DAEMON_CALLS_E_TAKEN,           /* the edge was a call, which is or will be answered */
};

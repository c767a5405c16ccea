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

/*
 * Adds a timer that goes off @after_ns from now, and sets one again. Its handler sets it again, or turns it
 * off; one that fails ends the loop. @sourcep: NULL = it belongs to the loop. Return: 0, -errno.
 */
int daemon_add_timer(Daemon *daemon, sd_event_source **sourcep, uint64_t after_ns,
                     sd_event_time_handler_t handler);
int daemon_set_timer(sd_event_source *source, uint64_t after_ns);

/* Whether the open window may end before the next drain: names that it needs are asked for one by one. */
bool daemon_is_near_window_end(const Daemon *daemon);

/* Time until the open window ends; 0 = the next drain may come after that. */
uint64_t daemon_window_left_ns(const Daemon *daemon);

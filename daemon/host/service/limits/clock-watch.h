/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Clock Watch
 *
 * Calls back when CLOCK_REALTIME is set (not when it merely runs): a window has one
 * REALTIME offset, so a step must close it.
 */

#include <sys/epoll.h>
#include <systemd/sd-event.h>

#include "core/base/util/macro.h"

typedef struct ClockWatch ClockWatch;

/* Return: 0, -errno. */
int clock_watch_new(ClockWatch **watchp, sd_event *event, void (*on_step)(void *userdata), void *userdata);
ClockWatch *clock_watch_free(ClockWatch *watch);
DEFINE_CLEANUP(ClockWatch, clock_watch_free)

/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Stop Watch
 *
 * Takes stop signals (stop-signals.h), which are blocked, in a thread of its own while the caller is busy.
 */

#include "core/base/util/stop-signals.h"

typedef struct StopWatch StopWatch;

/*
 * @signals: borrowed, and only the thread may touch them until stop_watch_free(). @heard: called in that
 * thread, with what a signal means and its number. Return: 0, THREAD_E_UNABLE, -errno.
 */
int stop_watch_new(StopWatch **watchp, StopSignals *signals,
                   void (*heard)(void *userdata, StopWish wish, int number), void *userdata);

/* After it no signal is taken any more. */
StopWatch *stop_watch_free(StopWatch *watch);

/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Attached Reader
 *
 * Reads the regions of processes that run already, and writes each event into a trace. Changes nothing in
 * them.
 */

#include "desk/coro/engine/recording.h"

/*
 * Reads until all of these processes have ended, SIGINT or SIGTERM comes, or the duration is over. Events
 * carry the process id. Return: 0, CORO_E_FAILED, -errno.
 */
int coro_attach(const CoroOptions *options, const uint32_t *pids, size_t n_pids, CoroSummary *summary);

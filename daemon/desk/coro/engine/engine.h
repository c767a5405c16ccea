/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Coroutine Engine
 *
 * Runs a command that publishes stations, and writes each event into a trace until the command's end. It has
 * a loop of its own, since at times only microseconds lie between two scans.
 */

#include "desk/coro/engine/recording.h"

/*
 * Runs @argv with a region of stations. *statusp: the command's, as a shell gives it, 128 + N for a signal.
 * Return: 0, CORO_E_FAILED (*statusp: 127 = there is no such command, 126 = it does not start, 125 = the
 * fault is ours), -errno.
 */
int coro_run(const CoroOptions *options, char **argv, CoroSummary *summary, int *statusp);

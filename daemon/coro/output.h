/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Output
 *
 * What the engine and the attached reader have in common: the trace behind its relay, scans
 * that feed it, the progress line and the end.
 */

#include "coro/engine.h"
#include "coro/pace.h"
#include "coro/relay.h"

typedef struct Output {
        const CoroOptions *options;
        Relay *relay;
        Pace pace;
        uint64_t begin_ns, progress_ns, progress_events, n_events, n_lost;
} Output;

/* Return: 0, CORO_E_FAILED (a message was logged), -errno. */
int output_open(Output *output, const CoroOptions *options);
void output_deinit(Output *output);

/* Scans each harvest once and adapts the pace. Return: whether there was an event. */
bool output_scan(Output *output, Harvest *harvests, size_t n_harvests);

/* Once a second, if somebody looks. */
void output_progress(Output *output, const Harvest *harvests, size_t n_harvests, uint64_t now_ns);

/* The last scan; writes all that is left. Return: 0, CORO_E_FAILED, -ENOMEM. */
int output_finish(Output *output, Harvest *harvests, size_t n_harvests, CoroSummary *summary);

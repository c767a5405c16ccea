/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Trace Names
 *
 * Functions at addresses of traces whose programs are gone: where the address lay
 * (desk/coro/trace/trace-code.h), in the file here that is the same build. What is not certain has no name.
 */

#include <stdint.h>

#include "core/base/util/macro.h"
#include "core/symbol/function/symbolizer.h"
#include "desk/coro/trace/trace-code.h"

typedef struct TraceNames TraceNames;

/* @symbolizer: borrowed. Return: 0, -ENOMEM. */
int trace_names_new(TraceNames **namesp, Symbolizer *symbolizer);
TraceNames *trace_names_free(TraceNames *names);
DEFINE_CLEANUP(TraceNames, trace_names_free)

/* For readers of traces. */
TraceCode *trace_names_code(TraceNames *names);

/*
 * The function at an address of the coroutine; NULL = of none in particular. Return: a text that lives
 * until the next call, or NULL.
 */
const char *trace_names_get(TraceNames *names, const StationCode *of, uint64_t address);

/* To the log, at most once for each: files in which functions were looked for and not found. */
void trace_names_say(const TraceNames *names);

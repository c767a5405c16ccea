/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Trace Names
 *
 * Names for addresses of traces whose programs are gone, by what the traces kept of their code: the process that a coroutine was
 * of, the file that lay there, by its build id, and the function there. What is not certain has no name: two files at
 * one place, a frame that coroutines of two functions had, a file here that is another build.
 */

#include <stdint.h>

#include "coro/trace-mappings.h"
#include "coro/trace-stations.h"
#include "symbol/symbolizer.h"
#include "util/macro.h"

typedef struct TraceNames TraceNames;

/* @symbolizer: borrowed. Return: 0, -ENOMEM. */
int trace_names_new(TraceNames **namesp, Symbolizer *symbolizer);
TraceNames *trace_names_free(TraceNames *names);
DEFINE_CLEANUP(TraceNames, trace_names_free)

/* What a trace says. Return: 0, -ENOMEM. */
int trace_names_mapping(TraceNames *names, const TraceMapping *mapping);
int trace_names_station(TraceNames *names, const TraceStationEnd *end);

/* The function at an address of the coroutine; NULL = of nobody in particular. Return: a text that lives until the next call, or NULL. */
const char *trace_names_get(TraceNames *names, const StationCode *code, uint64_t address);

/* To the log, at most once for each: files in which functions were looked for and not found. */
void trace_names_say(const TraceNames *names);

/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Trace Code
 *
 * The mappings of a trace, to be asked in which file an address lay, and where. An address that is a
 * coroutine's frame stands for the function that goes on there. An uncertain address has no place: two files
 * were mapped there, or two functions had the frame.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/base/util/macro.h"
#include "desk/coro/trace/trace-rows.h"

typedef struct TraceCode TraceCode;

typedef struct TracePlace {
        const TraceMapping *mapping;    /* valid until another one is added; NULL = not known */
        uint64_t address;               /* ELF address, as the file counts */
} TracePlace;

int trace_code_new(TraceCode **codep);
TraceCode *trace_code_free(TraceCode *code);
DEFINE_CLEANUP(TraceCode, trace_code_free)

/* Adds a row of the trace; texts are copied. Return: 0, -ENOMEM. */
int trace_code_mapping(TraceCode *code, const TraceMapping *mapping);
int trace_code_station(TraceCode *code, const TraceStationEnd *end);

/* The place of an address that this coroutine gave. */
TracePlace trace_code_find(TraceCode *code, const StationCode *of, uint64_t address);

/*
 * An address without a coroutine: hands on each place that it may have had, until @func returns false. Places
 * may differ; the caller may find the same function in all of them.
 */
void trace_code_find_all(TraceCode *code, uint64_t address,
                         bool (*func)(void *userdata, const TracePlace *place), void *userdata);

/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Trace Code
 *
 * What a trace keeps of the code of its programs, to be asked where in which file an address lay. An address
 * that is a coroutine's frame stands for the function that goes on there. What is not certain is nowhere: two
 * files at one place, a frame that coroutines of two functions had.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/util/macro.h"
#include "coro/trace/trace-rows.h"

typedef struct TraceCode TraceCode;

typedef struct TracePlace {
        const TraceMapping *mapping;    /* good until another one is added; NULL = not known */
        uint64_t address;               /* as the file counts */
} TracePlace;

int trace_code_new(TraceCode **codep);
TraceCode *trace_code_free(TraceCode *code);
DEFINE_CLEANUP(TraceCode, trace_code_free)

/* What a trace says. Return: 0, -ENOMEM. */
int trace_code_mapping(TraceCode *code, const TraceMapping *mapping);
int trace_code_station(TraceCode *code, const TraceStationEnd *end);

/* An address that a coroutine gave. */
TracePlace trace_code_find(TraceCode *code, const StationCode *of, uint64_t address);

/*
 * An address of nobody in particular: hands on each place where it may have been, until @func returns false.
 * They need not be the same: whoever asks may find that the same is there.
 */
void trace_code_find_all(TraceCode *code, uint64_t address,
                         bool (*func)(void *userdata, const TracePlace *place), void *userdata);

/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Traces of coroutines as inputs: in any form, told by the first bytes, packed or not. A database cannot be
 * read from a pipe or packed.
 */

#include "core/base/util/text.h"
#include "desk/convert/source.h"
#include "desk/coro/trace/trace-read.h"

enum {
        _TRACE_SOURCE_E_SUCCESS,
        TRACE_SOURCE_E_UNREADABLE = 1000,       /* @problem says why; no taker may return it */
};

bool trace_source_recognize(const uint8_t *data, size_t size);

/*
 * Hands on the events, and the rows that stand behind them. A warning is logged for a trace of an older
 * version, which had its rows in files beside it. @counts: set in any case. Return: 0,
 * TRACE_SOURCE_E_UNREADABLE, what a taker returned, -ENOMEM.
 */
int trace_source_read(const Source *source, const TraceTakers *to, TraceReadCounts *counts, Text *problem);

/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Traces of coroutines as inputs: in any form, told by the first bytes, packed or not. A database cannot be
 * read from a pipe or packed.
 */

#include "base/util/text.h"
#include "coro/trace/trace-read.h"
#include "formats/convert/source.h"

enum {
        _TRACE_SOURCE_E_SUCCESS,
        TRACE_SOURCE_E_UNREADABLE = 1000,       /* @problem says why; other than whatever @func may return */
};

bool trace_source_recognize(const uint8_t *data, size_t size);

/* The form of a source that was recognized. */
TraceForm trace_source_form(const Source *source);

/* @counts: set in any case. Return: 0, TRACE_SOURCE_E_UNREADABLE, what @func returned, -ENOMEM. */
int trace_source_read(const Source *source, TraceEventFunc func, void *userdata, TraceReadCounts *counts,
                      Text *problem);

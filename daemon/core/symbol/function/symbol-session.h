/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Symbol Session
 *
 * Has a worker without rights read the symbols of an object and make their names readable, for a Symbolizer
 * in a thread that may wait. This side looks for files, opens them and hands them over. Of their content it
 * sees only the first four bytes and the worker's answer, which is checked (symbol-wire.h).
 */

#include "core/base/sandbox/worker-session.h"
#include "core/symbol/function/symbolizer.h"
#include "core/symbol/line/lines.h"

enum {
        _SYMBOL_SESSION_E_SUCCESS,
        SYMBOL_SESSION_E_FAILED,         /* no worker could do it: try again, later and later */
};

/*
 * Call it before symbolizer_name() for these addresses of @object. It has workers read all that is not known
 * yet of the object and of these names. @n: up to SYMBOL_WIRE_MAX_NAMES. @counts: counts of workers. Return:
 * 0, SYMBOL_SESSION_E_FAILED, -ENOMEM.
 */
int symbol_session_run(Zygotes *zygotes, Symbolizer *symbolizer, const SymbolObject *object,
                       const uint64_t *addresses, uint32_t n, WorkerSessionCounts *counts);

/*
 * Has a worker read the lines at @n addresses of @object, up to SYMBOL_WIRE_MAX_NAMES; @sink takes them as
 * they come. *statep: READ, ABSENT = neither the object nor a debug file has lines, TIMEOUT, FAILED. Return:
 * 0, the sink's negative code, -ENOMEM.
 */
int symbol_session_lines(Zygotes *zygotes, Symbolizer *symbolizer, const SymbolObject *object,
                         const uint64_t *addresses, uint32_t n, LinesSink sink, void *userdata,
                         WorkerSessionCounts *counts, LinesState *statep);

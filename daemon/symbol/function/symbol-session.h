/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Symbol WorkerSession
 *
 * Has a worker without rights read the symbols of an object, and make their names readable, for a Symbolizer
 * in a thread that may wait. This side looks for files, opens them and hands them over; of what is in them it
 * sees no byte but the first four, and what the worker says, which is checked (symbol-wire.h).
 */

#include "base/sandbox/worker-session.h"
#include "symbol/function/symbolizer.h"

enum {
        _SYMBOL_SESSION_E_SUCCESS,
        SYMBOL_SESSION_E_FAILED,         /* no worker could do it: to be tried again, later and later */
};

/*
 * Before symbolizer_name() is called for these addresses of @object: whatever is not known yet of it and of
 * their names.
 * @n: up to SYMBOL_WIRE_MAX_NAMES. @counts: of workers. Return: 0, SYMBOL_SESSION_E_FAILED, -ENOMEM.
 */
int symbol_session_run(Zygotes *zygotes, Symbolizer *symbolizer, const SymbolObject *object,
                       const uint64_t *addresses, uint32_t n, WorkerSessionCounts *counts);

/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * All Runtimes
 *
 * The one list of runtimes that need a reader of their own: the daemon registers them, workers look for their
 * files, `targets` names them, and `runtimes` takes their names.
 */

#include <stddef.h>

#include "host/sampling/runtime/runtimes.h"

/* As many as RUNTIME_HAS_* has bits. */
enum { ALL_RUNTIMES_N = 8 };

extern const RuntimeOps *const all_runtimes[ALL_RUNTIMES_N];

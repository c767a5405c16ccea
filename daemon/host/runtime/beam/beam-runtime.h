/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Erlang as a Runtime
 *
 * RuntimeOps of Erlang's virtual machine with its JIT: erl, releases, programs of Elixir.
 */

#include "host/sampling/runtime/runtimes.h"

extern const RuntimeOps beam_runtime;

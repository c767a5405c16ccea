/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * V8 as a Runtime
 *
 * The entry for all-runtimes.c: Node.js, and whatever else has V8 in it and exports its constants. It is
 * registered with FileLinks of v8_link_ops (v8-link.h), or with NULL: then this process reads memory itself.
 */

#include "host/sampling/runtime/runtimes.h"

extern const RuntimeOps v8_runtime;

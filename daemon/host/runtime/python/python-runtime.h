/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * CPython as a Runtime
 *
 * Python 3.8 and newer, as host/sampling/runtime/runtimes.h asks for it. It is registered with FileLinks of
 * python_link_ops (python-link.h), or with NULL: then this process reads memory of interpreters itself.
 */

#include "host/sampling/runtime/runtimes.h"

extern const RuntimeOps python_runtime;

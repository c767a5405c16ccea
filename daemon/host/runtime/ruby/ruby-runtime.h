/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Ruby as a Runtime
 *
 * RuntimeOps of Ruby: ruby, and programs with its library.
 */

#include "host/sampling/runtime/runtimes.h"

extern const RuntimeOps ruby_runtime;

/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * HotSpot as a Runtime
 *
 * Java on OpenJDK's virtual machine, 8 and newer, as sampling/runtime/runtimes.h asks for it.
 */

#include "sampling/runtime/runtimes.h"

extern const RuntimeOps hotspot_runtime;

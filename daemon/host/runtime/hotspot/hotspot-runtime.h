/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * HotSpot as a Runtime
 *
 * Java on OpenJDK's virtual machine, 8 and newer, as host/sampling/runtime/runtimes.h asks for it. It is
 * registered with its HotspotLinks (hotspot-link.h), or with NULL: then this process reads memory of JVMs
 * itself.
 */

#include "host/sampling/runtime/runtimes.h"

extern const RuntimeOps hotspot_runtime;

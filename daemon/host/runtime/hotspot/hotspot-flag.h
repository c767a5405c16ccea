/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Flags of a JVM
 *
 * What its command line and its own choice have set, as the JVM publishes it.
 */

#include <stdbool.h>

#include "host/runtime/hotspot/hotspot-layout.h"

/*
 * Pure but for @reader. @bias: where libjvm is loaded. Whether C2 keeps no safepoint in counted loops: code
 * that it inlines there has no description then. false if it is not known, or if there is no C2.
 */
bool hotspot_flag_no_loop_polls(const HotspotLayout *layout, const HotspotReader *reader, uint64_t bias);

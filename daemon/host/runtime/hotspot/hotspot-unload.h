/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Unloading of Classes
 *
 * Whether a JVM has unloaded a class between two moments: from its own count of unloaded classes.
 */

#include <stdint.h>

#include "host/runtime/hotspot/hotspot-layout.h"

/*
 * Pure but for @reader. @bias: where libjvm is loaded. Return: the address of the count, 8 bytes; 0 = the JVM
 * publishes none (-XX:-UsePerfData).
 */
uint64_t hotspot_unload_find(const HotspotLayout *layout, const HotspotReader *reader, uint64_t bias);

/* Of a count: another one after each class that is unloaded. Never 0, which says that there is no count. */
static inline uint32_t hotspot_unload_stamp(uint64_t count) {
        return (uint32_t)count == UINT32_MAX ? 1 : (uint32_t)count + 1;
}

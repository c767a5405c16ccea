/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Published Lists of a JVM
 *
 * Finds flags of the command line by their names, and the count of unloaded classes, which tells whether a
 * class went between two moments. Tells whether a JVM still starts.
 */

#include <stdbool.h>
#include <stdint.h>

#include "host/runtime/hotspot/hotspot-layout.h"

/*
 * Pure but for @reader. @bias: where libjvm is loaded. Finds the flags called @names, each of 31 bytes at
 * most. @values: addresses of their values; 0 = there is no such flag.
 */
void hotspot_published_flags(const HotspotLayout *layout, const HotspotReader *reader, uint64_t bias,
                             const char *const *names, size_t n, uint64_t *values);

/*
 * Pure but for @reader. @bias: where libjvm is loaded. Whether C2 keeps no safepoint in counted loops: code
 * that it inlines there has no description then. false if it is not known, or if there is no C2.
 */
bool hotspot_published_no_loop_polls(const HotspotLayout *layout, const HotspotReader *reader, uint64_t bias);

/*
 * Pure but for @reader. @bias: where libjvm is loaded. Whether a second thread of Java has begun, or may
 * have, as the list of threads is not described. Before that the bounds of code are not the final ones.
 */
bool hotspot_published_has_begun(const HotspotLayout *layout, const HotspotReader *reader, uint64_t bias);

/*
 * Pure but for @reader. @bias: where libjvm is loaded. Return: the address of the count, 8 bytes; 0 = the JVM
 * publishes none (-XX:-UsePerfData).
 */
uint64_t hotspot_published_unloads(const HotspotLayout *layout, const HotspotReader *reader, uint64_t bias);

/*
 * Makes a stamp of a count, another one after each class that is unloaded. Never 0, which says that there is
 * no count.
 */
static inline uint32_t hotspot_published_stamp(uint64_t count) {
        return (uint32_t)count == UINT32_MAX ? 1 : (uint32_t)count + 1;
}

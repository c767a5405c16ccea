/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Stack Chunks
 *
 * Where the frames of a virtual thread lie that has come back to a carrier: most of them stay in the heap.
 */

#include "host/runtime/hotspot/hotspot-layout.h"

/*
 * Pure but for the layout's reader. Fills layout->chunk, which stays zero where frames are not read in the
 * heap: before JDK 21, and without compressed references. Return: 0, HOTSPOT_LAYOUT_E_UNREADABLE: the JVM has
 * not made its classes so far.
 */
int hotspot_chunk_read(HotspotLayout *layout, const HotspotReader *reader, uint64_t bias);

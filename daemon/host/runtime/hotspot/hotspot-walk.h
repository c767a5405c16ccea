/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Walk of Java Frames
 *
 * The Java frames of a thread that is in native code or in the VM, from where it left Java, without stopping
 * it: what the kernel half does at a tick, once more, for tests alone.
 */

#include <stdint.h>

#include "host/runtime/hotspot/hotspot-code.h"

typedef struct HotspotRegisters {
        uint64_t pc, sp, fp;
} HotspotRegisters;

typedef enum HotspotWalkEnd {
        HOTSPOT_WALK_ROOT,              /* the first Java frame of the thread is there */
        HOTSPOT_WALK_NATIVE,            /* the pc is in no code heap */
        HOTSPOT_WALK_NO_BLOCK,          /* … in a heap, and in no block of it */
        HOTSPOT_WALK_UNREADABLE,
        HOTSPOT_WALK_BARRIER,           /* the rest of a virtual thread's stack is in the heap */
        HOTSPOT_WALK_MALFORMED,         /* a frame that does not lie above the one before */
        HOTSPOT_WALK_FULL,
} HotspotWalkEnd;

/* Where JavaThread @thread left Java for the last time. Return: whether it has, and is not back. */
bool hotspot_walk_start(HotspotRegisters *registers, const HotspotLayout *layout, const HotspotReader *reader,
                        uint64_t thread);

/*
 * Pure but for @reader. @words: room for @max frames as they are on the wire (docs/RUNTIMES.md), the
 * innermost first. Native frames between Java frames are left out. @thread: its JavaThread *, which leads
 * from a virtual thread to its carrier; 0 = not known.
 */
HotspotWalkEnd hotspot_walk(uint64_t (*words)[HOTSPOT_WORDS], uint32_t max, uint32_t *np,
                            const HotspotCode *code, const HotspotLayout *layout, const HotspotReader *reader,
                            uint64_t thread, HotspotRegisters registers);

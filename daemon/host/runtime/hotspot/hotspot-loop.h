/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Loops of Byte Code
 *
 * A loop of compiled code without any description: the byte code that runs between the places around it says
 * whose loop it is, if it has one loop alone.
 */

#include <stdbool.h>
#include <stdint.h>

#include "host/runtime/hotspot/hotspot-scopes.h"

/* Scopes of one place, the innermost first. */
typedef struct HotspotChain {
        HotspotScope scopes[HOTSPOT_MAX_INLINED];
        uint32_t n;
} HotspotChain;

/*
 * Pure but for its reader. @before, @after: chains of the places in front of and behind a loop of the nmethod
 * @in, of which the outermost @common have the same methods. @is_back: the code jumps back in between, so
 * that a loop of any of these begins anew. *chainp: the chain of the loop's own method.
 * Return: whether the code between the two has one loop alone, and no call that may have another.
 */
bool hotspot_loop_find(HotspotChain *chainp, const HotspotCompiled *in, const HotspotChain *before,
                       const HotspotChain *after, uint32_t common, bool is_back);

/* Pure. Whether a call of @found leads elsewhere in @other: its target depends on an object. */
bool hotspot_loop_contradicts(const HotspotChain *found, const HotspotChain *other);

/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Flow of Compiled Code
 *
 * HotSpot describes few places of compiled code. For a place between two of them, the code itself says which
 * description may be believed.
 */

#include <stdbool.h>
#include <stdint.h>

#include "runtime/hotspot/hotspot-reader.h"

/* Addresses. A place is one that has a description; each begins an instruction. */
typedef struct HotspotPlaces {
        uint64_t code, code_end;
        uint64_t before;                /* the last place before the pc; @code = there is none */
        uint64_t after;                 /* the first place at or after the pc; @code_end = there is none */
        uint64_t beyond;                /* the next one after that, or @code_end */
} HotspotPlaces;

typedef enum HotspotFlow {
        HOTSPOT_FLOW_AFTER,             /* what the place after the pc says holds for the pc */
        HOTSPOT_FLOW_BEFORE,            /* what the place before it says does */
        HOTSPOT_FLOW_COMMON,            /* only callers do that both places have */
        HOTSPOT_FLOW_ROOT,              /* only the compiled method itself does */
        HOTSPOT_FLOW_ELSEWHERE,         /* the code goes on at *nextp, before it comes to the place after */
} HotspotFlow;

enum { HOTSPOT_MAX_EXITS = 16 };

/* Where branches lead that leave the way to the place after, in its order. */
typedef struct HotspotExits {
        uint64_t to[HOTSPOT_MAX_EXITS];
        uint32_t n;                     /* HOTSPOT_MAX_EXITS: there may be more */
} HotspotExits;

/*
 * Pure but for @reader. Where the code from @at on leads, for a thread that is at @pc. @at: @pc, or *nextp of
 * the last call. @exits grows.
 */
HotspotFlow hotspot_flow(const HotspotReader *reader, const HotspotPlaces *places, uint64_t pc, uint64_t at,
                         uint64_t *nextp, HotspotExits *exits);

/* Pure but for @reader. Whether the code from the place before goes on to @pc. */
bool hotspot_flow_leads(const HotspotReader *reader, const HotspotPlaces *places, uint64_t pc);

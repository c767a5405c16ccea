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

#include "host/runtime/hotspot/hotspot-reader.h"

/* Addresses. A place is one that has a description; each begins an instruction. */
typedef struct HotspotPlaces {
        uint64_t code, code_end;
        uint64_t before;                /* the last place before the pc; @code = there is none */
        uint64_t earlier;               /* the one before that, or @code */
        uint64_t after;                 /* the first place at or after the pc; @code_end = there is none */
        uint64_t beyond;                /* the next one after that, or @code_end */
} HotspotPlaces;

typedef enum HotspotFlow {
        HOTSPOT_FLOW_AFTER,             /* the code leads to the place after */
        HOTSPOT_FLOW_LOOP,              /* the place after is of the loop that the pc is in, too */
        HOTSPOT_FLOW_BEFORE,            /* the place before is */
        HOTSPOT_FLOW_ROOT,              /* the code leads to an unknown place */
        HOTSPOT_FLOW_RETURN,            /* the code returns */
        HOTSPOT_FLOW_BACK,              /* the code jumps back to *nextp, at the pc or in front of it */
        HOTSPOT_FLOW_ELSEWHERE,         /* the code goes on at *nextp, before it comes to the place after */
} HotspotFlow;

/* The outermost of the loops. */
typedef struct HotspotLoop {
        uint64_t head, end;             /* the jump back; 0 = there is no loop */
} HotspotLoop;

/*
 * Pure but for @reader. Where the code from @at on leads, for a thread that is at @pc. @at: @pc, or *nextp of
 * the last call. @loop grows by each jump back over the pc on the way.
 */
HotspotFlow hotspot_flow(const HotspotReader *reader, const HotspotPlaces *places, uint64_t pc, uint64_t at,
                         uint64_t *nextp, HotspotLoop *loop);

/* Pure but for @reader. Whether the code from @before on goes on to @pc, or into its loop. */
bool hotspot_flow_leads(const HotspotReader *reader, uint64_t before, uint64_t pc, const HotspotLoop *loop);

/*
 * Pure but for @reader. The innermost loop around @pc, without a place, a call or a loop in it; *nextp: the
 * instruction behind it. Return: whether there is one.
 */
bool hotspot_flow_loop(const HotspotReader *reader, const HotspotPlaces *places, uint64_t pc,
                       HotspotLoop *loopp, uint64_t *nextp);

/*
 * Pure but for @reader. The first jump of the method that leads to a loop behind @places->before, from
 * elsewhere. Return: whether there is one.
 */
bool hotspot_flow_source(const HotspotReader *reader, const HotspotPlaces *places, const HotspotLoop *loop,
                         uint64_t *sourcep);

enum { HOTSPOT_MAX_EXITS = 16 };

/* An instruction that may leave for code behind all else. */
typedef struct HotspotExit {
        uint64_t at, target;
} HotspotExit;

typedef struct HotspotExits {
        HotspotExit exits[HOTSPOT_MAX_EXITS];
        uint32_t n;
        uint64_t end;                   /* where the search ended */
} HotspotExits;

/* Adds @exit in the order of their places; where there are too many, the first or the last one goes. */
void hotspot_exits_add(HotspotExits *exits, const HotspotExit *exit, bool is_last);

/*
 * Pure but for @reader. Branches in [@from, @to) that lead behind @places->after. With @is_last the last
 * ones; else the first, up to where the code ends or jumps back over @pc.
 */
void hotspot_flow_exits(HotspotExits *exits, const HotspotReader *reader, const HotspotPlaces *places,
                        uint64_t from, uint64_t to, uint64_t pc, bool is_last);

/*
 * Pure but for @reader. The first call that the code from @target on comes to, without a branch on the way.
 * Return: whether there is one; *returnp: its return address, *calledp: where it leads.
 */
bool hotspot_flow_call(const HotspotReader *reader, const HotspotPlaces *places, uint64_t target,
                       uint64_t *returnp, uint64_t *calledp);

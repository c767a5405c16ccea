/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Inlined Java Frames
 *
 * Which methods a pc of compiled code stands for: the compiled one, and what was inlined into it.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "host/runtime/hotspot/hotspot-code.h"

enum {
        HOTSPOT_MAX_INLINED = 128,      /* frames of one pc; HotSpot inlines some 15 deep (MaxInlineLevel) */
        HOTSPOT_NO_BCI = -2,
};

typedef struct HotspotScope {
        uint64_t method;                /* Method * */
        int32_t bci;                    /* −1: at the method's entry; HOTSPOT_NO_BCI = unknown */
} HotspotScope;

enum {
        _HOTSPOT_SCOPES_E_SUCCESS,
        HOTSPOT_SCOPES_E_NONE,          /* no debug information for this pc: the method alone is known */
        HOTSPOT_SCOPES_E_UNREADABLE,
        HOTSPOT_SCOPES_E_MALFORMED,     /* the nmethod went meanwhile, or no JVM wrote it */
};

/*
 * Pure but for its reader. @pc: in the nmethod @in, exact or a return address. @scopes: HOTSPOT_MAX_INLINED
 * of them, the innermost first; the last is its own method. Inner ones that are not known for certain are
 * left out, and *is_shortp says so. Return: 0 with *np ≥ 1, HOTSPOT_SCOPES_E_*.
 */
int hotspot_scopes_read(HotspotScope scopes[HOTSPOT_MAX_INLINED], uint32_t *np, const HotspotCompiled *in,
                        uint64_t pc, bool *is_shortp);

/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Reshape
 *
 * A closed window → the same events in the form that one receiver wants: fewer attributes, other links, names
 * of types that it takes. What becomes equal is merged, so a lean window is small as well. The old window
 * stays as it is: it is shaped once for each kind of receiver.
 */

#include <stdbool.h>
#include <stdint.h>

#include "core/profile/filter.h"
#include "core/profile/remap.h"
#include "core/profile/window.h"

/* Part of its span that a sample tells. */
typedef enum ReshapeLinks {
        RESHAPE_LINKS_SPAN,             /* a Link: trace and span */
        RESHAPE_LINKS_TRACE,            /* the sample's attribute trace_id, 32 hex digits; no Link */
        RESHAPE_LINKS_OFF,
} ReshapeLinks;

/* Attributes of resources that are no strings. */
typedef enum ReshapeNumbers {
        RESHAPE_NUMBERS_KEPT,
        RESHAPE_NUMBERS_TEXT,           /* as strings */
        RESHAPE_NUMBERS_OFF,
} ReshapeNumbers;

/* Everything is borrowed. Zeros change nothing. */
typedef struct ReshapeOptions {
        /* resources and samples keep only attributes with a key that matches `always` or `keep` */
        bool lean;
        FilterWords always, keep;
        /* resource attributes with such a key go onto each sample, too */
        FilterWords repeat;
        ReshapeLinks links;
        ReshapeNumbers numbers;
        /* no hyphen in names of types; period 1 in place of 0, but for off_cpu */
        bool plain_types;
        bool unnamed;                   /* native frames lose the names that this machine has found */
        bool nameless;                  /* all frames lose their names, but those that have nothing else */
        RemapPaths paths;               /* paths of mapped files */
        bool no_fine;                   /* profiles of PROFILE_FINE are left out */
        bool untimed;                   /* events lose their times, and become sums */
        const WindowLimits *limits;     /* limits of the new window; NULL = window_default_limits */
} ReshapeOptions;

/* Events that found the new window full, by what they are. */
typedef struct ReshapeLost {
        uint64_t n_events, n_cpu;
} ReshapeLost;

bool reshape_is_needed(const ReshapeOptions *options);

/*
 * *windowp: closed. Profiles keep their ids; of several that
 * become one, the first's. Return: 0, -ENOMEM.
 */
int window_reshape(Window **windowp, const Window *from, const ReshapeOptions *options, ReshapeLost *lostp);

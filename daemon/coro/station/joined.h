/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Joined Region
 *
 * A region of a process that is sampled, followed while both go on: its events in a journal, for questions
 * who ran; the time that its coroutines are suspended; and when each was last seen alive.
 */

#include "base/util/macro.h"
#include "coro/station/event-history.h"
#include "coro/station/region-scan.h"
#include "coro/station/region.h"
#include "coro/station/suspended.h"

typedef struct Life {
        uint64_t alive_ns;              /* when it was last seen not to be dead */
        uint64_t dead_ns;               /* when it was first seen dead, 0 = not yet */
        bool listed;                    /* in `active` */
} Life;

typedef struct Joined {
        Region *region;
        RegionScan scan;
        EventHistory journal;
        Suspended suspended;
        Life *lives;                    /* by station */
        /* stations that are resumed by their newest event: whether they live is looked at */
        uint32_t *active;
        uint32_t n_active;
        uint64_t scanned_ns;            /* every event until then is in the journal */
        uint64_t cost_ns;               /* of the last look */
        uint32_t n_users;
        /* of them, whose coroutines these are taken for; 0 = of nobody any more */
        uint32_t pid;
        uint64_t generation;
} Joined;

/* Takes @region over, also on failure. Return: 0, -ENOMEM. */
int joined_new(Joined **joinedp, Region *region);
Joined *joined_free(Joined *joined);

/* Reads what is new. Return: 0, -ENOMEM. */
int joined_scan(Joined *joined, RegionScanFound *found);

/* Whether the coroutine lives, now. */
void joined_look_at_life(Joined *joined, uint32_t station, uint64_t now_ns);

/*
 * What is suspended at the last scan counts until then, or until @end_ns if that was earlier. Return: 0,
 * -ENOMEM.
 */
int joined_count_suspended(Joined *joined, uint64_t end_ns);

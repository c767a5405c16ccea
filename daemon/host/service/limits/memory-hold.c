/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Takes a step each second while memory is above the limit, and one back after ten seconds below 7/8 of it: a
 * step gives back memory at once or with the next window, so that the next look sees it.
 */

#include "host/service/limits/memory-hold.h"

#include "core/base/util/macro.h"

/* With a quarter of the samples, what takes memory is not samples: fewer of them would give back nothing. */
static uint32_t least(const MemoryHold *hold) {
        return MAX(hold->nominal / 4, 1u);
}

static int take_step(MemoryHold *hold) {
        hold->n_calm = 0;
        if (hold->step < MEMORY_STEP_FREQUENCY)
                hold->step++;
        else if (hold->frequency <= least(hold))
                return 0;
        if (hold->step == MEMORY_STEP_FREQUENCY)
                hold->frequency = MAX(hold->frequency / 2, least(hold));
        return MEMORY_HOLD_E_MORE;
}

static int step_back(MemoryHold *hold) {
        hold->n_calm = 0;
        if (hold->step == MEMORY_STEP_FREQUENCY) {
                hold->frequency = MIN(hold->frequency * 2, hold->nominal);
                if (hold->frequency * 2 > hold->nominal)        /* 99 → 49 → 99, not 98 */
                        hold->frequency = hold->nominal;
                if (hold->frequency < hold->nominal)
                        return MEMORY_HOLD_E_LESS;
        }
        hold->step--;
        return MEMORY_HOLD_E_LESS;
}

int memory_hold_judge(MemoryHold *hold, uint64_t used_bytes) {
        uint64_t max = hold->max_bytes;

        if (!used_bytes)
                hold->is_full = false;          /* not known */
        if (!max || !used_bytes)
                return 0;
        hold->is_full = used_bytes > (hold->is_full ? max : max + max / 8);
        if (used_bytes > max)
                return take_step(hold);
        hold->n_calm = used_bytes < max / 8 * 7 ? hold->n_calm + 1 : 0;
        return hold->step && hold->n_calm >= MEMORY_HOLD_CALM ? step_back(hold) : 0;
}

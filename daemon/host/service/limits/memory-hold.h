/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Hold of Memory
 *
 * What the daemon gives up, step by step, while it uses more memory than its control group's limit leaves it
 * (group-limit.h). Each step includes those before it. An eighth above that, which is 90 % of the limit,
 * nothing is sampled. Numbers in, decisions out; daemon-govern.c carries them out.
 */

#include <stdbool.h>
#include <stdint.h>

enum memory_step {
        MEMORY_STEP_NONE,
        MEMORY_STEP_TABLES,             /* unwind tables: those in use alone, and no more than now */
        MEMORY_STEP_WINDOWS,            /* windows of a quarter of their length */
        MEMORY_STEP_FREQUENCY,          /* half the frequency, then a quarter */
};

typedef struct MemoryHold {
        uint64_t max_bytes;             /* 0 = no limit */
        uint32_t nominal, frequency;    /* Hz: as configured, now */
        enum memory_step step;
        unsigned n_calm;                /* looks far below the limit, one after the other */
        bool is_full;                   /* nothing is sampled */
} MemoryHold;

enum {
        _MEMORY_HOLD_E_SUCCESS,
        MEMORY_HOLD_E_MORE,             /* a step more is taken, or the frequency is half of what it was */
        MEMORY_HOLD_E_LESS,             /* a step less, or twice the frequency */
};

enum { MEMORY_HOLD_CALM = 10 };         /* looks, a second apart */

/* @used_bytes: 0 = not known. Return: 0, MEMORY_HOLD_E_*. */
int memory_hold_judge(MemoryHold *hold, uint64_t used_bytes);

/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Limit of Switches
 *
 * With --off-cpu each switch of threads on the machine runs a program. Above a limit less is read of waits,
 * step by step (enum abi_wait_limit), and far above it they are not counted for a while:
 *
 *     switches, of the limit    1        1.5           2        3
 *     ──────────────────────────┼─────────┼────────────┼────────┼─────▶
 *     left out, with all before   walks     long waits   spans    all
 *
 * Decides when steps begin and end. Numbers in, decisions out (daemon-govern.c carries them out).
 */

#include <stdbool.h>
#include <stdint.h>

#include "core/base/util/clock.h"
#include "host/sampling/sample/sampler.h"

#define SWITCH_LIMIT_INTERVAL_NS (NS_PER_SEC / 2)       /* least time that is judged */

enum {
        SWITCH_LIMIT_OVER = 3,          /* intervals above a step, one after the other, until it holds */
        SWITCH_LIMIT_CALM = 10,         /* below half of that, until it holds no more */
};

typedef struct SwitchLimit {
        uint64_t max;                   /* a second and CPU; 0 = none */
        enum abi_wait_limit most;       /* the last step that may be taken */
        uint64_t since_ns, n_switches;  /* when the interval began, 0 = not yet, and how many by then */
        unsigned n_over, n_calm;
        enum abi_wait_limit over, calm; /* the step of the lowest of these intervals, and of the highest */
        enum abi_wait_limit step;       /* step that holds now */
} SwitchLimit;

enum {
        _SWITCH_LIMIT_E_SUCCESS,
        SWITCH_LIMIT_E_LESS,            /* `step` is a higher one from now on */
        SWITCH_LIMIT_E_MORE,            /* … a lower one */
};

/* @n_switches: of the machine so far. @n_cpus: 1 or more. Return: 0, SWITCH_LIMIT_E_*. */
int switch_limit_judge(SwitchLimit *limit, uint64_t now_ns, uint64_t n_switches, unsigned n_cpus);

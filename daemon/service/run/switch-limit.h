/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Limit of Switches
 *
 * With --off-cpu each switch of threads on the machine runs a program. Above a limit waits are not counted
 * for a while: decides when that begins and ends. Numbers in, decisions out (daemon-govern.c carries them
 * out).
 */

#include <stdbool.h>
#include <stdint.h>

#include "base/util/clock.h"

#define SWITCH_LIMIT_INTERVAL_NS (NS_PER_SEC / 2)       /* that is judged, at least */

enum {
        SWITCH_LIMIT_OVER = 3,          /* intervals above the limit, one after the other, until it holds */
        SWITCH_LIMIT_CALM = 10,         /* below half of it, until it holds no more */
};

typedef struct SwitchLimit {
        uint64_t max;                   /* a second and CPU; 0 = none */
        uint64_t since_ns, n_switches;  /* when the interval began, 0 = not yet, and how many by then */
        unsigned n_over, n_calm;
        bool holds;                     /* waits are not counted */
} SwitchLimit;

enum {
        _SWITCH_LIMIT_E_SUCCESS,
        SWITCH_LIMIT_E_HOLDS,           /* it does from now on */
        SWITCH_LIMIT_E_ENDS,            /* it does no more */
};

/* @n_switches: of the machine so far. @n_cpus: 1 or more. Return: 0, SWITCH_LIMIT_E_*. */
int switch_limit_judge(SwitchLimit *limit, uint64_t now_ns, uint64_t n_switches, unsigned n_cpus);

/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Sweep
 *
 * A pass over /proc that never ends: which process to look at next, and when. Its caller says what a look is.
 */

#include <dirent.h>
#include <stdbool.h>
#include <stdint.h>

#include "host/sampling/discover/sweep-results.h"

typedef struct Sweep {
        DIR *dir;                       /* where it is; NULL = at the start */
        uint64_t next_ns;
        bool is_resync;                 /* notices were lost: all processes, at once and thoroughly, */
        bool is_again;                  /* and once more, since more were lost meanwhile */
        uint64_t cost_ns;               /* of this pass over all processes so far */
        uint64_t rest_ns;               /* no such pass before this time */
        SweepResults results;
} Sweep;

/* Return: 0, or a code that ends the step. */
typedef int (*SweepLook)(void *userdata, uint32_t pid);

void sweep_deinit(Sweep *sweep);

/* Notices were lost: all processes are looked at, a few at each sweep_work(). */
void sweep_resync(Sweep *sweep);

/*
 * A step, if it is due at @now_ns. *next_nsp: when the next one is. Return: 0, what @look returned.
 */
int sweep_work(Sweep *sweep, uint64_t now_ns, SweepLook look, void *userdata, uint64_t *next_nsp);

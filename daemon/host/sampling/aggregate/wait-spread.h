/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Spread of Waits
 *
 * Waits whose stacks were not walked stand for unknown code. This hands their time to the stacks of those
 * that were walked, by the chance that each was drawn with. Sums stay what they are. Of one window; opens
 * nothing.
 */

#include <stdbool.h>
#include <stdint.h>

#include "border/offcpu_abi.h"
#include "core/base/data/intern.h"
#include "core/profile/window.h"

enum {
        WAIT_SPREAD_MAX_KINDS = 1 << 15,        /* over it, waits keep their kind and have no stack */
        WAIT_SPREAD_MAX_WALKS = 1 << 16,        /* over it, walks stand for themselves alone */
};

/* Waits of one kind are alike in all but their stacks. Compared as bytes: no padding. */
typedef struct WaitKind {
        uint32_t profile, link;         /* indexes of the window */
        uint32_t tid;
        uint8_t state;                  /* WaitState */
        uint8_t is_long;                /* WAIT_LONG: time of short waits is not handed to long ones */
        uint16_t file;                  /* enum abi_wait_file */
        const char *reason;             /* a constant of wait_reason() */
        struct abi_waker waker;
} WaitKind;

typedef struct WaitSpreadKind WaitSpreadKind;
typedef struct WaitSpreadWalk WaitSpreadWalk;

typedef struct WaitSpread {
        Intern kinds;                   /* WaitKind → number */
        WaitSpreadKind *sums;           /* by number */
        uint32_t sums_size;
        WaitSpreadWalk *walks;
        uint32_t n_walks, walks_size;
        bool is_closed;                 /* set from outside: no kind that is new has room for now */
} WaitSpread;

void wait_spread_init(WaitSpread *spread);
void wait_spread_deinit(WaitSpread *spread);

/* How full the table of kinds is, of WINDOW_FILL_MAX. */
uint32_t wait_spread_fill(const WaitSpread *spread);

/*
 * A wait that was walked is in sample @sample of the kind's profile. @estimate_ns: what it stands for beside
 * itself, duration × (1 / p - 1). Return: 0, -ENOMEM.
 */
int wait_spread_walked(WaitSpread *spread, const WaitKind *kind, uint32_t sample, double estimate_ns);

/*
 * Waits that were not walked, together @value_ns, the last one until @end_ns. @attributes: set for a sample
 * without a stack. Return: 0, 1 = too many kinds, nothing was taken; -ENOMEM.
 */
int wait_spread_add(WaitSpread *spread, const WaitKind *kind, uint32_t attributes, uint64_t value_ns,
                    uint64_t end_ns);

/* Adds all of it to @window as events, and forgets it. Return: 0, WINDOW_E_FULL, -ENOMEM. */
int wait_spread_finish(WaitSpread *spread, Window *window);

/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Gives one place after the other to who has the fewest (shares.h), as long as it has waits without one:
 *
 *     256 places         4711: 4,000   4712: 20   4800 of another user: 30
 *     they keep          4711: 206     4712: 20   4800: 30
 */
#include "host/sampling/walks/early-choice.h"

#include <errno.h>
#include <stdlib.h>

#include "core/base/data/shares.h"
#include "core/base/util/error.h"
#include "core/base/util/macro.h"
#include "host/sampling/process/identity.h"

/* Processes whose owner is read, which takes some 40 µs: all others are one group's. */
enum { MAX_OWNERS = 2048 };

/* Places of a process. */
typedef struct Holder {
        Share *share;
        size_t n_left;                  /* waits without a place */
} Holder;

static size_t sum(const EarlyChoice *choices, size_t n) {
        size_t all = 0;

        for (size_t i = 0; i < n; i++)
                all += choices[i].n;
        return all;
}

/* Return: 0, -ENOMEM. */
static int find_holders(Shares *shares, EarlyChoice *choices, size_t n, Holder *holders) {
        int r = 0;

        for (size_t i = 0; i < n && !r; i++) {
                const uint32_t tgid = choices[i].tgid;
                const ShareOwner owner = i < MAX_OWNERS
                        ? identity_owner_of((pid_t)tgid, 0)
                        : (ShareOwner){ .group = 1, .user = IDENTITY_NOBODY, .process = tgid };

                holders[i].n_left = choices[i].n;
                choices[i].n = 0;
                r = shares_hold(shares, &owner, 0, &holders[i].share);
        }
        return r ? error_fold(r) : 0;
}

static bool has_fewer(const Share *a, const Share *b) {
        if (share_held_by_group(a) != share_held_by_group(b))
                return share_held_by_group(a) < share_held_by_group(b);
        if (share_held_by_user(a) != share_held_by_user(b))
                return share_held_by_user(a) < share_held_by_user(b);
        return share_held(a) < share_held(b);
}

/* There are more waits than places. */
static size_t find_next(const Holder *holders, size_t n) {
        size_t next = n;

        for (size_t i = 0; i < n; i++)
                if (holders[i].n_left && (next == n || has_fewer(holders[i].share, holders[next].share)))
                        next = i;
        return next;
}

int early_choice_make(EarlyChoice *choices, size_t n, size_t max) {
        _cleanup_(freep) Holder *holders = NULL;
        Shares shares = { 0 };
        int r;

        if (sum(choices, n) <= max)
                return 0;
        holders = calloc(n, sizeof(*holders));
        if (!holders)
                return error_origin(-ENOMEM);
        r = find_holders(&shares, choices, n, holders);
        for (size_t given = 0; !r && given < max; given++) {
                size_t next = find_next(holders, n);

                share_hold_more(holders[next].share, 1);
                holders[next].n_left--;
                choices[next].n++;
        }
        shares_deinit(&shares);
        return r ? error_fold(r) : 0;
}

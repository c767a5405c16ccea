/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Counts how much each process fills, in parts of a table. Whose that is, its user and control group, is read
 * only in a window that is nearly full, of processes with much:
 *
 *     sets of attributes 49,152 of 65,536 ─▶ 25 % are left
 *             user-61001.slice   70 %         more than is left: adds none
 *             shop.service        1 %         goes on
 */

#include "host/sampling/aggregate/window-shares.h"

#include <errno.h>
#include <stdlib.h>

#include "core/base/util/clock.h"
#include "core/base/util/error.h"
#include "core/base/util/macro.h"

enum {
        CROWDED = WINDOW_FILL_MAX / 4 * 3,
        FEW = WINDOW_FILL_MAX / 1024,   /* a process with less is not read: that takes 50 µs */
};

struct WindowHolder {
        uint32_t pid;
        uint64_t start_time_ns;
        uint32_t n;                     /* parts of tables that it has filled */
        Share *share;                   /* NULL = it is not counted on its own (yet) */
        uint32_t n_counted;
};

static void release(WindowShares *shares, WindowHolder *holder) {
        if (holder->share)
                share_release(&shares->shares, take(holder->share), holder->n_counted + 1);
        holder->n_counted = 0;
}

void window_shares_reset(WindowShares *shares) {
        HashmapEntry *entry;
        uint32_t at = 0;

        while ((entry = hashmap_next(&shares->holders, &at))) {
                release(shares, entry->value);
                free(entry->value);
        }
        hashmap_deinit(&shares->holders);
        shares->filling = NULL;
        shares->is_crowded = false;
}

void window_shares_deinit(WindowShares *shares) {
        window_shares_reset(shares);
        shares_deinit(&shares->shares);
}

static ShareOwner owner_of(const WindowHolder *holder) {
        _cleanup_(closep) int fd = -1;

        if (process_open((pid_t)holder->pid, holder->start_time_ns, &fd))
                fd = -1;
        return identity_owner(fd, holder->pid);
}

/*
 * Counts what the process has added since it was counted last. The holder itself counts as one part, which
 * keeps the Share: programs of one process have the same. Return: 0, -ENOMEM.
 */
static int charge(WindowShares *shares, WindowHolder *holder) {
        uint32_t n = holder->n - holder->n_counted;
        ShareOwner owner;
        int r;

        if (holder->share) {
                share_hold_more(holder->share, n);
                holder->n_counted += n;
                return 0;
        }
        owner = owner_of(holder);
        r = shares_hold(&shares->shares, &owner, n + 1, &holder->share);
        if (!r)
                holder->n_counted = n;
        return error_fold(r);
}

/* Counts what was added while there was room for all. */
static int charge_all(WindowShares *shares) {
        HashmapEntry *entry;
        uint32_t at = 0;
        int r = 0;

        while (!r && (entry = hashmap_next(&shares->holders, &at))) {
                WindowHolder *holder = entry->value;

                if (holder->n >= FEW)
                        r = charge(shares, holder);
        }
        return r;
}

/* Whether the process may add rows to a window of which @n_left is not filled. Return: 0, -ENOMEM. */
static int judge(WindowShares *shares, WindowHolder *holder, uint32_t n_left, bool *mayp) {
        int r = shares->is_crowded ? 0 : charge_all(shares);

        shares->is_crowded = true;
        if (!r)
                r = charge(shares, holder);
        if (r)
                return error_fold(r);
        *mayp = shares_leave_room(&shares->shares, share_owner(holder->share), 1,
                                  shares_held(&shares->shares) + n_left);
        if (!*mayp)
                shares_tell(&shares->shares, "rows of a window", share_owner(holder->share),
                            clock_monotonic_ns());
        return 0;
}

int window_shares_begin(WindowShares *shares, Window *window, const Process *process) {
        WindowHolder *holder = hashmap_get(&shares->holders, process->generation);
        uint32_t fill = window_fill(window);
        bool may_add = true;
        int r = 0;

        if (!holder) {
                holder = calloc(1, sizeof(*holder));
                if (!holder)
                        return error_origin(-ENOMEM);
                holder->pid = process->pid;
                holder->start_time_ns = process->start_time_ns;
                r = hashmap_put(&shares->holders, process->generation, holder);
                if (r) {
                        free(holder);
                        return error_fold(r);
                }
        }
        if (fill >= CROWDED)
                r = judge(shares, holder, WINDOW_FILL_MAX - MIN(fill, (uint32_t)WINDOW_FILL_MAX), &may_add);
        if (r)
                return error_fold(r);
        window_take_no_rows(window, !may_add);
        shares->filling = holder;
        shares->n_before = window_fill_sum(window);
        return 0;
}

void window_shares_end(WindowShares *shares, Window *window) {
        shares->filling->n += window_fill_sum(window) - shares->n_before;
        shares->filling = NULL;
        window_take_no_rows(window, false);
}

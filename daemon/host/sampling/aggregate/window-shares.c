/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Counts how much each process fills of each table, and of the memory. Whose that is, its user and control
 * group, is read only for a table that is nearly full, of processes with much in it:
 *
 *     sets of attributes 49,152 of 65,536 ─▶ 25 % are left
 *             user-61001.slice   65 %         more than is left: adds none
 *             shop.service       10 %         goes on
 *
 * One table says nothing of another: who has many spans may still add stacks, where it has few. Of a control
 * group all count together, which is at least what any user or process in it has.
 */

#include "host/sampling/aggregate/window-shares.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/util/clock.h"
#include "core/base/util/error.h"
#include "core/base/util/macro.h"

enum {
        FEW = WINDOW_FILL_MAX / 1024,   /* a process with less is not read: that takes 50 µs */
};

/* The part that a process has of one table of a window. */
typedef struct HolderPart {
        uint32_t n;
        uint32_t n_counted;             /* … of which in the share */
        Share *share;                   /* NULL = it is not counted on its own (yet) */
} HolderPart;

struct WindowHolder {
        uint32_t pid;
        uint64_t start_time_ns;
        ShareOwner owner;               /* group 0 = not read yet */
        HolderPart parts[WINDOW_SHARES_N_PARTS];
};

static void release(WindowShares *shares, WindowHolder *holder) {
        for (size_t i = 0; i < WINDOW_SHARES_N_PARTS; i++)
                if (holder->parts[i].share)
                        share_release(&shares->parts[i], holder->parts[i].share,
                                      holder->parts[i].n_counted + 1);
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
        memset(shares->is_crowded, 0, sizeof(shares->is_crowded));
}

void window_shares_deinit(WindowShares *shares) {
        window_shares_reset(shares);
        for (size_t i = 0; i < WINDOW_SHARES_N_PARTS; i++)
                shares_deinit(&shares->parts[i]);
}

static ShareOwner owner_of(const WindowHolder *holder) {
        _cleanup_(closep) int fd = -1;

        if (process_open((pid_t)holder->pid, holder->start_time_ns, &fd))
                fd = -1;
        return identity_owner(fd, holder->pid);
}

/*
 * Counts what the process has added since it was counted last. The holder itself counts as one more, which
 * keeps the Share: programs of one process have the same. Return: 0, -ENOMEM.
 */
static int charge(WindowShares *shares, WindowHolder *holder, size_t part) {
        HolderPart *own = &holder->parts[part];
        int r = 0;

        if (!own->share) {
                if (!holder->owner.group)
                        holder->owner = owner_of(holder);
                r = shares_hold(&shares->parts[part], &holder->owner, 1, &own->share);
        }
        if (r)
                return error_fold(r);
        share_hold_more(own->share, own->n - own->n_counted);
        own->n_counted = own->n;
        return 0;
}

/* Counts what was added while there was room for all. */
static int charge_all(WindowShares *shares, size_t part) {
        HashmapEntry *entry;
        uint32_t at = 0;
        int r = 0;

        while (!r && (entry = hashmap_next(&shares->holders, &at))) {
                WindowHolder *holder = entry->value;

                if (holder->parts[part].n >= FEW)
                        r = charge(shares, holder, part);
        }
        return r;
}

/* Whether the process may add to a part of which @n_left is not filled. Return: 0, -ENOMEM. */
static int judge(WindowShares *shares, WindowHolder *holder, size_t part, uint32_t n_left, bool *mayp) {
        const Share *share;
        int r = shares->is_crowded[part] ? 0 : charge_all(shares, part);

        shares->is_crowded[part] = true;
        if (!r)
                r = charge(shares, holder, part);
        if (r)
                return error_fold(r);
        share = holder->parts[part].share;
        *mayp = share_held_by_group(share) <= n_left;
        if (!*mayp)
                shares_tell(&shares->parts[part],
                            shares->of_half ? "rows of a window for the flight recorder" : "rows of a window",
                            share_owner(share), clock_monotonic_ns());
        return 0;
}

/* How full a part is. Of the memory that is what is taken. */
static uint32_t fill_of(const WindowShares *shares, size_t part) {
        const WindowFill *fill = &shares->before;

        if (part == WINDOW_SHARES_KINDS)
                return shares->kinds_before;
        return part == WINDOW_MEMORY ? fill->memory : fill->parts[part];
}

/* *refusedp: parts that it may not add to. */
static int judge_all(WindowShares *shares, WindowHolder *holder, uint32_t *refusedp) {
        const uint32_t max = shares->of_half ? WINDOW_FILL_MAX / 2 : WINDOW_FILL_MAX;
        int r = 0;

        for (size_t i = 0; i < WINDOW_SHARES_N_PARTS && !r; i++) {
                uint32_t n = fill_of(shares, i);
                bool may_add = n < max;

                if (may_add && n >= max / 4 * 3)
                        r = judge(shares, holder, i, max - n, &may_add);
                *refusedp |= (uint32_t)!may_add << i;
        }
        if (shares->of_half && *refusedp >> WINDOW_MEMORY & 1)  /* an event takes memory */
                *refusedp |= 1u << WINDOW_TIMES;
        return r;
}

int window_shares_begin(WindowShares *shares, Window *window, uint32_t kinds, const Process *process) {
        WindowHolder *holder = hashmap_get(&shares->holders, process->generation);
        uint32_t refused = 0;
        int r;

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
        window_fill(window, &shares->before);
        shares->kinds_before = kinds;
        r = judge_all(shares, holder, &refused);
        if (r)
                return error_fold(r);
        window_refuse_rows(window, refused & ((1u << WINDOW_N_PARTS) - 1));
        shares->refused = refused;
        shares->filling = holder;
        return 0;
}

void window_shares_end(WindowShares *shares, Window *window, uint32_t kinds) {
        WindowFill fill;

        window_fill(window, &fill);
        for (size_t i = 0; i < WINDOW_N_PARTS; i++)
                shares->filling->parts[i].n += fill.parts[i] - shares->before.parts[i];
        shares->filling->parts[WINDOW_SHARES_KINDS].n += kinds - shares->kinds_before;
        shares->filling = NULL;
        window_refuse_rows(window, 0);
}

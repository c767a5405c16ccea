/* SPDX-License-Identifier: GPL-2.0-only */
#pragma once

/*
 * Budgets in Shares
 *
 * What a CPU does at most of one kind in a second. Of that a control group of one user has half, and a user
 * but root seven eighths. Groups and users are told apart by a hash; two of one hash have one share.
 */

#include "border/offcpu_abi.h"

enum {
        BUDGET_SECOND_SHIFT = 30,       /* a second here: 2^30 ns, 1.07 s */
        BUDGET_SHARES_BITS = 5,
        BUDGET_SHARES = 1 << BUDGET_SHARES_BITS,
};

/* Of one CPU. */
struct share_budget {
        uint64_t second;
        uint32_t n, reserved;
        uint32_t groups[BUDGET_SHARES], users[BUDGET_SHARES];
};

static __always_inline uint32_t budget_number(uint64_t of) {
        return (uint32_t)(of * 0x9e3779b97f4a7c15ull >> (64 - BUDGET_SHARES_BITS)) & (BUDGET_SHARES - 1);
}

/*
 * Counts one more of the current task. A task that takes the CPU in between may begin the second, too: some
 * more are taken then. Return: whether there is room for it.
 */
static __attribute__((noinline)) bool budget_take(struct share_budget *budget, uint32_t max) {
        uint64_t second = bpf_ktime_get_ns() >> BUDGET_SECOND_SHIFT;
        uint32_t uid = (uint32_t)bpf_get_current_uid_gid(), *group, *user;

        if (!budget)
                return false;
        if (budget->second != second) {
                __builtin_memset(budget, 0, sizeof(*budget));
                budget->second = second;
        }
        group = &budget->groups[budget_number(bpf_get_current_cgroup_id() + ((uint64_t)uid << 32))];
        user = &budget->users[budget_number(uid)];
        if (budget->n >= max || !wait_may_hold(max, *group, *user, !uid))
                return false;
        __sync_fetch_and_add(&budget->n, 1);
        __sync_fetch_and_add(group, 1);
        __sync_fetch_and_add(user, 1);
        return true;
}

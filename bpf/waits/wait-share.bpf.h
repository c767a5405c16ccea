/* SPDX-License-Identifier: GPL-2.0-only */
#pragma once

/*
 * Shares of Threads that Wait
 *
 * Who starts tens of thousands of threads must not take the elements of all others, nor the room for stacks
 * and sums. So what a thread has there counts for its control group of one user, and for its user: a group
 * has half of each table at most, a user but root seven eighths. Groups and users are told apart by a hash;
 * two of one hash have one share.
 *
 * Elements and stacks are counted as they come and go. Sums only come, until the daemon changes over to the
 * other table: their counts are of one epoch, and begin again with the next.
 */

#include "waits/waits.bpf.h"

enum {
        WAIT_SHARES_BITS = 10,
        WAIT_SHARES = 1 << WAIT_SHARES_BITS,
};

enum wait_shared { WAIT_SHARED_THREADS, WAIT_SHARED_STACKS, WAIT_SHARED_N };

/* Entries that there are: below Linux 6.1 fewer. */
const volatile uint32_t setting_wait_threads = WAIT_MAX_THREADS;
const volatile uint32_t setting_wait_stacks = WAIT_MAX_STACKS;
const volatile uint32_t setting_wait_sums = WAIT_MAX_SUMS;

/* Entries of each table (enum wait_shared), of each group, then of each user. */
struct {
        __uint(type, BPF_MAP_TYPE_ARRAY);
        __uint(max_entries, 2 * WAIT_SHARED_N * WAIT_SHARES);
        __type(key, uint32_t);
        __type(value, uint32_t);
} wait_shares SEC(".maps");

struct wait_sum_share {
        uint32_t epoch, n;
};

/* Sums of each group, then of each user. */
struct {
        __uint(type, BPF_MAP_TYPE_ARRAY);
        __uint(max_entries, 2 * WAIT_SHARES);
        __type(key, uint32_t);
        __type(value, struct wait_sum_share);
} wait_sum_shares SEC(".maps");

static __always_inline uint32_t *wait_share(enum wait_shared table, uint32_t number) {
        number += (uint32_t)table * 2 * WAIT_SHARES;
        return bpf_map_lookup_elem(&wait_shares, &number);
}

static __always_inline uint16_t wait_share_number(uint64_t of) {
        return (uint16_t)(of * 0x9e3779b97f4a7c15ull >> (64 - WAIT_SHARES_BITS));
}

static __always_inline bool wait_share_is_root(const struct wait_thread *thread) {
        return !thread->user;
}

static __always_inline void wait_share_add(enum wait_shared table, const struct wait_thread *thread,
                                           uint32_t n) {
        uint32_t *group = wait_share(table, thread->group),
                 *user = wait_share(table, WAIT_SHARES + thread->user);

        if (!group || !user)
                return;
        __sync_fetch_and_add(group, n);
        __sync_fetch_and_add(user, n);
}

/* Counts an entry more of the thread. Return: whether its share has room for it. */
static __always_inline bool wait_share_take(enum wait_shared table, const struct wait_thread *thread,
                                            uint32_t max) {
        const uint32_t *group = wait_share(table, thread->group),
                       *user = wait_share(table, WAIT_SHARES + thread->user);

        if (!group || !user || !wait_may_hold(max, *group, *user, wait_share_is_root(thread)))
                return false;
        wait_share_add(table, thread, 1);
        return true;
}

/* Notes whose share the current thread has, which @thread is made for. */
static __always_inline void wait_share_find(struct wait_thread *thread) {
        uint32_t uid = (uint32_t)bpf_get_current_uid_gid();

        thread->user = wait_share_number(uid);
        if (uid && !thread->user)
                thread->user = 1;       /* 0 is root's */
        thread->group = wait_share_number(bpf_get_current_cgroup_id() + ((uint64_t)uid << 32));
}

static __always_inline struct wait_sum_share *wait_sum_share(uint32_t number, uint32_t epoch) {
        struct wait_sum_share *share = bpf_map_lookup_elem(&wait_sum_shares, &number);

        if (share && share->epoch != epoch) {
                share->epoch = epoch;
                share->n = 0;
        }
        return share;
}

/* Counts a sum more of the thread. A global function, as wait_add(). Return: whether its share has room. */
__attribute__((noinline)) int wait_sum_share_take(const struct wait_thread *thread, uint32_t epoch) {
        struct wait_sum_share *group, *user;

        if (!thread)
                return 0;
        group = wait_sum_share(thread->group, epoch);
        user = wait_sum_share(WAIT_SHARES + thread->user, epoch);
        if (!group || !user ||
            !wait_may_hold(setting_wait_sums, group->n, user->n, wait_share_is_root(thread)))
                return 0;
        __sync_fetch_and_add(&group->n, 1);
        __sync_fetch_and_add(&user->n, 1);
        return 1;
}

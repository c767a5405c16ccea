/* SPDX-License-Identifier: GPL-2.0-only */
#pragma once

/*
 * Shares of Threads that Wait
 *
 * Who starts tens of thousands of threads must not take the elements of all others. So threads that are
 * followed count for their control group of one user, and for their user: a group has half of the elements at
 * most, a user but root seven eighths. Groups and users are told apart by a hash; two of one hash have one
 * share.
 */

#include "waits/waits.bpf.h"

enum {
        WAIT_SHARES_BITS = 10,
        WAIT_SHARES = 1 << WAIT_SHARES_BITS,
};

/* Elements that there are: below Linux 6.1 fewer. */
const volatile uint32_t setting_wait_threads = WAIT_MAX_THREADS;

/* Threads of each group, then of each user. */
struct {
        __uint(type, BPF_MAP_TYPE_ARRAY);
        __uint(max_entries, 2 * WAIT_SHARES);
        __type(key, uint32_t);
        __type(value, uint32_t);
} wait_shares SEC(".maps");

static __always_inline uint32_t *wait_share(uint32_t number) {
        return bpf_map_lookup_elem(&wait_shares, &number);
}

static __always_inline uint16_t wait_share_number(uint64_t of) {
        return (uint16_t)(of * 0x9e3779b97f4a7c15ull >> (64 - WAIT_SHARES_BITS));
}

static __always_inline void wait_share_add(const struct wait_thread *thread, uint32_t n) {
        uint32_t *group = wait_share(thread->group), *user = wait_share(WAIT_SHARES + thread->user);

        if (!group || !user)
                return;
        __sync_fetch_and_add(group, n);
        __sync_fetch_and_add(user, n);
}

/* Counts the current thread, which @thread is made for. Return: whether its share has room for it. */
static __always_inline bool wait_share_take(struct wait_thread *thread) {
        uint32_t uid = (uint32_t)bpf_get_current_uid_gid(), *group, *user;

        thread->user = wait_share_number(uid);
        thread->group = wait_share_number(bpf_get_current_cgroup_id() + ((uint64_t)uid << 32));
        group = wait_share(thread->group);
        user = wait_share(WAIT_SHARES + thread->user);
        if (!group || !user || !wait_may_follow(setting_wait_threads, *group, *user, !uid))
                return false;
        wait_share_add(thread, 1);
        return true;
}

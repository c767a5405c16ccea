/* SPDX-License-Identifier: GPL-2.0-only */
#pragma once

/*
 * Wake-Ups
 *
 * A wake-up costs more than a whole sample, so records do without while the daemon looks into the rings by
 * itself. When it has found nothing it says so and goes to sleep: then the first record that it must not miss
 * wakes it, and that one alone. A record that is written in the very moment in which the daemon goes to sleep
 * may wake nobody: it waits for the next one, or for the daemon's own look after a second.
 *
 * One sample does call a daemon that is awake: that of a target which has left all mappings that are known of
 * it, since it has loaded something. What that is waits in the rings of mappings already, and each ms until
 * the next look is a stack that cannot be walked. Code of its own making may lead a target's stacks nowhere
 * for ever: hence once per set of nodes, then once a second, and never before the daemon has looked by its
 * own clock again.
 */

#include "settings.bpf.h"
#include "tables.bpf.h"

static __always_inline uint64_t wake_now(struct counters *counters) {
        daemon_sleeps = 0;
        __sync_fetch_and_add(&counters->values[COUNTER_WAKE_UPS], 1);
        return BPF_RB_FORCE_WAKEUP;
}

/* Whether a walk that has left the mappings of @root calls. */
static __always_inline bool wake_calls(struct unwind_node *root, uint64_t time_ns) {
        uint32_t second = (uint32_t)(time_ns >> 30) + 1;

        if (!daemon_listens || root->called == second)
                return false;
        root->called = second;
        return true;
}

static __always_inline uint64_t wake_for_sample(struct counters *counters, bool calls) {
        if (daemon_sleeps)
                return wake_now(counters);
        if (!calls)
                return BPF_RB_NO_WAKEUP;
        daemon_listens = 0;
        counters->values[COUNTER_CALLS]++;
        return BPF_RB_FORCE_WAKEUP;
}

/* What processes of no concern do is told in time, however late, as long as there is room. */
static __always_inline uint64_t wake_for_notice(const struct abi_notice *notice, struct counters *counters) {
        if (!daemon_sleeps)
                return BPF_RB_NO_WAKEUP;
        if (notice->kind != ABI_NOTICE_MAPPINGS && !bpf_map_lookup_elem(&processes, &notice->tgid) &&
            2 * bpf_ringbuf_query(&notices, BPF_RB_AVAIL_DATA) <
                    bpf_ringbuf_query(&notices, BPF_RB_RING_SIZE))
                return BPF_RB_NO_WAKEUP;
        return wake_now(counters);
}

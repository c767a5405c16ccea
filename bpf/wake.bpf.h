/* SPDX-License-Identifier: GPL-2.0-only */
#pragma once

/*
 * Wake-Ups
 *
 * A wake-up of the daemon costs more than a whole sample. So there are three states:
 *
 *     awake      the daemon drains the rings by its own timer; no record wakes it
 *     asleep     it found the rings empty and set daemon_sleeps; the next record that matters wakes it and
 *                clears the flag, so that a burst costs one wake-up
 *     listening  it is awake and set daemon_listens; one sample outside a target's known memory calls it
 *
 * An example, at 199 Hz on one CPU:
 *
 *      0 ms    sample    the daemon sleeps: it is woken, daemon_sleeps = 0
 *      5 ms    sample    no wake-up; the daemon drains it by its timer
 *     10 ms    sample    outside all known mappings of its target: calls the daemon, which reads the
 *                        new mapping from the side-band (sampling/sample/sideband.h) and makes its rows
 *     15 ms    sample    no wake-up
 *      …                 the rings are empty: asleep again
 *
 * A record that is written in the moment in which the daemon goes to sleep may wake nothing. It waits for the
 * next record, or for the daemon's own look after a second.
 *
 * A call pays off since each ms until the next look is a stack that cannot be walked. But code of a target's
 * own making may lead its stacks nowhere for ever. So a set of nodes calls once, then once a second, and
 * never before the daemon has drained by its own clock again.
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

/* Notices of processes without a row wake the daemon only once their ring is half full. */
static __always_inline uint64_t wake_for_notice(const struct abi_notice *notice, struct counters *counters) {
        if (!daemon_sleeps)
                return BPF_RB_NO_WAKEUP;
        if (notice->kind != ABI_NOTICE_MAPPINGS && !bpf_map_lookup_elem(&processes, &notice->tgid) &&
            2 * bpf_ringbuf_query(&notices, BPF_RB_AVAIL_DATA) <
                    bpf_ringbuf_query(&notices, BPF_RB_RING_SIZE))
                return BPF_RB_NO_WAKEUP;
        return wake_now(counters);
}

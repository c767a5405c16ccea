/* SPDX-License-Identifier: GPL-2.0-only */
#pragma once

/*
 * Wake-Ups
 *
 * A wake-up costs more than a whole sample, so records do without while the daemon looks into the rings by itself. When it
 * has found nothing it says so and goes to sleep: then the first record that it must not miss wakes it, and that one
 * alone. A record that is written in the very moment in which the daemon goes to sleep may wake nobody: it waits for the
 * next one, or for the daemon's own look after a second.
 */

#include "settings.bpf.h"
#include "tables.bpf.h"

static __always_inline uint64_t wake_now(struct counters *counters) {
        daemon_sleeps = 0;
        __sync_fetch_and_add(&counters->values[COUNTER_WAKE_UPS], 1);
        return BPF_RB_FORCE_WAKEUP;
}

static __always_inline uint64_t wake_for_sample(struct counters *counters) {
        return daemon_sleeps ? wake_now(counters) : BPF_RB_NO_WAKEUP;
}

/* What processes of no concern do is told in time, however late, as long as there is room. */
static __always_inline uint64_t wake_for_notice(const struct abi_notice *notice, struct counters *counters) {
        if (!daemon_sleeps)
                return BPF_RB_NO_WAKEUP;
        if (notice->kind != ABI_NOTICE_MAPPINGS && !bpf_map_lookup_elem(&processes, &notice->tgid) &&
            2 * bpf_ringbuf_query(&notices, BPF_RB_AVAIL_DATA) < bpf_ringbuf_query(&notices, BPF_RB_RING_SIZE))
                return BPF_RB_NO_WAKEUP;
        return wake_now(counters);
}

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
 *     listening  it is awake and set daemon_listens; one sample outside a target's known memory calls it, or
 *                one that leaves the ring of copies half full (defer.bpf.h)
 *
 * An example, at 199 Hz on one CPU:
 *
 *      0 ms    sample    the daemon sleeps: it is woken, daemon_sleeps = 0
 *      5 ms    sample    no wake-up; the daemon drains it by its timer
 *     10 ms    sample    outside all known mappings of its target: calls the daemon, which reads the
 *                        new mapping from the side-band (host/sampling/sample/sideband.h) and makes its rows
 *     15 ms    sample    no wake-up
 *      …                 the rings are empty: asleep again
 *
 * A record that is written in the moment in which the daemon goes to sleep may wake nothing. It waits for the
 * next record, or for the daemon's own look after a second.
 *
 * A call pays off since each ms until the next look is a stack that cannot be walked. But code of a target's
 * own making may lead its stacks nowhere for ever. So a set of nodes calls once, then once a second, and
 * never before the daemon has drained by its own clock again.
 *
 * What is new of a target calls at once, asleep or awake, while the daemon hears (daemon_hears):
 *
 *     exec       by a target, or of a program whose name was a target's lately (known_names)
 *     sample     of a process without a row, whose name was a target's lately, unless all that is needed of
 *                it came along (start.bpf.h)
 *
 * One call clears daemon_hears. The daemon sets it again once it has drained, as often as its budget allows
 * (host/service/limits/call-budget.h): a storm of short programs costs one drain in 4 ms, not one for each
 * record. What other processes do never calls. Code that a program maps as it starts is looked for some ms
 * after its exec (host/service/run/daemon-calls.c).
 */

#include "walk/settings.bpf.h"
#include "walk/tables.bpf.h"

enum wake_call {
        WAKE_CALL_NONE,
        WAKE_CALL_LISTENING,            /* the target is in memory that is not known of it */
        WAKE_CALL_AT_ONCE,              /* something of a target is new */
};

static __always_inline uint64_t wake_now(struct counters *counters) {
        daemon_sleeps = 0;
        __sync_fetch_and_add(&counters->values[COUNTER_WAKE_UPS], 1);
        return BPF_RB_FORCE_WAKEUP;
}

/* Whether a walk that has left the mappings of @space calls. */
static __always_inline bool wake_calls(uint64_t space, uint64_t time_ns) {
        uint32_t second = (uint32_t)(time_ns >> 30) + 1;
        struct unwind_node *root;

        if (!daemon_listens)
                return false;
        root = (struct unwind_node *)rows_leaf(space, 0);
        if (!root || root->called == second)
                return false;
        root->called = second;
        return true;
}

/* Two programs may call at the same time, which costs the daemon nothing. */
static __always_inline uint64_t wake_at_once(struct counters *counters) {
        daemon_hears = 0;
        __sync_fetch_and_add(&counters->values[COUNTER_CALLS_AT_ONCE], 1);
        return daemon_sleeps ? wake_now(counters) : BPF_RB_FORCE_WAKEUP;
}

static __always_inline uint64_t wake_for_sample(struct counters *counters, uint64_t call) {
        if (call == WAKE_CALL_AT_ONCE && daemon_hears)
                return wake_at_once(counters);
        if (daemon_sleeps)
                return wake_now(counters);
        if (call != WAKE_CALL_LISTENING)
                return BPF_RB_NO_WAKEUP;
        daemon_listens = 0;
        counters->values[COUNTER_CALLS]++;
        return BPF_RB_FORCE_WAKEUP;
}

/* @word without what follows its first zero byte: an earlier, longer name, on kernels before 5.17. */
static __always_inline uint64_t wake_trim(uint64_t word) {
        uint64_t zeros = (word - 0x0101010101010101ull) & ~word & 0x8080808080808080ull;

        return zeros ? word & ((zeros & -zeros) - 1) : word;
}

static __always_inline void wake_trim_name(struct known_name *name, const char *comm) {
        const uint64_t *words = (const uint64_t *)comm;

        name->words[0] = wake_trim(words[0]);
        name->words[1] = name->words[0] >> 56 ? wake_trim(words[1]) : 0;
}

static __always_inline bool wake_knows_name(const char *comm) {
        struct known_name name;

        wake_trim_name(&name, comm);
        return bpf_map_lookup_elem(&known_names, &name);
}

/* Whether the new program of an exec is, or likely is, a target. */
static __always_inline bool wake_knows_exec(const struct abi_notice *notice, const struct abi_process *row) {
        if (notice->kind != ABI_NOTICE_EXEC || !daemon_hears)
                return false;
        if (row)
                return row->state == ABI_STATE_TARGET;
        return setting_names_choose && wake_knows_name(notice->comm);
}

/* Notices of processes without a row, and of no known name, wake only once their ring is half full. */
static __always_inline uint64_t wake_for_notice(const struct abi_notice *notice, struct counters *counters) {
        const struct abi_process *row;

        if (!daemon_sleeps && (notice->kind != ABI_NOTICE_EXEC || !daemon_hears))
                return BPF_RB_NO_WAKEUP;
        row = bpf_map_lookup_elem(&processes, &notice->tgid);
        if (wake_knows_exec(notice, row))
                return wake_at_once(counters);
        if (!daemon_sleeps)
                return BPF_RB_NO_WAKEUP;
        if (notice->kind != ABI_NOTICE_MAPPINGS && !row &&
            2 * bpf_ringbuf_query(&notices, BPF_RB_AVAIL_DATA) <
                    bpf_ringbuf_query(&notices, BPF_RB_RING_SIZE))
                return BPF_RB_NO_WAKEUP;
        return wake_now(counters);
}

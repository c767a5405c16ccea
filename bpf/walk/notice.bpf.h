/* SPDX-License-Identifier: GPL-2.0-only */
#pragma once

/*
 * Notices
 *
 * Small records (struct abi_notice) that tell the daemon what changed in a process' life. Their ring is apart
 * from the samples', so that a storm of samples loses no exit. A shell that runs a short program, as the ring
 * holds it:
 *
 *     kind      tgid   value        posted by
 *     EXEC      4711   1000         tracepoint sched_process_exec: it runs a new program, as user 1000
 *     MAPPINGS  4711   –            the sampler (select.bpf.h): a tick found its address space changed
 *     EXIT      4711   31,200,000   tracepoint sched_process_exit, last thread: CPU time so far, ns
 *     SETTLED   4711   180,000      tracepoint sched_process_free: CPU time that EXIT did not count yet, ns
 *
 * The daemon drains notices before samples (host/sampling/sample/sampler.c). A notice that finds the ring
 * full is counted, and the daemon looks at all processes again. Notices are posted in process context and, by
 * the sampler, in the interrupt: hence the atomic counters.
 */

#include "walk/identity.bpf.h"
#include "walk/tables.bpf.h"
#include "walk/wake.bpf.h"

static __always_inline void comm_copy(char *to, const char *comm) {
        const uint64_t *from = (const uint64_t *)comm;

        ((uint64_t *)to)[0] = from[0];
        ((uint64_t *)to)[1] = from[1];
}

/* Return: false = the ring was full. */
static __always_inline bool notice_send(struct abi_notice *notice) {
        struct counters *counters = counters_get();

        if (!counters)
                return false;
        if (bpf_ringbuf_output(&notices, notice, sizeof(*notice), wake_for_notice(notice, counters))) {
                __sync_fetch_and_add(&counters->values[COUNTER_LOST_NOTICES], 1);
                return false;
        }
        __sync_fetch_and_add(&counters->values[COUNTER_NOTICES], 1);
        return true;
}

static __always_inline bool notice_post(struct task_struct *task, const struct identity *identity,
                                        uint32_t kind, uint64_t time_ns, uint64_t value) {
        struct abi_notice notice = {
                .time_ns = time_ns,
                .start_time_ns = identity->start_time_ns,
                .value = value,
                .tgid = identity->tgid,
                .kind = kind,
        };

        comm_copy(notice.comm, task->comm);
        return notice_send(&notice);
}

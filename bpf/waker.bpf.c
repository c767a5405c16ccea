/* SPDX-License-Identifier: GPL-2.0-only */

/*
 * Wakers
 *
 * Who ends a wait of a target's thread: a program at each waking, which runs where the waker runs. An object
 * of its own beside offcpu.bpf.c: waits are right without it.
 *
 *     in an interrupt           interrupt    a timer, a device, a packet: whoever runs has no part in it
 *     a thread of a target      thread       its ids, and the span that it has now
 *     any other thread          process, kernel: that it was one, and nothing of it
 *
 * Whether it is an interrupt is told by the stack. The context of a raw tracepoint lies on the stack that the
 * CPU uses. Interrupts have one of their own, but for those of user code, which use the empty one of the
 * thread: such a thread is in no system call. A page fault looks alike, and is taken for an interrupt.
 *
 * The kernel calls the program with the sleeper's lock held (pi_lock), before it looks whether the sleeper
 * has left the run queue. So no two wakers of one thread write at once. A waker that comes behind the
 * sleeper's sched_switch (waking_ns >= begin_ns) is that of this wait: no other one can end it. One that
 * comes before may be that of a sleep that never began. It is not believed, and the wait has no waker.
 *
 * The waker's user stack is walked too, where the sleeper's was: what it does as it ends the wait. It lies in
 * waker_stacks until the sleeper runs, which puts it behind its own record.
 */

#define KERNEL_LOADS
#include "waits/waits.bpf.h"
#include "walk/entry-walk.bpf.h"
#include "walk/settings.bpf.h"

char LICENSE[] SEC("license") = "GPL";

/* @context: the address of the program's context. */
static __always_inline bool waker_interrupts(struct task_struct *task, uint64_t context) {
        uint64_t low = (uint64_t)KERNEL_POINTER(task, stack), high = (uint64_t)bpf_task_pt_regs(task);

        if (!task->pid || context < low || context >= high)
                return true;
        if (task->flags & (KERNEL_PF_KTHREAD | KERNEL_PF_EXITING))
                return false;
        return entered_call(task) >= WAIT_MAX_CALLS;
}

/* The waker is a thread of a target: names it. Return: false = it is not. */
static __always_inline bool waker_name(struct task_struct *task, uint64_t now_ns, struct abi_waker *waker) {
        struct identity identity = {};
        const struct abi_process *row;
        struct scratch *scratch;
        uint32_t zero = 0;

        if (!identity_read(task, &identity))
                return false;
        row = bpf_map_lookup_elem(&processes, &identity.tgid);
        scratch = bpf_map_lookup_elem(&scratches, &zero);
        if (!row || !scratch || row->state != ABI_STATE_TARGET ||
            !select_copy(row, identity.start_time_ns, &scratch->process))
                return false;
        scratch->sample.time_ns = now_ns;       /* facts of the thread have an age */
        scratch->sample.start_time_ns = identity.start_time_ns;
        scratch->sample.generation = scratch->process.generation;
        scratch->sample.tgid = identity.tgid;
        scratch->sample.tid = identity.tid;
        scratch->sample.ns_tid = identity_innermost(task);
        scratch->sample.interrupted = 0;
        context_read(&scratch->process, scratch);
        sdk_span_part(&scratch->sample);
        obi_part(&scratch->process, &scratch->sample);
        if (scratch->sample.context == ABI_CONTEXT_PRESENT)
                waker->span = scratch->sample.span;
        waker->tgid = identity.tgid;
        waker->tid = identity.tid;
        return true;
}

/*
 * Walks the waker's own stack for a wait whose stack was drawn: so the chance is known, and has nothing to do
 * with the waker. waker_name() has filled the head.
 */
static __always_inline bool waker_walk(struct task_struct *task, uint64_t sleeper) {
        struct counters *counters = counters_get();
        struct scratch *scratch;
        uint32_t zero = 0;

        scratch = bpf_map_lookup_elem(&scratches, &zero);
        if (!scratch || !counters)
                return false;
        entry_walk(task, &scratch->process, scratch, 0,
                  setting_depth < WAKER_MAX_FRAMES ? setting_depth : WAKER_MAX_FRAMES);
        if (bpf_map_update_elem(&waker_stacks, &sleeper, &scratch->sample, BPF_ANY)) {
                counters->values[COUNTER_WAKERS_OVER_CAP]++;
                return false;
        }
        counters->values[COUNTER_WAKERS_WALKED]++;
        return true;
}

static __always_inline void waker_find(struct task_struct *task, uint64_t context, uint64_t now_ns,
                                       struct abi_waker *waker) {
        if (waker_interrupts(task, context))
                waker->kind = WAKER_INTERRUPT;
        else if (task->flags & KERNEL_PF_KTHREAD)
                waker->kind = WAKER_KERNEL;
        else
                waker->kind = waker_name(task, now_ns, waker) ? WAKER_THREAD : WAKER_PROCESS;
}

SEC("raw_tp/sched_waking")
int wait_waking(const struct bpf_raw_tracepoint_args *context) {
        struct task_struct *task = bpf_get_current_task_btf();
        uint64_t sleeper = context->args[0], now_ns;
        struct wait_thread *thread;
        struct abi_waker *waker;
        struct scratch *scratch;
        uint32_t zero = 0;

        /* A thread that wakes itself has not slept; and interrupts may be on there. */
        if (sleeper == bpf_get_current_task())
                return 0;
        thread = wait_find(sleeper);
        if (!thread)
                return 0;
        scratch = bpf_map_lookup_elem(&scratches, &zero);
        if (!scratch)
                return 0;
        /* not on the stack, which is too small for it and for what the walk calls */
        waker = &scratch->wait.waker;
        *waker = (struct abi_waker){};
        now_ns = bpf_ktime_get_ns();
        waker_find(task, (uint64_t)context, now_ns, waker);
        thread->waker = *waker;
        if (waker->kind == WAKER_THREAD && wait_has_stack(thread) && waker_walk(task, sleeper))
                thread->has_waker_stack = 1;
        *(volatile uint64_t *)&thread->waking_ns = now_ns;
        return 0;
}

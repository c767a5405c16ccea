/* SPDX-License-Identifier: GPL-2.0-only */
#pragma once

/*
 * Watchers
 *
 * exec and exit of every process, by raw tracepoints: about 0.2 µs for each
 * process that starts or ends, nothing for a system call. Both run in the task that
 * they are about, so it comes from a helper: typed arguments (tp_btf) would make
 * the loader read all of the kernel's types.
 */

#include "notice.bpf.h"
#include "slots.bpf.h"

SEC("raw_tp/sched_process_exec")
int watch_exec(struct bpf_raw_tracepoint_args *context) {
        struct task_struct *task = bpf_get_current_task_btf();
        struct identity identity = {};

        if (!identity_read(task, &identity))
                return 0;
        slots_forget(identity.tid);
        if (!setting_namespace)         /* what it had before it took the leader's id over; told in the first namespace's */
                slots_forget(context->args[1]);
        notice_post(task, &identity, ABI_NOTICE_EXEC, bpf_ktime_get_ns(), 0);
        return 0;
}

/*
 * CPU time of the whole group at its last thread's exit: what reaped threads left
 * behind, the leader (a zombie until now if it went first) and the thread itself.
 * Threads that are between this tracepoint and their reaping on another CPU are
 * missing, and so is the time since the scheduler's last look (a tick at most).
 */
static __always_inline uint64_t group_cpu_time(struct task_struct *task) {
        uint64_t cpu_ns = task->signal->sum_sched_runtime + task->se.sum_exec_runtime;

        if (task->group_leader != task)
                cpu_ns += task->group_leader->se.sum_exec_runtime;
        return cpu_ns;
}

SEC("raw_tp/sched_process_exit")
int watch_exit(void *context) {
        struct task_struct *task = bpf_get_current_task_btf();
        struct identity identity = {};

        if (task->flags & KERNEL_PF_KTHREAD || !identity_read(task, &identity))
                return 0;
        slots_forget(identity.tid);
        /* `live` was lowered before: 0 = nobody is left. Two last threads at once post two notices. */
        if (task->signal->live.counter)
                return 0;
        notice_post(task, &identity, ABI_NOTICE_EXIT, bpf_ktime_get_ns(), group_cpu_time(task));
        return 0;
}

/* Run once, by the daemon itself: how deep is its namespace? */
SEC("raw_tp")
int identify(void *context) {
        struct task_struct *task = bpf_get_current_task_btf();

        namespace_level = task->thread_pid->level;
        return 0;
}

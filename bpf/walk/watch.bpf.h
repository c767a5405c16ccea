/* SPDX-License-Identifier: GPL-2.0-only */
#pragma once

/*
 * Watchers
 *
 * Raw tracepoints: exec, exit and reaping of every process, and the birth of threads. Each costs some tenths
 * of a µs, and nothing for a system call. Programs take the task that they run in from a helper: typed
 * arguments (tp_btf) would make the loader read all of the kernel's types.
 */

#include "walk/notice.bpf.h"
#include "walk/slots.bpf.h"
#include "walk/spaces.bpf.h"

SEC("raw_tp/sched_process_exec")
int watch_exec(struct bpf_raw_tracepoint_args *context) {
        struct task_struct *task = bpf_get_current_task_btf();
        struct identity identity = {};

        if (obi_on)
                obi_meet((uint64_t)task->tgid << 32 | (uint32_t)task->tgid);
        if (!identity_read(task, &identity))
                return 0;
        slots_forget(identity.tid);
        /* the id that it had before it took over the leader's; the event tells it in the first namespace */
        if (!setting_namespace)
                slots_forget(context->args[1]);
        space_replace(identity.tgid);
        notice_post(task, &identity, ABI_NOTICE_EXEC, bpf_ktime_get_ns(), identity_user(task));
        return 0;
}

/*
 * CPU time of the whole group at its last thread's exit: that of reaped threads, of the leader (a zombie
 * until now if it ended first) and of the thread itself. Missing are threads between this tracepoint and
 * their reaping on another CPU, the time since the scheduler's last look (a tick at most), and the rest of
 * the exit: watch_free() tells of these.
 */
static __always_inline uint64_t group_cpu_time(struct task_struct *task) {
        struct task_struct *leader = KERNEL_POINTER(task, group_leader);
        uint64_t cpu_ns = BPF_CORE_READ(task, signal, sum_sched_runtime) + task->se.sum_exec_runtime;

        if (task->pid != task->tgid)
                cpu_ns += BPF_CORE_READ(leader, se.sum_exec_runtime);
        return cpu_ns;
}

static __always_inline uint32_t *leaver_share(uint32_t number) {
        struct shared *shared = bpf_map_lookup_elem(&shares, &number);

        return shared ? &shared->n_leavers : NULL;
}

static __always_inline uint16_t leaver_number(uint64_t of) {
        return (uint16_t)((of * 0x9e3779b97f4a7c15ull >> 48) & (ABI_RING_SHARES - 1));
}

static __always_inline void leaver_count(const struct leaver *leaver, uint32_t n) {
        uint32_t *group = leaver_share(leaver->group), *user = leaver_share(leaver->user);

        if (!group || !user)
                return;
        __sync_fetch_and_add(group, n);
        __sync_fetch_and_add(user, n);
}

/* Whether there is room for one more of the current task's control group and user, which *@leaver gets. */
static __always_inline bool leaver_has_room(struct leaver *leaver) {
        uint32_t uid = (uint32_t)bpf_get_current_uid_gid();
        const uint32_t *group, *user;

        leaver->group = leaver_number(bpf_get_current_cgroup_id() + ((uint64_t)uid << 32));
        leaver->user = (uint16_t)(ABI_RING_SHARES + leaver_number(uid));
        group = leaver_share(leaver->group);
        user = leaver_share(leaver->user);
        return group && user && wait_may_hold(setting_leavers, *group, *user, !uid);
}

/* CPU time matters of a process whose tick would be taken: selection without a look at its address space. */
static __always_inline void leaver_put(struct task_struct *task, const struct identity *identity,
                                       uint64_t cpu_ns) {
        const struct abi_process *row = bpf_map_lookup_elem(&processes, &identity->tgid);
        struct leaver leaver = {
                .start_time_ns = identity->start_time_ns,
                .cpu_ns = cpu_ns,
                .tgid = identity->tgid,
        };
        uint64_t leader = (uint64_t)KERNEL_POINTER(task, group_leader);
        struct leaver *known;

        if ((row ? row->state : setting_default_state) == ABI_STATE_REJECTED)
                return;
        comm_copy(leaver.comm, task->comm);
        if (leaver_has_room(&leaver) && !bpf_map_update_elem(&leavers, &leader, &leaver, BPF_NOEXIST)) {
                leaver_count(&leaver, 1);
                return;
        }
        known = bpf_map_lookup_elem(&leavers, &leader);
        if (!known)
                return;
        /* the other one of two last threads at once has made it: it counts for that one's shares */
        known->start_time_ns = leaver.start_time_ns;
        known->cpu_ns = leaver.cpu_ns;
        known->tgid = leaver.tgid;
        comm_copy(known->comm, leaver.comm);
}

SEC("raw_tp/sched_process_exit")
int watch_exit(void *context) {
        struct task_struct *task = bpf_get_current_task_btf();
        struct identity identity = {};
        uint64_t cpu_ns;

        if (task->flags & KERNEL_PF_KTHREAD || !identity_read(task, &identity))
                return 0;
        slots_forget(identity.tid);
        /* `live` was lowered before: 0 = no thread is left. Two last threads at once post two notices. */
        if (BPF_CORE_READ(task, signal, live.counter))
                return 0;
        space_leave(identity.tgid);
        cpu_ns = group_cpu_time(task);
        leaver_put(task, &identity, cpu_ns);
        notice_post(task, &identity, ABI_NOTICE_EXIT, bpf_ktime_get_ns(), cpu_ns);
        return 0;
}

/* CPU time of the group of a leader that was reaped, and that has no id in any namespace any more. */
static __always_inline uint64_t reaped_cpu_time(uint64_t leader) {
        struct task_struct *task = (struct task_struct *)leader;
        struct signal_struct *signal = NULL;
        unsigned long long cpu_ns = 0;

        if (bpf_probe_read_kernel(&signal, sizeof(signal), &task->signal))
                return 0;
        return bpf_probe_read_kernel(&cpu_ns, sizeof(cpu_ns), &signal->sum_sched_runtime) ? 0 : cpu_ns;
}

/* Runs for every thread of the machine, after a grace period; most are not found. */
SEC("raw_tp/sched_process_free")
int watch_free(const struct bpf_raw_tracepoint_args *context) {
        uint64_t leader = context->args[0], cpu_ns;
        const struct leaver *leaver = bpf_map_lookup_elem(&leavers, &leader);
        struct leaver shares = {};
        struct abi_notice notice = { .kind = ABI_NOTICE_SETTLED, .time_ns = bpf_ktime_get_ns() };

        if (!leaver)
                return 0;
        cpu_ns = reaped_cpu_time(leader);
        notice.start_time_ns = leaver->start_time_ns;
        notice.tgid = leaver->tgid;
        comm_copy(notice.comm, leaver->comm);
        if (cpu_ns > leaver->cpu_ns) {
                notice.value = cpu_ns - leaver->cpu_ns;
                notice_send(&notice);
        }
        shares.group = leaver->group;
        shares.user = leaver->user;
        if (!bpf_map_delete_elem(&leavers, &leader))
                leaver_count(&shares, -1);
        return 0;
}

/* Runs once, in the daemon itself: finds the depth of its namespace. */
SEC("raw_tp")
int identify(void *context) {
        struct task_struct *task = bpf_get_current_task_btf();

        namespace_level = BPF_CORE_READ(task, thread_pid, level);
        return 0;
}

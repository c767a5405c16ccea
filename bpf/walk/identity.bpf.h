/* SPDX-License-Identifier: GPL-2.0-only */
#pragma once

/*
 * Identity
 *
 * A thread has one id in each PID namespace around it. The daemon speaks of
 * processes by the ids of its own namespace; a target's ring is indexed by the
 * ids of the innermost one. Both are read from the kernel's own table
 * (task->thread_pid->numbers), since the helper bpf_get_ns_current_pid_tgid
 * knows the innermost namespace alone.
 */

#include "walk/settings.bpf.h"

struct identity {
        uint32_t tgid;                  /* in the daemon's namespace */
        uint32_t tid;
        uint32_t ns_tid;                /* id of the thread in the innermost namespace */
        uint32_t reserved;
        uint64_t start_time_ns;         /* start of the leader, BOOTTIME */
};

/* Entry of @pid at @level of the tree. The index varies, so only the array's start can be relocated. */
static __always_inline bool identity_at(struct pid *pid, uint32_t level, struct upid *upidp) {
        uint64_t offset = bpf_core_field_offset(struct pid, numbers) + level * sizeof(*upidp);

        return !bpf_probe_read_kernel(upidp, sizeof(*upidp), (const char *)pid + offset);
}

/* Id of @pid in the daemon's namespace. Return: false if it has none there. */
static __always_inline bool identity_in_daemon(struct pid *pid, uint32_t *idp) {
        struct upid upid;

        if (!pid || BPF_CORE_READ(pid, level) < namespace_level || !identity_at(pid, namespace_level, &upid))
                return false;
        *idp = upid.nr;
        return BPF_CORE_READ(upid.ns, ns.inum) == setting_namespace;
}

static __always_inline uint32_t identity_innermost(struct task_struct *task) {
        struct pid *pid = KERNEL_POINTER(task, thread_pid);
        uint32_t level = KERNEL_BEHIND(pid, level);     /* a read through NULL yields 0 */
        struct upid upid;

        if (!level)
                return task->pid;
        return identity_at(pid, level, &upid) ? upid.nr : 0;
}

/* The leader's start. A leader, which most threads that are sampled are, is its own one. */
static __always_inline uint64_t identity_start(struct task_struct *task) {
        return task->pid == task->tgid ? task->start_boottime
                                       : KERNEL_BEHIND(KERNEL_POINTER(task, group_leader), start_boottime);
}

static __always_inline uint32_t identity_user(struct task_struct *leader) {
        return BPF_CORE_READ(leader, real_cred, euid.val);
}

/* Return: false for a task outside the daemon's namespace. */
static __always_inline bool identity_read(struct task_struct *task, struct identity *identity) {
        identity->tgid = task->tgid;
        identity->tid = task->pid;
        identity->start_time_ns = identity_start(task);
        if (!setting_namespace)
                return true;
        return identity_in_daemon(BPF_CORE_READ(task, group_leader, thread_pid), &identity->tgid) &&
               identity_in_daemon(KERNEL_POINTER(task, thread_pid), &identity->tid);
}

/* SPDX-License-Identifier: GPL-2.0-only */
#pragma once

/*
 * Starts
 *
 * Under --all a process is read when its first sample comes, and a short one is gone by then. A row changes
 * nothing of that: the notice of an exec may have made it. What only a living process tells is its
 * environment, its arguments and its control groups. So its first sample takes them along (struct abi_start),
 * in the ring of the copied stacks: it runs at that moment, and exec has just written these texts.
 *
 *     tick of `ls`, no row     copy of its stack ─▶ stacks     start: texts, ancestor ─▶ stacks     sample
 *     the next tick of it      copy of its stack ─▶ stacks                                          sample
 *     the daemon's drain       it is gone: environment from the start, groups of its ancestor, mappings from
 *                              notices, frames from the copies
 *
 * Control groups have no text here. A process is born into all groups of its parent: as long as neither has
 * moved, both tasks have one css_set. The farthest ancestor with the same one is told, since it lives the
 * longest: the daemon reads its groups.
 *
 * So the daemon need not come at once for a process of a settled name
 * (host/sampling/process/program-names.h). What such a name does not tell makes its sample call as before:
 * texts that cannot be read, groups of its own, no room for a copy of the stack, or an age at which a row
 * pays, since each copy has to be walked by the daemon.
 *
 * A process may change its name and its texts, which decides about its own samples alone.
 */

#include "walk/defer.bpf.h"

enum {
        START_SMALL = 2 << 10,          /* bytes of texts that a record has room for */
        START_LARGE = 8 << 10,
        START_ANCESTORS = 8,
};

/*
 * @beginp: where the texts lie. Return: false = not as exec leaves them, or too long. While exec is under way
 * there is no environment yet.
 */
static __always_inline bool start_texts(struct mm_struct *mm, struct abi_start *start, uint64_t *beginp) {
        uint64_t begin, middle, end;

        if (setting_starts != ABI_STARTS_TEXTS)
                return true;
        begin = BPF_CORE_READ(mm, arg_start);
        middle = BPF_CORE_READ(mm, arg_end);
        end = BPF_CORE_READ(mm, env_end);
        if (!begin || begin > middle || middle != BPF_CORE_READ(mm, env_start) || middle >= end ||
            end - begin > START_LARGE)
                return false;
        start->n_arguments = (uint32_t)(middle - begin);
        start->n_environment = (uint32_t)(end - middle);
        *beginp = begin;
        return true;
}

/* Ancestors may end meanwhile: the daemon believes one whose start is right. */
static __always_inline void start_groups(struct task_struct *leader, struct abi_start *start) {
        struct task_struct *parent, *task = leader;
        uint64_t groups, start_ns;
        uint32_t tgid;

        if (!bpf_core_field_exists(leader->cgroups))
                return;
        groups = (uint64_t)KERNEL_POINTER(leader, cgroups);
        for (int i = 0; i < START_ANCESTORS; i++) {
                parent = BPF_CORE_READ(task, real_parent, group_leader);
                if (!groups || !parent || parent == task ||
                    (uint64_t)KERNEL_POINTER(parent, cgroups) != groups)
                        return;
                tgid = BPF_CORE_READ(parent, tgid);
                start_ns = BPF_CORE_READ(parent, start_boottime);
                if (!tgid || (setting_namespace &&
                              !identity_in_daemon(KERNEL_POINTER(parent, thread_pid), &tgid)))
                        return;
                start->group_tgid = tgid;
                start->group_start_ns = start_ns;
                task = parent;
        }
}

/* @capacity: bytes that the record has room for, constant. */
#define START_SEND(_start, _begin, _capacity) \
        ({ \
                struct abi_start *_to = \
                        bpf_ringbuf_reserve(&stacks, sizeof(struct abi_start) + (_capacity), 0); \
                uint64_t _size = (uint64_t)(_start)->n_arguments + (_start)->n_environment; \
                bool _done = false; \
                if (_to) { \
                        *_to = *(_start); \
                        barrier_var(_size); \
                        if (_size <= (_capacity) && \
                            !bpf_probe_read_user(_to->bytes, (uint32_t)_size, (const void *)(_begin))) \
                                _done = true; \
                        if (_done) \
                                bpf_ringbuf_submit(_to, BPF_RB_NO_WAKEUP); \
                        else \
                                bpf_ringbuf_discard(_to, BPF_RB_NO_WAKEUP); \
                } \
                _done; \
        })

/* Return: whether the start of the task's process is in the ring. */
static __attribute__((noinline)) uint64_t start_send(struct task_struct *task, struct recent *recent,
                                                     struct scratch *scratch) {
        struct task_struct *leader = KERNEL_POINTER(task, group_leader);
        struct abi_start start = {
                .kept = ABI_KEPT_START,
                .time_ns = scratch->sample.time_ns,
                .tgid = scratch->sample.tgid,
        };
        uint64_t begin = 0, size;

        if (!start_texts(KERNEL_POINTER(task, mm), &start, &begin))
                return 0;
        start.mount_namespace = BPF_CORE_READ(task, nsproxy, mnt_ns, ns.inum);
        start_groups(leader, &start);
        recent->mount_namespace = start.mount_namespace;
        recent->has_group = start.group_tgid;
        size = (uint64_t)start.n_arguments + start.n_environment;
        if (!defer_admits(scratch, sizeof(start) + (size > START_SMALL ? START_LARGE : START_SMALL), false))
                return 0;
        return size > START_SMALL ? START_SEND(&start, begin, START_LARGE)
                                  : START_SEND(&start, begin, START_SMALL);
}

/*
 * Sends it once for each program of a process that has no row, that of the program before, or one by which it
 * is unread; and for each CPU that meets it.
 */
static __always_inline void start_part(struct task_struct *task, struct recent *recent,
                                       struct scratch *scratch, struct counters *counters) {
        const uint8_t begins = ABI_PROCESS_REPLACED | ABI_PROCESS_UNREAD;
        uint64_t mm;

        if (setting_starts == ABI_STARTS_NONE ||
            (scratch->sample.generation && !(recent->row.flags & begins)))
                return;
        mm = (uint64_t)KERNEL_POINTER(task, mm);
        if (!mm || recent->told == mm)
                return;
        scratch->sample.has_start = (uint8_t)start_send(task, recent, scratch);
        recent->told = scratch->sample.has_start ? mm : 0;
        counters->values[scratch->sample.has_start ? COUNTER_STARTS : COUNTER_STARTS_UNREAD]++;
}

/* Whether all that a drain needs of the process has been sent, or lies in files that are known. */
static __always_inline bool start_waits(const struct recent *recent, const struct scratch *scratch,
                                        const struct known_name *name) {
        const struct abi_sample *sample = &scratch->sample;
        struct abi_settled_name settled = { .mount_namespace = recent->mount_namespace };

        if (!recent->told || !recent->has_group ||
            bpf_ktime_get_boot_ns() - sample->start_time_ns > setting_start_wait_ns)
                return false;
        if (!sample->is_copied && sample->stack_end != ABI_STACK_COMPLETE &&
            sample->stack_end != ABI_STACK_NO_USER)
                return false;
        __builtin_memcpy(settled.comm, name, sizeof(settled.comm));
        return bpf_map_lookup_elem(&settled_names, &settled);
}

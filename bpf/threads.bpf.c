/* SPDX-License-Identifier: GPL-2.0-only */

/*
 * Threads
 *
 * All threads of targets, as they are now: an iterator over the kernel's tasks that the daemon reads like a
 * file. No thread is stopped or woken for it. A thread that has no CPU keeps the registers of its user code
 * where it entered the kernel, so the daemon can walk its stack from there
 * (host/sampling/walks/thread-waits.c). One that has a CPU is only named: its stack changes.
 *
 * The reader's own record comes too, whatever it is: by it the scheduler's clock is compared with
 * CLOCK_MONOTONIC, from which it drifts.
 */

#include "walk/settings.bpf.h"

#include "walk/identity.bpf.h"
#include "walk/registers.bpf.h"
#include "walk/select.bpf.h"
#include "border/threads_abi.h"
#include "border/offcpu_abi.h"

char LICENSE[] SEC("license") = "GPL";

struct seq_file;

struct bpf_iter_meta {
        struct seq_file *seq;
} KERNEL_TYPE;

struct bpf_iter__task {
        struct bpf_iter_meta *meta;
        struct task_struct *task;
} KERNEL_TYPE;

/* The task's words beside those that samples need. */
struct sched_info {
        unsigned long long last_arrival;
} KERNEL_TYPE;

struct task_struct___look {
        unsigned long nvcsw, nivcsw;
        struct sched_info sched_info;
} KERNEL_TYPE;

static __always_inline uint64_t arrival_of(struct task_struct *task) {
        const struct task_struct___look *look = (const void *)task;

        return bpf_core_field_exists(look->sched_info) ? BPF_CORE_READ(look, sched_info.last_arrival) : 0;
}

static __always_inline uint32_t state_of(struct task_struct *task, struct abi_thread *thread) {
        const struct task_struct___look *look = (const void *)task;
        uint32_t state = task->__state;

        thread->n_switches = BPF_CORE_READ(look, nvcsw) + BPF_CORE_READ(look, nivcsw);
        if (kernel_has_cpu(task))
                thread->flags |= THREAD_ON_CPU;
        else if (!state)
                thread->flags |= THREAD_RUNNABLE;
        if (task->flags & KERNEL_PF_WORKERS)
                thread->flags |= THREAD_IS_WORKER;
        if (!state)
                thread->wait_flags |= WAIT_PREEMPTED;
        if (state & KERNEL_TASK_STOPPED)
                thread->wait_flags |= WAIT_STOPPED;
        if (state & KERNEL_TASK_UNINTERRUPTIBLE)
                thread->wait_flags |= WAIT_UNINTERRUPTIBLE;
        if (BPF_CORE_READ_BITFIELD_PROBED(task, in_iowait))
                thread->wait_flags |= WAIT_IO;
        return state;
}

/* A thread that has never been in user code has no registers of it. */
static __always_inline void registers_of(struct task_struct *task, struct scratch *scratch,
                                         struct abi_thread *thread) {
        uint64_t call = entered_call(task);

        thread->call = call < WAIT_MAX_CALLS ? (int16_t)call : WAIT_NO_CALL;
        thread->argument = entered_argument(task);
        thread->pointer = KERNEL_THREAD_POINTER(task);
        if (!registers_of_entry(task, &scratch->unwind, &scratch->rules))
                return;
        thread->pc = scratch->unwind.pc;
        thread->sp = scratch->unwind.sp;
        thread->bp = scratch->unwind.bp;
        thread->bx = scratch->rules.bx;
        saved_registers((const struct pt_regs *)bpf_task_pt_regs(task), thread->registers);
        thread->flags |= THREAD_HAS_USER;
}

/* As slots_judge() would, but nothing is noted. */
static __always_inline void slot_of(const struct abi_process *process, struct abi_thread *thread) {
        struct ring_slot key = { .tgid = thread->tgid };
        const struct ring_thread *known;
        const struct ring_owners *owners;
        const struct ring_holder *holder;

        if (!process->ring_capacity)
                return;
        key.slot = thread->ns_tid % process->ring_capacity;
        owners = bpf_map_lookup_elem(&ring_slots, &key);
        known = bpf_map_lookup_elem(&ring_threads, &thread->tid);
        if (owners && owners->n > 1)
                thread->flags |= THREAD_SLOT_SHARED;
        if (owners && owners->left != SLOT_TRUSTED)
                thread->flags |= THREAD_SLOT_LEFT;
        holder = bpf_map_lookup_elem(&ring_holders, &thread->tgid);
        if (!known && (!holder || holder->overflowed))
                thread->flags |= THREAD_SLOT_SHARED;
        if (!known || !known->is_unwritten || known->tgid != key.tgid || known->slot != key.slot)
                return;
        thread->flags |= THREAD_SLOT_UNWRITTEN;
        thread->born = known->born;
}

static __always_inline void context_of(const struct abi_process *process, struct abi_thread *thread) {
        if (!(process->flags & ABI_PROCESS_ADOPTING))
                thread->ring_address = process->ring_address;
        thread->ring_capacity = process->ring_capacity;
        thread->thread_offset = process->thread_offset;
        thread->thread_module = process->thread_module;
        thread->thread_model = process->thread_model;
        thread->thread_form = process->thread_form;
        thread->node = process->node;
        slot_of(process, thread);
}

/* A record under construction: it is too large for the stack. */
struct {
        __uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
        __uint(max_entries, 1);
        __type(key, uint32_t);
        __type(value, struct abi_thread);
} looks SEC(".maps");

SEC("iter/task")
int threads(struct bpf_iter__task *context) {
        struct task_struct *task = context->task;
        struct identity identity = {};
        const struct abi_process *row;
        struct abi_thread *thread;
        struct scratch *scratch;
        uint32_t zero = 0;

        if (!task || task->flags & KERNEL_PF_KTHREAD || !identity_read(task, &identity))
                return 0;
        thread = bpf_map_lookup_elem(&looks, &zero);
        if (!thread)
                return 0;
        __builtin_memset(thread, 0, sizeof(*thread));
        thread->time_ns = bpf_ktime_get_ns();
        thread->tgid = identity.tgid;
        thread->tid = identity.tid;
        thread->arrival_ns = arrival_of(task);
        if (identity.tgid == setting_self_tgid) {
                bpf_seq_write(context->meta->seq, thread, sizeof(*thread));
                return 0;
        }
        row = bpf_map_lookup_elem(&processes, &identity.tgid);
        scratch = bpf_map_lookup_elem(&scratches, &zero);
        if (!row || !scratch || !select_copy(row, identity.start_time_ns, &scratch->process) ||
            scratch->process.state != ABI_STATE_TARGET || state_of(task, thread) & KERNEL_TASK_DEAD)
                return 0;
        thread->start_time_ns = identity.start_time_ns;
        thread->generation = scratch->process.generation;
        thread->ns_tid = identity_innermost(task);
        comm_copy(thread->comm, task->comm);
        context_of(&scratch->process, thread);
        registers_of(task, scratch, thread);
        probes_of(task, thread);
        bpf_seq_write(context->meta->seq, thread, sizeof(*thread));
        return 0;
}

/* SPDX-License-Identifier: GPL-2.0-only */
#pragma once

/*
 * Long Waits
 *
 * Stacks of waits that were not drawn, once they have lasted. The thread stands still meanwhile: its stack
 * lies in its memory, its registers lie in the kernel, and the daemon reads both at leisure.
 *
 *     wait begins, is not drawn ──────┬───────────────┬──────────────── long ──▶ ends: a record
 *                                     wait_long()     wait_give()
 *                                     lists it        keeps the stack, if the thread has not run
 *
 * The daemon runs both programs (host/sampling/walks/long-waits.c). wait_long() lists a wait after a
 * quarter of the length of a long one. If no stack has come, it lists it again when it has lasted twice as
 * long. A look lists WAIT_LONG_LISTED of them: half for one control group, and more where others leave room.
 *
 * Whether the thread has run is told by its element: the same wait goes on while `begin_ns` is the same and
 * `since_ns` is set. A kernel that hides switches is caught by the task's own count of them.
 *
 * Threads that begin and end waits meanwhile are on other CPUs, and own their stack. So wait_give() only adds
 * one where there is none, and marks it (`late_ns`) behind that. Whoever ends a wait next takes it away, and
 * believes it only if it is of that very wait.
 */

#include "border/wait_long_abi.h"
#include "waits/wait-share.bpf.h"
#include "waits/wait-slot.bpf.h"
#include "waits/waits.bpf.h"
#include "walk/registers.bpf.h"

struct {
        __uint(type, BPF_MAP_TYPE_ARRAY);
        __uint(max_entries, 1);
        __type(key, uint32_t);
        __type(value, struct abi_wait_longs);
} wait_longs SEC(".maps");

enum { WAIT_LONG_SHARES = 64 };

/* Working memory of wait_long(), which never runs twice at a time. */
struct wait_long_room {
        /* waits that this look has listed, of each group and then of each user, by hash */
        uint8_t listed[2 * WAIT_LONG_SHARES];
        uint8_t is_held;                /* a group or user had more than its share, which is due */
        uint8_t takes_all;              /* the others are listed: there is room for more of these */
        uint8_t reserved[6];
        /* from a task's kernel stack to what it saved of user code; the same for all tasks */
        volatile uint64_t registers_of_task, stack_of_task;
        union {
                struct pt_regs registers;       /* our type has less than the kernel's, … */
                uint64_t words[64];             /* … which fits in here */
        };
};

struct {
        __uint(type, BPF_MAP_TYPE_ARRAY);
        __uint(max_entries, 1);
        __type(key, uint32_t);
        __type(value, struct wait_long_room);
} wait_long_room SEC(".maps");

/* The record that the daemon gives: as in wait_stacks, without durations and waker. It writes it. */
struct {
        __uint(type, BPF_MAP_TYPE_ARRAY);
        __uint(max_entries, 1);
        __type(key, uint32_t);
        __type(value, struct wait_stack);
} wait_given SEC(".maps");

static __always_inline struct wait_long_room *wait_long_room_get(void) {
        uint32_t zero = 0;

        return bpf_map_lookup_elem(&wait_long_room, &zero);
}

/* ---- which waits ---- */

/* @task: another one's. No pointer of it is trusted, so all is read by copies. */
static __always_inline void wait_long_registers(const struct task_struct *task, struct abi_thread *thread) {
        struct wait_long_room *room = wait_long_room_get();
        uint64_t stack = (uint64_t)BPF_CORE_READ(task, stack);

        if (!room || !stack || !BPF_CORE_READ(task, mm, start_code) ||
            bpf_core_type_size(struct pt_regs) > sizeof(room->words) ||
            bpf_probe_read_kernel(room->words, bpf_core_type_size(struct pt_regs),
                                  (const void *)(stack + room->registers_of_task - room->stack_of_task)) ||
            !copied_registers(&room->registers, thread))
                return;
        saved_registers(&room->registers, thread->registers);
        thread->flags |= THREAD_HAS_USER;
}

/* How the daemon finds the thread's context. Of its slot in a ring all is known already. */
static __always_inline void wait_long_context(const struct abi_process *row, struct abi_thread *thread) {
        thread->thread_offset = row->thread_offset;
        thread->thread_module = row->thread_module;
        thread->thread_model = row->thread_model;
        thread->thread_form = row->thread_form;
        thread->node = row->node;
}

static __always_inline void wait_long_tell(const struct wait_thread *thread, uint64_t task, uint64_t now_ns,
                                           struct abi_wait_long *to) {
        uint32_t tgid = thread->key.tgid;
        const struct abi_process *row = bpf_map_lookup_elem(&processes, &tgid);

        __builtin_memset(to, 0, sizeof(*to));
        to->task = task;
        to->begin_ns = thread->begin_ns;
        to->span = thread->key.span;
        to->context = thread->key.context;
        to->form = thread->key.form;
        to->file = thread->key.file;
        to->thread.time_ns = now_ns;
        to->thread.start_time_ns = thread->start_time_ns;
        to->thread.generation = thread->generation;
        to->thread.tgid = tgid;
        to->thread.tid = thread->key.tid;
        to->thread.ns_tid = thread->ns_tid;
        to->thread.call = thread->key.call;
        to->thread.wait_flags = thread->key.flags;
        comm_copy(to->thread.comm, thread->comm);
        bpf_core_read(&to->thread.pointer, sizeof(to->thread.pointer),
                      &KERNEL_THREAD_POINTER((const struct task_struct *)task));
        if (BPF_CORE_READ((const struct task_struct *)task, flags) & KERNEL_PF_WORKERS)
                to->thread.flags |= THREAD_IS_WORKER;
        if (row && row->generation == thread->generation)
                wait_long_context(row, &to->thread);
        wait_long_registers((const struct task_struct *)task, &to->thread);
        probes_of((const struct task_struct *)task, &to->thread);
}

/* When a wait without a stack is due. One that was listed before waits for twice the time. */
static __always_inline uint64_t wait_long_due(const struct wait_thread *thread, uint64_t begin_ns) {
        uint64_t listed_ns = thread->listed_ns;

        return listed_ns > begin_ns ? begin_ns + 2 * (listed_ns - begin_ns)
                                    : begin_ns + setting_wait_long_ns / 4;
}

/* Counts a wait more of this look. Return: whether the thread's share of it has room. */
static __always_inline bool wait_long_take(struct wait_long_room *room, const struct wait_thread *thread) {
        uint8_t *group = &room->listed[thread->group & (WAIT_LONG_SHARES - 1)],
                *user = &room->listed[WAIT_LONG_SHARES + (thread->user & (WAIT_LONG_SHARES - 1))];

        if (!room->takes_all && !wait_may_hold(WAIT_LONG_LISTED, *group, *user, wait_share_is_root(thread))) {
                room->is_held = 1;
                return false;
        }
        ++*group;
        ++*user;
        return true;
}

/* A global function, as wait_add(). Return: whether the thread still waits, and has no stack. */
__attribute__((noinline)) int wait_long_see(uint64_t task) {
        struct wait_thread *thread = bpf_map_lookup_elem(&wait_threads, &task);
        uint64_t begin_ns, now_ns = bpf_ktime_get_ns(), due_ns, n;
        struct wait_long_room *room = wait_long_room_get();
        struct abi_wait_longs *list;
        uint32_t zero = 0;

        list = bpf_map_lookup_elem(&wait_longs, &zero);
        if (!thread || !list || !room || !*(volatile uint64_t *)&thread->since_ns || wait_has_stack(thread))
                return 0;
        begin_ns = *(volatile uint64_t *)&thread->begin_ns;
        due_ns = wait_long_due(thread, begin_ns);
        n = list->n;
        if (now_ns < due_ns || n >= WAIT_LONG_LISTED || !wait_long_take(room, thread)) {
                if (due_ns < list->next_ns)
                        list->next_ns = due_ns;
                return 1;
        }
        barrier_var(n);
        wait_long_tell(thread, task, now_ns, &list->waits[n & (WAIT_LONG_LISTED - 1)]);
        list->n = n + 1;
        thread->listed_ns = now_ns;
        return 1;
}

/* A mark is taken away before the look, so that one of a wait that begins meanwhile stays. */
static __always_inline void wait_long_slot(struct wait_block *block, uint32_t i) {
        volatile uint8_t *mark = &block->is_undrawn[i];

        if (!*mark)
                return;
        *mark = 0;
        if (wait_long_see(block->tasks[i]))
                *mark = 1;
}

static long wait_long_block(const void *map, const uint32_t *index, struct wait_block *block,
                            void *context) {
        uint64_t any = 0;

        for (uint32_t i = 0; i < WAIT_BLOCK_SLOTS / 8; i++)
                any |= block->words[i];
        for (uint32_t i = 0; any && i < WAIT_BLOCK_SLOTS; i++)
                wait_long_slot(block, i);
        return 0;
}

/* Lists threads whose waits go on without a stack. */
SEC("raw_tp")
int wait_long(void *context) {
        struct task_struct *self = bpf_get_current_task_btf();
        struct wait_long_room *room = wait_long_room_get();
        struct abi_wait_longs *list;
        uint32_t zero = 0;

        list = bpf_map_lookup_elem(&wait_longs, &zero);
        if (!list || !room)
                return 0;
        list->n = 0;
        list->next_ns = ~0ull;
        room->is_held = room->takes_all = 0;
        __builtin_memset(room->listed, 0, sizeof(room->listed));
        /* through memory: the verifier subtracts no pointers */
        room->registers_of_task = (uint64_t)bpf_task_pt_regs(self);
        room->stack_of_task = (uint64_t)KERNEL_POINTER(self, stack);
        bpf_for_each_map_elem(&wait_blocks, wait_long_block, NULL, 0);
        if (room->is_held && list->n < WAIT_LONG_LISTED) {
                room->takes_all = 1;
                list->next_ns = ~0ull;
                bpf_for_each_map_elem(&wait_blocks, wait_long_block, NULL, 0);
        }
        return 0;
}

/* ---- the stack of one ---- */

static __always_inline bool wait_long_stands(const struct wait_thread *thread, uint64_t task,
                                             uint64_t begin_ns) {
        const struct task_struct___switches *counts = (const void *)task;

        return *(volatile uint64_t *)&thread->since_ns && thread->begin_ns == begin_ns &&
                !wait_has_stack(thread) && !kernel_has_cpu(counts) &&
                BPF_CORE_READ(counts, nvcsw) + BPF_CORE_READ(counts, nivcsw) == thread->n_switches;
}

/* Arguments: `task` and `begin_ns` of struct abi_wait_long. Return: enum abi_wait_given. */
SEC("raw_tp")
int wait_give(const struct bpf_raw_tracepoint_args *context) {
        uint64_t task = context->args[0], begin_ns = context->args[1];
        struct wait_thread *thread = bpf_map_lookup_elem(&wait_threads, &task);
        const struct wait_stack *given;
        uint32_t zero = 0;
        long r;

        given = bpf_map_lookup_elem(&wait_given, &zero);
        if (!thread || !given || !wait_long_stands(thread, task, begin_ns))
                return WAIT_GIVEN_TOO_LATE;
        r = wait_stack_put(task, thread, given);
        if (r)          /* a stack that was given too late goes with the end of the wait */
                return r == -KERNEL_EEXIST ? WAIT_GIVEN_TOO_LATE : WAIT_GIVEN_NO_ROOM;
        *(volatile uint64_t *)&thread->late_ns = begin_ns;
        /* A thread that has ended meanwhile did not know of it. */
        if (bpf_map_lookup_elem(&wait_threads, &task))
                return WAIT_GIVEN;
        wait_stack_drop(task, thread);
        return WAIT_GIVEN_TOO_LATE;
}

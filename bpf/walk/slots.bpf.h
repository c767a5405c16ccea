/* SPDX-License-Identifier: GPL-2.0-only */
#pragma once

/*
 * Slots
 *
 * A slot of a ring belongs to a thread only by arithmetic (tid % capacity), and
 * need not be cleared. So two things must be known before a slot is believed:
 *
 *     is another living thread's slot the same one?     → ambiguous
 *     was it written since this thread was born, and
 *     since another one that shared it died?            → else stale
 *
 * Both are kept up to date at birth and death of every thread of a process with
 * a ring. The daemon tells of threads that were there before the ring was found
 * (adopt), and trusts what their slots hold. First of all it tells of the process
 * itself: if there was no room for that, no slot of the process is believed.
 *
 * Both tables have one number of entries, which threads and slots share. A
 * control group holds no more of them than it leaves free. So does a user of
 * what the group may still have, and a process of what the user may: who comes
 * later finds a part of what is left, however many processes were there before.
 *
 *     32,768    group A ≤ ½ of all:    16,384     one process of one user alone: 8,192
 *               group B ≤ ½ of the rest: 8,192     …
 *
 * Once a process was refused an entry, nothing is known of its threads'
 * neighbours any more. From then on a slot of its that is counted for the first
 * time counts as shared.
 */

#include "walk/identity.bpf.h"
#include "walk/obi.bpf.h"
#include "walk/tables.bpf.h"

enum {
        SLOTS_CLONE_THREAD = 0x10000,
        /*
         * Entries of small rings stay at zero, until the daemon removes them with their process. If an entry
         * was deleted while another thread with the same slot is being born, that thread would be lost. In a
         * larger ring two such threads are thousands of ids apart, and cannot be born and die within these
         * few instructions.
         */
        SLOTS_KEPT = ABI_KEPT_SLOTS,
};

/* @holder: NULL = there is none for want of room. */
static __always_inline void slots_over_cap(struct ring_holder *holder) {
        struct counters *counters = counters_get();

        if (holder)
                holder->overflowed = true;
        if (counters)
                __sync_fetch_and_add(&counters->values[COUNTER_RING_THREADS_OVER_CAP], 1);
}

/* Entries of all processes of one number. */
static __always_inline uint32_t *slots_shared(uint32_t number) {
        struct shared *shared = bpf_map_lookup_elem(&shares, &number);

        return shared ? &shared->n_rings : NULL;
}

/* Adds to what a process, its user, its control group and all hold. */
static __always_inline void slots_add(struct ring_holder *holder, uint32_t *group, uint32_t *user,
                                      uint32_t n) {
        __sync_fetch_and_add(&holder->n, n);
        __sync_fetch_and_add(group, n);
        __sync_fetch_and_add(user, n);
        __sync_fetch_and_add(&ring_used, n);
}

/* Counts are signed: one that was lowered once too often holds nothing, and shuts nobody out. */
static __always_inline bool slots_may_hold(int32_t group, int32_t user, int32_t process) {
        int64_t left = (int64_t)setting_ring_entries - (int32_t)ring_used;

        left -= group;
        if (left <= 0)
                return false;
        left -= user;
        return left > 0 && left > process;
}

/* An entry more. Return: whether there is a share of it left. */
static __always_inline bool slots_charge(struct ring_holder *holder) {
        uint32_t *group = slots_shared(holder->group), *user = slots_shared(holder->user);

        if (!group || !user || !slots_may_hold((int32_t)*group, (int32_t)*user, (int32_t)holder->n))
                return false;
        slots_add(holder, group, user, 1);
        return true;
}

/* @n entries less; those of a process without a row any more were given back together. */
static __always_inline void slots_give_back(struct ring_holder *holder, uint32_t n) {
        uint32_t *group = slots_shared(holder->group), *user = slots_shared(holder->user);

        if (group && user && holder->n >= n)
                slots_add(holder, group, user, -n);
}

/* What the process still holds, whoever comes first. */
static __always_inline void slots_give_back_all(struct ring_holder *holder) {
        uint32_t *group = slots_shared(holder->group), *user = slots_shared(holder->user),
                 n = __sync_lock_test_and_set(&holder->n, 0);

        if (!group || !user)
                return;
        __sync_fetch_and_add(group, -n);
        __sync_fetch_and_add(user, -n);
        __sync_fetch_and_add(&ring_used, -n);
}

static __always_inline void slots_enter(struct ring_holder *holder, uint32_t tgid, uint32_t slot) {
        struct ring_slot key = { .tgid = tgid, .slot = slot };
        struct ring_owners first = { .n = holder->overflowed },
                           *owners = bpf_map_lookup_elem(&ring_slots, &key);

        if (slot < SLOTS_KEPT)
                holder->kept[slot / (ABI_KEPT_SLOTS / ABI_KEPT_BLOCKS) & (ABI_KEPT_BLOCKS - 1)] = 1;
        if (!owners && slots_charge(holder)) {
                if (bpf_map_update_elem(&ring_slots, &key, &first, BPF_NOEXIST))
                        slots_give_back(holder, 1);     /* another CPU was faster */
                owners = bpf_map_lookup_elem(&ring_slots, &key);
        }
        if (owners)
                __sync_fetch_and_add(&owners->n, 1);
        else
                slots_over_cap(holder);
}

static __always_inline void slots_leave(uint32_t tgid, uint32_t slot) {
        struct ring_slot key = { .tgid = tgid, .slot = slot };
        struct ring_owners *owners = bpf_map_lookup_elem(&ring_slots, &key);
        struct ring_holder *holder = bpf_map_lookup_elem(&ring_holders, &tgid);

        if (!owners)
                return;
        if (owners->n > 1)
                owners->left = SLOT_LEFT_BEHIND;
        if (owners->n)
                __sync_fetch_and_add(&owners->n, -1);
        if (slot >= SLOTS_KEPT && !*(volatile uint32_t *)&owners->n &&
            !bpf_map_delete_elem(&ring_slots, &key) && holder)
                slots_give_back(holder, 1);
}

/* The thread is gone, or has another slot now. */
static __always_inline void slots_forget(uint32_t tid) {
        const struct ring_thread *thread = bpf_map_lookup_elem(&ring_threads, &tid);
        struct ring_holder *holder;
        struct ring_slot key;

        if (!thread)
                return;
        key.tgid = thread->tgid;
        key.slot = thread->slot;
        if (bpf_map_delete_elem(&ring_threads, &tid))
                return;
        slots_leave(key.tgid, key.slot);
        holder = bpf_map_lookup_elem(&ring_holders, &key.tgid);
        if (holder)
                slots_give_back(holder, 1);
}

/* The process has lost its row, and all that it held, while one of its threads was born. */
static __always_inline void slots_undo(uint32_t tid, const struct ring_thread *thread,
                                       struct ring_holder *holder) {
        struct ring_slot key = { .tgid = thread->tgid, .slot = thread->slot };

        slots_forget(tid);
        bpf_map_delete_elem(&ring_slots, &key);
        slots_give_back_all(holder);
}

static __always_inline void slots_remember(uint32_t tid, const struct ring_thread *thread) {
        struct ring_holder *holder = bpf_map_lookup_elem(&ring_holders, &thread->tgid);

        slots_forget(tid);      /* an earlier owner of the id whose end was missed */
        if (!holder) {
                slots_over_cap(NULL);
                return;
        }
        slots_enter(holder, thread->tgid, thread->slot);
        if (!slots_charge(holder))
                slots_over_cap(holder);
        else if (bpf_map_update_elem(&ring_threads, &tid, thread, BPF_ANY)) {
                slots_give_back(holder, 1);
                slots_over_cap(holder);
        }
        if (!bpf_map_lookup_elem(&processes, &thread->tgid))
                slots_undo(tid, thread, holder);
}

/* Notes whose share a process has. @share: abi_adoption_share(). */
static __always_inline void slots_share(uint32_t tgid, uint64_t share) {
        struct ring_holder first = { .user = ABI_RING_SHARES }, *holder;
        uint32_t n;

        bpf_map_update_elem(&ring_holders, &tgid, &first, BPF_NOEXIST);
        holder = bpf_map_lookup_elem(&ring_holders, &tgid);
        if (!holder)
                return;
        n = holder->n;          /* entries of an earlier ring of the process */
        slots_give_back(holder, n);
        holder->group = (uint32_t)(share >> 32) & (ABI_RING_SHARES - 1);
        holder->user = ABI_RING_SHARES | ((uint32_t)share & (ABI_RING_SHARES - 1));
        for (int i = 0; i < 2; i++) {
                uint32_t *held = slots_shared(i ? holder->user : holder->group);

                if (held)
                        __sync_fetch_and_add(held, n);
        }
        __sync_fetch_and_add(&holder->n, n);
        __sync_fetch_and_add(&ring_used, n);
}

/*
 * All entries of a process are given back; the daemon, or the ends of its threads, remove them. Return: a bit
 * for each block with slots that the daemon has to remove.
 */
static __always_inline uint32_t slots_end(uint32_t tgid) {
        struct ring_holder *holder = bpf_map_lookup_elem(&ring_holders, &tgid);
        uint32_t blocks = 0;

        if (!holder)
                return 0;
        slots_give_back_all(holder);
        for (uint32_t i = 0; i < ABI_KEPT_BLOCKS; i++)
                blocks |= (uint32_t)!!holder->kept[i] << i;
        bpf_map_delete_elem(&ring_holders, &tgid);
        return blocks;
}

/* Whether a thread may be missing among those of the process. */
static __always_inline bool slots_overflowed(uint32_t tgid) {
        const struct ring_holder *holder = bpf_map_lookup_elem(&ring_holders, &tgid);

        return !holder || holder->overflowed;
}

/* Ids of a task that is not the current one. They are read by copies, since its pointer is not trusted. */
static __always_inline bool slots_ids(struct task_struct *task, uint32_t *tidp, uint32_t *ns_tidp) {
        struct pid *pid = BPF_CORE_READ(task, thread_pid);
        uint32_t level = BPF_CORE_READ(pid, level);
        struct upid upid;

        if (!pid || !identity_at(pid, level, &upid))
                return false;
        *ns_tidp = upid.nr;
        if (level < namespace_level || !identity_at(pid, namespace_level, &upid))
                return false;
        *tidp = upid.nr;
        return !setting_namespace || BPF_CORE_READ(upid.ns, ns.inum) == setting_namespace;
}

/* Whether @tgid has a ring. The row of an earlier process costs one useless entry. */
static __always_inline bool slots_ring(uint32_t tgid, uint64_t *addressp, uint32_t *capacityp) {
        const struct abi_process *row = bpf_map_lookup_elem(&processes, &tgid);

        if (!row || !row->ring_address || !row->ring_capacity)
                return false;
        *addressp = row->ring_address;
        *capacityp = row->ring_capacity;
        return true;
}

/* Runs in the task that makes the new one, which shares its memory and does not run yet. */
SEC("raw_tp/task_newtask")
int watch_thread(struct bpf_raw_tracepoint_args *context) {
        struct task_struct *current = bpf_get_current_task_btf(),
                           *task = (struct task_struct *)context->args[0];
        struct spanprof_ring_slot slot = {};
        struct ring_thread thread = {};
        struct identity identity = {};
        uint32_t tid, ns_tid, capacity;
        uint64_t address;

        if (obi_on)
                obi_meet((uint64_t)BPF_CORE_READ(task, tgid) << 32 | (uint32_t)BPF_CORE_READ(task, pid));
        if (!(context->args[1] & SLOTS_CLONE_THREAD) || !identity_read(current, &identity) ||
            !slots_ring(identity.tgid, &address, &capacity) || !capacity || !slots_ids(task, &tid, &ns_tid))
                return 0;
        thread.tgid = identity.tgid;
        thread.slot = ns_tid % capacity;
        address += sizeof(struct spanprof_ring_header) + (uint64_t)thread.slot * sizeof(slot);
        /* A page that is not there holds no ids. */
        if (!bpf_probe_read_user(&slot, sizeof(slot), (const void *)address)) {
                thread.born.trace_high = slot.trace_id_high;
                thread.born.trace_low = slot.trace_id_low;
                thread.born.span = slot.span_id;
        }
        thread.is_unwritten = !!(slot.trace_id_high | slot.trace_id_low | slot.span_id);
        slots_remember(tid, &thread);
        return 0;
}

static __always_inline void slots_adopt(uint32_t tid, const struct ring_thread *thread) {
        const struct ring_thread *known = bpf_map_lookup_elem(&ring_threads, &tid);

        if (!known || known->tgid != thread->tgid || known->slot != thread->slot)
                slots_remember(tid, thread);
}

/*
 * Run by the daemon with a struct abi_adoption, for each thread that it finds and for whole processes.
 * Return: of ABI_ADOPTION_ENDS, the blocks of slots_end().
 */
SEC("raw_tp")
int adopt(struct bpf_raw_tracepoint_args *context) {
        const struct ring_thread thread = { .tgid = context->args[0], .slot = context->args[2] };
        uint32_t tid = context->args[1];

        if (context->args[2] == ABI_ADOPTION_SHARE)
                slots_share(thread.tgid, context->args[1]);
        else if (context->args[2] == ABI_ADOPTION_ENDS)
                return (int)slots_end(thread.tgid);
        else if (context->args[2] == ABI_ADOPTION_GONE)
                slots_forget(tid);
        else
                slots_adopt(tid, &thread);
        return 0;
}

static __always_inline bool slots_same(const struct abi_span *a, const struct abi_span *b) {
        return !((a->trace_high ^ b->trace_high) | (a->trace_low ^ b->trace_low) | (a->span ^ b->span));
}

/* Whether these ids are, or may be, what a thread that has died left behind. */
static __always_inline bool slots_left(struct ring_owners *owners, const struct abi_span *span) {
        if (owners->left == SLOT_TRUSTED)
                return false;
        if (owners->left == SLOT_LEFT_BEHIND) {
                owners->ids = *span;
                owners->left = SLOT_LEFT_IDS;
        }
        if (slots_same(&owners->ids, span))
                return true;
        owners->left = SLOT_TRUSTED;    /* only one thread is left that can have written */
        return false;
}

/* Judges the slot in which a sample found these ids. */
static __always_inline uint8_t slots_judge(uint32_t tgid, uint32_t tid, uint32_t slot,
                                           const struct abi_span *span) {
        struct ring_slot key = { .tgid = tgid, .slot = slot };
        struct ring_thread *thread = bpf_map_lookup_elem(&ring_threads, &tid);
        struct ring_owners *owners = bpf_map_lookup_elem(&ring_slots, &key);

        if (owners && owners->n > 1)
                return ABI_CONTEXT_AMBIGUOUS;
        if (owners && slots_left(owners, span))
                return ABI_CONTEXT_STALE;
        if (!thread)            /* over the cap, or not counted yet */
                return slots_overflowed(tgid) ? ABI_CONTEXT_AMBIGUOUS : ABI_CONTEXT_PRESENT;
        if (!thread->is_unwritten || thread->tgid != tgid || thread->slot != slot)
                return ABI_CONTEXT_PRESENT;
        if (slots_same(&thread->born, span))
                return ABI_CONTEXT_STALE;
        thread->is_unwritten = 0;
        return ABI_CONTEXT_PRESENT;
}

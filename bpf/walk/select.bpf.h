/* SPDX-License-Identifier: GPL-2.0-only */
#pragma once

/*
 * Selection
 *
 * Decides from the process table whether a tick is taken, before anything that costs. A process without a row
 * is a non-target, and so is one that was rejected. It may publish a ring later, and no hook tells us (a hook
 * on mmap would cost every process of the machine). So the tick looks whether the process' address space has
 * changed. If so, it posts a notice, and the daemon looks at the process again: often while the process is
 * new (programs publish as they start), then twice a second at most. The tick looks less and less often at
 * memory that stays as it is, since what it reads is in no cache.
 *
 * Where processes are chosen by name, one without a row is undecided: its tick is taken, and the daemon
 * decides. If nothing but name and user can choose it, the daemon keeps the names that it has rejected, and
 * the next process of such a name costs one more look-up here and nothing there:
 *
 *     tick of `cc1`, user 1000     no row, no such name: taken; the daemon rejects {cc1, 1000}
 *     tick of another `cc1`        no row, {cc1, 1000} is rejected: not taken
 *     it calls prctl(PR_SET_NAME), or setuid(): another key, taken again
 *
 * A look-up in a large hash map touches some 13 lines of memory that a compiler beside us has pushed out of
 * the processor's caches. So each CPU keeps what it has read of 16 processes beside its counters, and
 * believes it until any row, or any node, changes (rows_version).
 */

#include "walk/notice.bpf.h"

enum {
        SELECT_NOTICE_FIRST_MS = 16,    /* doubles with each notice */
        SELECT_NOTICE_LAST_MS = 512,
        SELECT_LOOK_FIRST_MS = 16,      /* doubles with each look that finds nothing new */
        SELECT_LOOK_LAST_MS = 128,
};

/* /proc tells the daemon the time of a start rounded down to a tick. */
static __always_inline bool select_is_start(const struct abi_process *process, uint64_t start_time_ns) {
        return !process->start_time_ns || start_time_ns - process->start_time_ns < ABI_START_TICK_NS;
}

/*
 * Copies a row. Return: false if it is of an earlier process, or was replaced under the copy (elements are
 * recycled).
 */
static __always_inline bool select_copy(const volatile struct abi_process *row, uint64_t start_time_ns,
                                        struct abi_process *process) {
        process->generation = row->generation;
        process->start_time_ns = row->start_time_ns;
        process->ring_address = row->ring_address;
        process->ring_capacity = row->ring_capacity;
        process->state = row->state;
        process->thread_offset = row->thread_offset;
        process->thread_module = row->thread_module;
        process->thread_model = row->thread_model;
        process->thread_form = row->thread_form;
        process->flags = row->flags;
        process->watch = (struct abi_watch){ 0 };
        process->node = row->node;
        return row->generation == process->generation && select_is_start(process, start_time_ns);
}

/*
 * Finds what is noted of the process. A new row takes over the notes from before there was one. Return: NULL
 * = nothing; a row that was never watched has an interval of 0.
 */
static __always_inline struct abi_watch *select_seen(uint32_t tgid, struct abi_process *row) {
        struct abi_watch *before;

        if (row && row->watch.interval_ms)
                return &row->watch;
        before = bpf_map_lookup_elem(&non_targets, &tgid);
        if (!row)
                return before;
        if (before)
                row->watch = *before;
        return &row->watch;
}

static __always_inline bool select_is_due(const struct abi_watch *seen, const struct abi_watch *now) {
        return !seen->interval_ms || now->time_ms - seen->time_ms >= seen->interval_ms;
}

/* Whether the address space has changed since *@seen, and the next notice is due. Fills the rest of *@now. */
static __always_inline bool select_has_changed(struct task_struct *task, const struct abi_watch *seen,
                                               struct abi_watch *now) {
        struct mm_struct *mm;

        if (!select_is_due(seen, now))
                return false;
        mm = KERNEL_POINTER(task, mm);
        now->total_vm = (uint32_t)BPF_CORE_READ(mm, total_vm);
        now->map_count = (uint32_t)BPF_CORE_READ(mm, map_count);
        return !seen->interval_ms || seen->total_vm != now->total_vm || seen->map_count != now->map_count;
}

/*
 * Posts a notice that is due by what is known on this CPU; another CPU may have posted it. A row may be
 * another process' by the time it is written: that process has one notice more.
 */
static __attribute__((noinline)) void select_tell(struct task_struct *task, const struct identity *identity,
                                                  struct recent *recent) {
        uint64_t now_ns = bpf_ktime_get_ns();
        struct abi_process *row =
                recent->has_row ? bpf_map_lookup_elem(&processes, &identity->tgid) : NULL;
        struct abi_watch *seen = select_seen(identity->tgid, row), now = {};

        now.time_ms = (uint32_t)(now_ns / 1000000);
        now.interval_ms = SELECT_NOTICE_FIRST_MS;
        if (seen) {
                recent->row.watch = *seen;
                if (!select_has_changed(task, seen, &now))
                        return;
                if (seen->interval_ms)
                        now.interval_ms = 2 * seen->interval_ms < SELECT_NOTICE_LAST_MS
                                ? 2 * seen->interval_ms
                                : SELECT_NOTICE_LAST_MS;
        } else {
                select_has_changed(task, &now, &now);
        }
        /* A notice without room in the ring is posted at the next tick. */
        if (!notice_post(task, identity, ABI_NOTICE_MAPPINGS, now_ns, 0))
                return;
        recent->row.watch = now;
        if (seen)
                *seen = now;
        else
                bpf_map_update_elem(&non_targets, &identity->tgid, &now, BPF_ANY);
}

static __always_inline void select_watch(struct task_struct *task, const struct identity *identity,
                                         struct recent *recent) {
        struct abi_watch now = { .time_ms = (uint32_t)(bpf_ktime_get_ns() / 1000000) };

        if (!select_is_due(&recent->row.watch, &now) ||
            now.time_ms - recent->looked_ms < recent->look_interval_ms)
                return;
        if (select_has_changed(task, &recent->row.watch, &now)) {
                recent->look_interval_ms = 0;
                select_tell(task, identity, recent);
                return;
        }
        recent->looked_ms = now.time_ms;
        if (!recent->look_interval_ms)
                recent->look_interval_ms = SELECT_LOOK_FIRST_MS;
        else if (recent->look_interval_ms < SELECT_LOOK_LAST_MS)
                recent->look_interval_ms *= 2;
}

/* Whether the target may start to publish, and that would matter. */
static __always_inline bool select_may_publish(const struct abi_process *process) {
        return !process->ring_address && !(process->flags & ABI_PROCESS_PUBLISHES);
}

/* Whether the task has the name of a helper. */
static __always_inline bool select_has_helper_name(struct task_struct *task) {
        uint64_t comm[2];

        if (bpf_core_read(comm, sizeof(comm), &task->comm))
                return false;
        for (int i = 0; i < ABI_HELPER_NAMES; i++) {
                const volatile uint64_t *name = (const volatile uint64_t *)setting_helper_comms[i];

                if (name[0] && comm[0] == name[0] && comm[1] == name[1])
                        return true;
        }
        return false;
}

static __always_inline bool select_is_daemon(struct task_struct *task) {
        uint32_t tgid = BPF_CORE_READ(task, tgid);

        if (setting_namespace && !identity_in_daemon(BPF_CORE_READ(task, group_leader, thread_pid), &tgid))
                return false;
        return tgid == setting_self_tgid;
}

/*
 * Whether it is a process of the daemon's own: a child of it, or of such a child (remote-reader.c in core).
 * Compares names as well: a shell may have started a child before it became the daemon, and a command of
 * `record` is its child, too. A function of its own as lost_note().
 */
static __attribute__((noinline)) bool select_is_helper(struct task_struct *task) {
        struct task_struct *parent;

        if (!select_has_helper_name(task))
                return false;
        parent = KERNEL_POINTER(task, real_parent);
        return select_is_daemon(parent) ||
                (select_has_helper_name(parent) && select_is_daemon(BPF_CORE_READ(parent, real_parent)));
}

/* Whether its name, and its user where that matters, have been rejected. */
static __always_inline bool select_is_rejected(struct task_struct *task) {
        struct task_struct *leader = KERNEL_POINTER(task, group_leader);
        struct abi_name name = {};

        if (setting_names == ABI_NAMES_NONE || BPF_CORE_READ_STR_INTO(&name.comm, leader, comm) < 0)
                return false;
        if (setting_names == ABI_NAMES_COMM_USER)
                name.uid = identity_user(leader);
        return bpf_map_lookup_elem(&rejected_names, &name);
}

static __always_inline struct recent *select_recent(struct counters *counters, uint32_t tgid) {
        /* Masked twice, as in memory.bpf.h. */
        uint32_t index = tgid & (N_RECENT - 1);

        barrier_var(index);
        index &= N_RECENT - 1;
        return &counters->recent[index];
}

static __always_inline bool select_is_recent(const struct recent *recent, const struct identity *identity) {
        return recent->version == rows_version && recent->tgid == identity->tgid &&
                select_is_start(&recent->row, identity->start_time_ns);
}

/*
 * The version is read before the row: a row that changes meanwhile is read again. A plain load might come
 * after those of the row on arm64; an atomic addition whose result is used orders both.
 */
static __attribute__((noinline)) void select_read(struct task_struct *task, const struct identity *identity,
                                                  struct recent *recent) {
        const struct abi_process *row;

        recent->version = __sync_fetch_and_add(&rows_version, 0);
        if (recent->tgid != identity->tgid)
                recent->told = 0;
        recent->tgid = identity->tgid;
        recent->nodes = 0;
        recent->look_interval_ms = 0;
        recent->has_one_id = !KERNEL_BEHIND(KERNEL_POINTER(task, thread_pid), level);
        row = bpf_map_lookup_elem(&processes, &identity->tgid);
        recent->has_row = row && select_copy(row, identity->start_time_ns, &recent->row);
        if (!recent->has_row)
                recent->row = (struct abi_process){ .state = setting_default_state };
}

/*
 * Return: what is known of the process of a tick that is taken, with a row of zeros but for `state` where
 * there is none; NULL = it is not.
 */
static __always_inline struct recent *select_process(struct task_struct *task,
                                                     const struct identity *identity,
                                                     struct counters *counters) {
        struct recent *recent = select_recent(counters, identity->tgid);
        const struct abi_process *process = &recent->row;

        if (!select_is_recent(recent, identity))
                select_read(task, identity, recent);
        if (!recent->has_row && process->state == ABI_STATE_UNDECIDED &&
            (select_is_helper(task) || select_is_rejected(task)))
                return NULL;
        if (process->state == ABI_STATE_TARGET ? setting_watch_targets && select_may_publish(process)
                                               : setting_watch_non_targets)
                select_watch(task, identity, recent);
        return process->state == ABI_STATE_REJECTED ? NULL : recent;
}

/* SPDX-License-Identifier: GPL-2.0-only */
#pragma once

/*
 * Address Spaces
 *
 * A set of nodes belongs to an address space, and not to a process id. The space of a target is the
 * generation of its row, which no other program ever has. A forked child has its parent's space until it
 * changes it, so it is walked by its parent's rows from its first instruction on, long before the daemon
 * knows of it:
 *
 *     row_nodes     space 71: program, libc, libssl        written by the daemon for 4711
 *     processes     4711 → generation 71
 *     forks         4712 → space 71, nodes 9003            written here as 4711 forks
 *
 *     sample of 4712    no row; its fork says space 71, whose nodes are still number 9003: walked by them
 *     sample of 4711    its row says space 71
 *
 * A fork is void once the child runs another program or ends (deleted here), and once its parent has other
 * nodes: what the parent maps later is not in the child. When the daemon has read the child's own mappings,
 * its row names a space of its own. Until then, code that the child has mapped itself lies where its parent
 * has none: such a walk ends outside all mappings. Where it lies over code of the parent, the daemon voids
 * the sample (host/sampling/discover/mapping-tracker.h).
 *
 * A row is void as soon as its process runs another program, and until the daemon has heard of it.
 */

#include "walk/select.bpf.h"
#include "walk/slots.bpf.h"

/* Fields in the order in which a child is found; generation is the number of the set of nodes. */
struct fork {
        uint64_t start_time_ns;         /* start of the child */
        uint64_t space;
        uint64_t generation;
};

/*
 * Forked children of targets, by tgid. At the cap the child goes that was neither sampled nor forked for
 * longest: it is walked without rows until the daemon knows it. So children that only sleep take no place of
 * those that run.
 */
struct {
        __uint(type, BPF_MAP_TYPE_LRU_HASH);
        __uint(max_entries, ABI_MAX_FORKS);
        __type(key, uint32_t);
        __type(value, struct fork);
} forks SEC(".maps");

/*
 * By which nodes a process is walked. The walk asks for them where it searches a mapping, which few walks do:
 * what is in the cache of rules needs their generation alone.
 */
struct space {
        uint64_t number;
        uint64_t generation;            /* generation of the set of nodes; 0 = there are none */
        uint64_t version;               /* rows_version before the generation was read; by the caller */
};

static __always_inline uint64_t space_generation(uint64_t number) {
        const volatile struct unwind_node *root = rows_leaf(number, 0);

        return root ? root->generation : 0;
}

/* An element is recycled at once: what was read holds only if it is still the same child's at the end. */
static __always_inline void space_of_fork(uint32_t tgid, uint64_t start_time_ns, struct space *space) {
        const volatile struct fork *fork = bpf_map_lookup_elem(&forks, &tgid);
        uint64_t generation;

        if (!fork)
                return;
        space->number = fork->space;
        generation = fork->generation;
        if (fork->start_time_ns == start_time_ns && space_generation(space->number) == generation)
                space->generation = generation;
}

/* @knownp: the generation of the nodes of @process if it is known, else 0; it is noted there. */
static __always_inline void space_find(const struct abi_process *process, uint32_t tgid,
                                       uint64_t start_time_ns, uint64_t *knownp, struct space *space) {
        space->generation = 0;
        if (process->generation && !(process->flags & ABI_PROCESS_REPLACED)) {
                space->number = process->generation;
                if (!*knownp)
                        *knownp = space_generation(space->number);
                space->generation = *knownp;
        }
        if (!space->generation && setting_default_state != ABI_STATE_REJECTED)
                space_of_fork(tgid, start_time_ns, space);
}

/* A process of that id ends, or runs another program. */
static __always_inline void space_leave(uint32_t tgid) {
        if (setting_default_state != ABI_STATE_REJECTED)
                bpf_map_delete_elem(&forks, &tgid);
}

static __always_inline void space_replace(uint32_t tgid) {
        struct abi_process *row = bpf_map_lookup_elem(&processes, &tgid);

        if (row && row->state == ABI_STATE_TARGET) {
                row->flags |= ABI_PROCESS_REPLACED;
                __sync_fetch_and_add(&rows_version, 1);
        }
        space_leave(tgid);
}

static __always_inline void space_over_cap(void) {
        struct counters *counters = counters_get();

        if (counters)
                __sync_fetch_and_add(&counters->values[COUNTER_FORKS_OVER_CAP], 1);
}

/* Runs in the parent. A new thread has its parent's tgid. */
SEC("raw_tp/sched_process_fork")
int watch_fork(const struct bpf_raw_tracepoint_args *context) {
        struct task_struct *parent = bpf_get_current_task_btf(),
                           *child = (struct task_struct *)context->args[1];
        const struct abi_process *row;
        struct identity identity = {};
        struct abi_process process = {};
        struct space space = {};
        struct fork fork = {};
        uint32_t tgid, ns_tgid;
        uint64_t nodes = 0;

        if (setting_default_state == ABI_STATE_REJECTED || BPF_CORE_READ(child, tgid) == parent->tgid ||
            !identity_read(parent, &identity))
                return 0;
        row = bpf_map_lookup_elem(&processes, &identity.tgid);
        if (row && row->state == ABI_STATE_TARGET)
                select_copy(row, identity.start_time_ns, &process);
        space_find(&process, identity.tgid, identity.start_time_ns, &nodes, &space);
        if (!space.generation || !slots_ids(child, &tgid, &ns_tgid))
                return 0;
        fork.start_time_ns = BPF_CORE_READ(child, start_boottime);
        fork.space = space.number;
        fork.generation = space.generation;
        if (bpf_map_update_elem(&forks, &tgid, &fork, BPF_ANY))
                space_over_cap();
        return 0;
}

/* SPDX-License-Identifier: GPL-2.0-only */
#pragma once

/*
 * Tables
 *
 * Every map that the sampler has. offcpu.bpf.c shares them, and has its own besides. Sizes that depend on the
 * machine or on options are set by the daemon before loading (daemon/host/sampling/sample/kernel-half.c).
 */

#include "border/abi.h"
#include "border/offcpu_abi.h"
#include "border/unwind_abi.h"

#include "walk/identity.bpf.h"
#include "walk/memory.bpf.h"
#include "walk/unwind.bpf.h"

enum {
        ROUND_ROW_STEPS = 2,            /* steps in one call of the walk's loop */
        ROUND_PYTHON_STEPS = 4,         /* entries of a chain in one call */
};

static __always_inline const uint8_t *rows_block(uint32_t table, uint32_t block);
static __always_inline const struct unwind_node *rows_leaf(uint64_t space, uint32_t leaf);
uint64_t rows_rule(uint32_t table, uint64_t offset);
#include "walk/rows.bpf.h"
#include "walk/rules.bpf.h"

/* Stack copies of this second (defer.bpf.h). */
struct defer_budget {
        uint64_t second;
        uint64_t bytes;
        uint64_t n_lost;                /* walks that left all known mappings */
};

static __always_inline struct rows_cache *hotspot_cache(void);
#include "runtimes/hotspot.bpf.h"
#include "runtimes/hotspot_bytes.bpf.h"
#include "runtimes/go.bpf.h"
#include "runtimes/python.bpf.h"
#include "runtimes/php.bpf.h"
#include "runtimes/ruby.bpf.h"
#include "runtimes/beam.bpf.h"
#include "runtimes/python_spans.bpf.h"
#include "runtimes/v8.bpf.h"
#include "runtimes/v8_spans.bpf.h"

enum {
        /*
         * Each frame is a step. So is each mark of Python's chain, and each evaluator whose frame gives its
         * place away, and each return probe. One step more finds that there is no room for another frame.
         */
        ROW_ROUNDS = (ABI_MAX_FRAMES + 2 * PYTHON_MAX_CHAIN + RULES_MAX_PROBES) / ROUND_ROW_STEPS + 1,
};

/* A sample under construction. */
struct scratch {
        /* address in the target; the size of the attributes is read from there at the end */
        uint64_t attributes_address;
        uint64_t calls;                 /* enum wake_call */
        struct defer_budget budget;
        /* registers of frame 0; the walk changes those of `unwind` */
        struct {
                uint64_t pc, sp, bp, bx;
        } leaf;
        uint64_t copied_from;           /* where the copy of a deferred walk begins */
        uint64_t has_runtime;           /* 1 = the process may have frames of a runtime */
        struct unwind unwind;
        struct rules rules;
        struct runtime_states states;
        struct identity identity;       /* ids of the thread that waits */
        struct abi_process process;     /* row of the thread that waits, or wakes one */
        /* offcpu.bpf.c's: the head of the sample; nothing may be between them */
        struct abi_wait wait;
        union {
                struct abi_sample sample;
                struct {
                        uint8_t header[sizeof(struct abi_sample)];
                        uint64_t frames[UNWIND_MAX_FRAMES];
                        /* for attributes and a task behind the last frame, and for what the verifier fears */
                        uint8_t room[ABI_MAX_ATTRIBUTES_SIZE + PYTHON_TASK_SIZE + 8];
                };
        };
};

/* Zeros behind its end. */
struct known_name {
        uint64_t words[2];
};

/*
 * Names of programs that were targets lately. Daemon writes (host/sampling/process/program-names.h), watchers
 * and sampler read: the next program of such a name is likely a target, too.
 */
struct {
        __uint(type, BPF_MAP_TYPE_HASH);
        __uint(map_flags, BPF_F_NO_PREALLOC);
        __uint(max_entries, ABI_MAX_PROGRAM_NAMES);
        __type(key, struct known_name);
        __type(value, uint32_t);
} known_names SEC(".maps");

/* Daemon writes (host/sampling/process/program-names.h), sampler reads. */
struct {
        __uint(type, BPF_MAP_TYPE_HASH);
        __uint(map_flags, BPF_F_NO_PREALLOC);
        __uint(max_entries, ABI_MAX_PROGRAM_NAMES);
        __type(key, struct abi_settled_name);
        __type(value, uint32_t);
} settled_names SEC(".maps");

/*
 * Processes that are profiled or rejected. Daemon writes, sampler reads. Only rows in use take memory; the
 * loader preallocates below Linux 6.1, which refuses NO_PREALLOC here.
 */
struct {
        __uint(type, BPF_MAP_TYPE_HASH);
        __uint(map_flags, BPF_F_NO_PREALLOC);
        __uint(max_entries, ABI_MAX_PROCESSES);
        __type(key, uint32_t);
        __type(value, struct abi_process);
} processes SEC(".maps");

/*
 * Processes without a row that may publish late. Sampler writes and reads. Forgetting the least used one
 * costs a needless notice.
 */
struct {
        __uint(type, BPF_MAP_TYPE_LRU_HASH);
        __uint(max_entries, 2048);
        __type(key, uint32_t);
        __type(value, struct abi_watch);
} non_targets SEC(".maps");

/* Names that no selector chooses. Daemon writes, sampler reads. A forgotten one costs a sample and a look. */
struct {
        __uint(type, BPF_MAP_TYPE_LRU_HASH);
        __uint(max_entries, ABI_MAX_NAMES);
        __type(key, struct abi_name);
        __type(value, uint8_t);
} rejected_names SEC(".maps");

/* A thread of a process with a ring. */
struct ring_thread {
        struct abi_span born;           /* content of the slot at the thread's birth */
        uint32_t tgid;
        uint32_t slot;
        uint32_t is_unwritten;          /* the slot has not changed since then */
        uint32_t reserved;
};

struct ring_slot {
        uint32_t tgid;
        uint32_t slot;
};

/*
 * State of a slot once a thread that shared it has died: its content may be that thread's, until another one
 * has written.
 */
enum { SLOT_TRUSTED, SLOT_LEFT_BEHIND, SLOT_LEFT_IDS };

struct ring_owners {
        uint32_t n;                     /* living threads with this slot */
        /* SLOT_*; LEFT_IDS: `ids` are what it held at the first sample after that death */
        uint32_t left;
        struct abi_span ids;
};

/*
 * Threads of processes with a ring, by tid (daemon's namespace). Birth and death of each are written here,
 * and by the daemon threads that were there before; the sampler reads. Over the cap: slots.bpf.h.
 */
struct {
        __uint(type, BPF_MAP_TYPE_HASH);
        __uint(map_flags, BPF_F_NO_PREALLOC);
        __uint(max_entries, ABI_RING_ENTRIES);
        __type(key, uint32_t);
        __type(value, struct ring_thread);
} ring_threads SEC(".maps");

/* Number of threads that share a slot. The same writers and reader. */
struct {
        __uint(type, BPF_MAP_TYPE_HASH);
        __uint(map_flags, BPF_F_NO_PREALLOC);
        __uint(max_entries, ABI_RING_ENTRIES);
        __type(key, struct ring_slot);
        __type(value, struct ring_owners);
} ring_slots SEC(".maps");

/* Holdings of a process with a ring in the two tables above. */
struct ring_holder {
        uint32_t n;                     /* entries in both */
        uint32_t overflowed;            /* an entry was refused: neighbours are not known */
        uint32_t group, user;           /* indexes in shares */
        /* 1 = a slot of this block has or had an entry that stays until the process ends (SLOTS_KEPT) */
        uint8_t kept[ABI_KEPT_BLOCKS];
};

/* By tgid, for as long as the process has a row. The same writers and reader. */
struct {
        __uint(type, BPF_MAP_TYPE_HASH);
        __uint(map_flags, BPF_F_NO_PREALLOC);
        __uint(max_entries, ABI_MAX_PROCESSES);
        __type(key, uint32_t);
        __type(value, struct ring_holder);
} ring_holders SEC(".maps");

/* Holdings of a control group, or of a user in one. */
struct shared {
        uint32_t n_rings;               /* entries of ring_threads and ring_slots */
        uint32_t n_leavers;
};

/* Control groups, and behind them users in one. Several may have one number; then they have one share. */
struct {
        __uint(type, BPF_MAP_TYPE_ARRAY);
        __uint(max_entries, 2 * ABI_RING_SHARES);
        __type(key, uint32_t);
        __type(value, struct shared);
} shares SEC(".maps");

/* Data that was sent of a process at its exit, until the process is reaped. */
struct leaver {
        uint64_t start_time_ns;
        uint64_t cpu_ns;
        uint32_t tgid;
        uint16_t group, user;           /* indexes in shares */
        char comm[KERNEL_COMM_SIZE];
};

/*
 * Leader's task_struct → leaver. Watchers write and read. Only entries in use take memory (as `processes`). A
 * target that is never reaped keeps its place. Who leaves when its share is used up has the last bit of its
 * CPU time told of no more.
 */
struct {
        __uint(type, BPF_MAP_TYPE_HASH);
        __uint(map_flags, BPF_F_NO_PREALLOC);
        __uint(max_entries, 4096);
        __type(key, uint64_t);
        __type(value, struct leaver);
} leavers SEC(".maps");

/*
 * Sampler's working memory; the BPF stack ends at 512 bytes. One per CPU: an event never interrupts another
 * one.
 */
struct {
        __uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
        __uint(max_entries, 1);
        __type(key, uint32_t);
        __type(value, struct scratch);
} scratches SEC(".maps");

/* A process that was sampled lately, as `processes` had it (select.bpf.h). */
struct recent {
        struct abi_process row;         /* without one: zeros, but for `state` and `watch` */
        uint64_t version;               /* rows_version as it was read; 0 = nothing was */
        uint64_t nodes;                 /* generation of its nodes then; 0 = not read, or there are none */
        uint32_t tgid;
        uint16_t has_row;
        uint16_t has_one_id;            /* threads are in no PID namespace but the first */
        uint64_t told;                  /* address space of it whose start was sent (start.bpf.h); 0 = none */
        uint32_t mount_namespace, has_group;    /* facts from that start */
        uint64_t runs;                  /* runs of rules that the last walk ended with: rows_runs.last */
        /* when its memory was looked at last, and until it is looked at again at least; 0 = at once */
        uint32_t looked_ms, look_interval_ms;
};

enum { N_RECENT = 16 };

/* Book of one event of page faults (faults.bpf.h). */
struct fault_book {
        uint64_t counted;               /* faults up to the last sample */
        uint64_t due;                   /* faults up to the next one, at least */
        uint64_t enabled_ns;            /* time that the event had been open, as it last ran the program */
};

/* Books of page faults. */
struct faults {
        struct fault_book books[2];     /* minor, major */
        uint64_t second, n_samples;     /* samples of this second, for the budget */
        uint64_t weight;                /* weight of the fault whose sample is being taken; 0 = a tick's is */
};

struct counters {
        uint64_t values[COUNTER_N_KERNEL];
        struct recent recent[N_RECENT]; /* the sampler's own */
        struct faults faults;           /* the sampler's own */
};

/* All programs write, daemon reads. One value with all counters: one look-up a sample. */
struct {
        __uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
        __uint(max_entries, 1);
        __type(key, uint32_t);
        __type(value, struct counters);
} counters SEC(".maps");

/* Sampler writes, daemon drains. The daemon sets its size from frequency and CPUs. */
struct {
        __uint(type, BPF_MAP_TYPE_RINGBUF);
        __uint(max_entries, 1 << 17);
} samples SEC(".maps");

/*
 * Stacks that the daemon will walk (defer.bpf.h), and starts (start.bpf.h). The sampler writes, the daemon
 * drains and sets the size.
 */
struct {
        __uint(type, BPF_MAP_TYPE_RINGBUF);
        __uint(max_entries, 1 << 12);
} stacks SEC(".maps");

/* All programs write, daemon drains. Apart from the samples, so that a storm of them loses no exit. */
struct {
        __uint(type, BPF_MAP_TYPE_RINGBUF);
        __uint(max_entries, 1 << 17);
} notices SEC(".maps");

/*
 * An empty table to iterate over: the walk's loop on kernels without bpf_loop (below 5.17). One value a
 * round.
 */
struct {
        __uint(type, BPF_MAP_TYPE_ARRAY);
        __uint(max_entries, ROW_ROUNDS);
        __type(key, uint32_t);
        __type(value, uint32_t);
} rounds SEC(".maps");

/*
 * A table of rows: 4 KiB a value, as many as the file needs. Daemon fills it through mmap, before it is in
 * `row_tables`.
 */
struct row_table {
        __uint(type, BPF_MAP_TYPE_ARRAY);
        __uint(map_flags, BPF_F_MMAPABLE | BPF_F_INNER_MAP);    /* the latter: sizes may differ (5.10) */
        __uint(max_entries, 1);
        __uint(key_size, sizeof(uint32_t));
        __uint(value_size, UNWIND_BLOCK_SIZE);
};

/* Id of a table → the table. Daemon writes, sampler reads. 8 bytes a slot. */
struct {
        __uint(type, BPF_MAP_TYPE_ARRAY_OF_MAPS);
        __uint(max_entries, UNWIND_MAX_TABLES);
        __type(key, uint32_t);
        __array(values, struct row_table);
} row_tables SEC(".maps");

/*
 * Tables of an address space, and their addresses. Daemon writes, sampler reads. Only nodes in use take
 * memory; the loader preallocates below Linux 6.1.
 */
struct {
        __uint(type, BPF_MAP_TYPE_HASH);
        __uint(map_flags, BPF_F_NO_PREALLOC);
        __uint(max_entries, UNWIND_MAX_NODES);
        __type(key, struct unwind_node_key);
        __type(value, struct unwind_node);
} row_nodes SEC(".maps");

/*
 * Sampler writes and reads: rules of the addresses seen last. Entries of dead generations are never found
 * again.
 */
struct {
        __uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
        __uint(max_entries, 1);
        __type(key, uint32_t);
        __type(value, struct rows_cache);
} row_caches SEC(".maps");

/*
 * Processes that run HotSpot, by tgid. Daemon writes, sampler reads; nothing is looked up before it has set
 * `runtimes_on`. Only entries in use take memory; the loader preallocates below Linux 6.1.
 */
struct {
        __uint(type, BPF_MAP_TYPE_HASH);
        __uint(map_flags, BPF_F_NO_PREALLOC);
        __uint(max_entries, RUNTIME_MAX_PROCESSES);
        __type(key, uint32_t);
        __type(value, struct hotspot_process);
} hotspot_processes SEC(".maps");

/*
 * Slot 0: sample_runtimes, once the daemon has loaded it (sampler.bpf.c). It is entered while `runtimes_on` is
 * set, and not before. Slot 1: sample, for programs of page faults (faults.bpf.h).
 */
struct {
        __uint(type, BPF_MAP_TYPE_PROG_ARRAY);
        __uint(max_entries, 2);
        __type(key, uint32_t);
        __type(value, uint32_t);
} runtime_sampler SEC(".maps");
/* Processes that run Go, by tgid. As `hotspot_processes`. */
struct {
        __uint(type, BPF_MAP_TYPE_HASH);
        __uint(map_flags, BPF_F_NO_PREALLOC);
        __uint(max_entries, RUNTIME_MAX_PROCESSES);
        __type(key, uint32_t);
        __type(value, struct go_process);
} go_processes SEC(".maps");

/* Sampler's working memory for goroutines. */
struct {
        __uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
        __uint(max_entries, 1);
        __type(key, uint32_t);
        __type(value, struct go_state);
} go_states SEC(".maps");

/* Global functions, as rows_rule(). */
__attribute__((noinline)) int go_put_slice(struct go_state *state, uint32_t index) {
        return state && go_do_put_slice(state, index);
}

__attribute__((noinline)) int go_put_bucket(struct go_state *state, uint32_t index) {
        if (state)
                go_do_put_bucket(state, index);
        return 0;
}

__attribute__((noinline)) int go_chunk(struct go_state *state) {
        return state && go_do_chunk(state);
}

__attribute__((noinline)) int go_step(struct go_state *state) {
        return state && go_do_step(state);
}

__attribute__((noinline)) int go_read(const struct go_process *process, struct go_state *state,
                                      uint64_t place) {
        return process && state ? go_do_read(process, state, place) : GO_END_UNREADABLE;
}

__attribute__((noinline)) int go_read_custom(struct go_state *state, uint64_t labels) {
        return state ? go_do_read_custom(state, labels) : GO_END_UNREADABLE;
}

static __always_inline struct rows_cache *hotspot_cache(void) {
        uint32_t zero = 0;

        return bpf_map_lookup_elem(&row_caches, &zero);
}

/* A global function, as rows_rule(). Return: whether the walk goes on. */
__attribute__((noinline)) int hotspot_step(struct unwind *unwind, struct rules *rules,
                                           const struct hotspot_process *process, struct hotspot *state,
                                           struct hotspot_words *frames) {
        struct hotspot_step step = { .unwind = unwind, .rules = rules, .process = process, .state = state,
                                     .frames = frames };

        if (!unwind || !rules || !process || !state || !frames)
                return 0;
        return hotspot_do_step(&step);
}

static __always_inline uint64_t probe_trampoline(const struct task_struct *task) {
        if (!bpf_core_field_exists(struct mm_struct, uprobes_state) ||
            !bpf_core_field_exists(struct xol_area, vaddr))
                return 0;
        return BPF_CORE_READ(task, mm, uprobes_state.xol_area, vaddr);
}

static inline uint64_t rules_probe_trampoline(void) {
        return probe_trampoline(bpf_get_current_task_btf());
}

static __always_inline uint64_t probe_first(const struct task_struct *task) {
        if (!bpf_core_field_exists(struct task_struct, utask) ||
            !bpf_core_field_exists(struct uprobe_task, return_instances))
                return 0;
        return (uint64_t)BPF_CORE_READ(task, utask, return_instances);
}

static inline uint64_t rules_probe_first(void) {
        return probe_first(bpf_get_current_task_btf());
}

static inline bool rules_probe_read(uint64_t at, struct rules_probe *probe) {
        const struct return_instance *instance = (const struct return_instance *)at;

        if (!bpf_core_field_exists(struct return_instance, orig_ret_vaddr) ||
            !bpf_core_field_exists(struct return_instance, stack) ||
            !bpf_core_field_exists(struct return_instance, next))
                return false;
        probe->stack = BPF_CORE_READ(instance, stack);
        probe->address = BPF_CORE_READ(instance, orig_ret_vaddr);
        probe->next = (uint64_t)BPF_CORE_READ(instance, next);
        return true;
}

static inline uint64_t rules_probe_stepped(uint64_t pc) {
        struct task_struct *task = bpf_get_current_task_btf();
        uint64_t at;

        if (!bpf_core_field_exists(struct task_struct, utask) ||
            !bpf_core_field_exists(struct uprobe_task, xol_vaddr) ||
            !bpf_core_field_exists(struct uprobe_task, vaddr))
                return 0;
        at = pc - BPF_CORE_READ(task, utask, xol_vaddr);
        return at < RULES_PROBE_STEP ? BPF_CORE_READ(task, utask, vaddr) + at : 0;
}

static inline bool rules_hotspot(const struct rows_walk *walk) {
        return hotspot_step(walk->unwind, walk->rules, walk->hotspot, &walk->states->hotspot,
                            (struct hotspot_words *)walk->frames);
}

/*
 * Processes that run CPython, by tgid. Daemon writes, sampler reads, under the same switch. Only entries in
 * use take memory; the loader preallocates below Linux 6.1.
 */
struct {
        __uint(type, BPF_MAP_TYPE_HASH);
        __uint(map_flags, BPF_F_NO_PREALLOC);
        __uint(max_entries, RUNTIME_MAX_PROCESSES);
        __type(key, uint32_t);
        __type(value, struct python_process);
} python_processes SEC(".maps");

struct python_thread_key {
        uint64_t generation;            /* generation of the process' row */
        uint64_t tid;
};

struct python_thread {
        uint64_t state;                 /* PyThreadState; 0 = none was found */
        uint64_t interpreter;           /* the only one there was; 0 = there were several */
        uint64_t head;                  /* first state of its list then */
        uint64_t time_ns;               /* time of the search */
};

/* Thread states that were found. Sampler writes and reads. Forgetting the least used one costs a search. */
struct {
        __uint(type, BPF_MAP_TYPE_LRU_HASH);
        __uint(max_entries, 1024);
        __type(key, struct python_thread_key);
        __type(value, struct python_thread);
} python_threads SEC(".maps");

/* Chains of this CPU's sample: apart from its scratch, whose size has a limit of 32 KiB. */
struct {
        __uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
        __uint(max_entries, 1);
        __type(key, uint32_t);
        __type(value, struct python);
} pythons SEC(".maps");

/* The way to the span of this CPU's sample. */
struct {
        __uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
        __uint(max_entries, 1);
        __type(key, uint32_t);
        __type(value, struct python_span_walk);
} python_span_walks SEC(".maps");

/* Global functions, as rows_rule(). Return: whether there is more to do. */
__attribute__((noinline)) int python_hamt_step(const struct python_spans *spans,
                                               struct python_span_walk *walk) {
        return spans && walk && python_hamt_do_step(spans, walk);
}

__attribute__((noinline)) int python_keys_step(const struct python_spans *spans,
                                               struct python_span_walk *walk) {
        return spans && walk && python_keys_do_step(spans, walk);
}

/* A global function, as well. Return: enum sdk_result. */
__attribute__((noinline)) int python_span_read(const struct python_spans *spans,
                                               struct python_span_walk *walk, uint64_t thread,
                                               struct abi_span *span) {
        return spans && walk && span
                ? (int)python_span_result(walk, python_span_do_read(spans, walk, thread, span))
                : SDK_RESULT_TYPE;
}

__attribute__((noinline)) int python_look_at(struct python *python, const struct python_process *process) {
        return python && process && python_look(python, process);
}

__attribute__((noinline)) int python_chain_at(struct python *python, const struct python_process *process) {
        if (!python || !process)
                return 0;
#pragma unroll
        for (int i = 0; i < ROUND_PYTHON_STEPS; i++)
                if (!python_chain_step(python, process))
                        return 0;
        return 1;
}

__attribute__((noinline)) int python_write_at(struct unwind *unwind, struct python *python,
                                              struct hotspot_words *frames) {
        if (!unwind || !python || !frames)
                return 0;
#pragma unroll
        for (int i = 0; i < ROUND_PYTHON_STEPS; i++) {
                if (!python_write(unwind, python, frames->words))
                        return 0;
                if (python->mode == PYTHON_WAITS)
                        return 1;
        }
        return 1;
}

static inline bool python_write_one(const struct rows_walk *walk) {
        return python_write_at(walk->unwind, walk->python, (struct hotspot_words *)walk->frames);
}

/* Processes that run PHP, by tgid. As `python_processes`. */
struct {
        __uint(type, BPF_MAP_TYPE_HASH);
        __uint(map_flags, BPF_F_NO_PREALLOC);
        __uint(max_entries, RUNTIME_MAX_PROCESSES);
        __type(key, uint32_t);
        __type(value, struct php_process);
} php_processes SEC(".maps");

__attribute__((noinline)) int php_chain_at(struct python *python, const struct php_process *process,
                                           const struct rules *rules) {
        return python && process && rules && php_chain_step(python, process, rules->registers);
}

/* Processes that run Ruby, by tgid. As `python_processes`. */
struct {
        __uint(type, BPF_MAP_TYPE_HASH);
        __uint(map_flags, BPF_F_NO_PREALLOC);
        __uint(max_entries, RUNTIME_MAX_PROCESSES);
        __type(key, uint32_t);
        __type(value, struct ruby_process);
} ruby_processes SEC(".maps");

__attribute__((noinline)) int ruby_chain_at(struct python *python, const struct ruby_process *process) {
        return python && process && ruby_chain_step(python, process);
}

/* Processes that run Erlang, by tgid. As `python_processes`. */
struct {
        __uint(type, BPF_MAP_TYPE_HASH);
        __uint(map_flags, BPF_F_NO_PREALLOC);
        __uint(max_entries, RUNTIME_MAX_PROCESSES);
        __type(key, uint32_t);
        __type(value, struct beam_process);
} beam_processes SEC(".maps");

/* The way over a stack of Erlang, of this CPU's sample. */
struct {
        __uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
        __uint(max_entries, 1);
        __type(key, uint32_t);
        __type(value, struct beam);
} beams SEC(".maps");

/* Global functions, as rows_rule(). */
__attribute__((noinline)) int beam_take_at(struct beam *beam, const struct beam_process *process,
                                           struct unwind *unwind, struct hotspot_words *frames) {
        if (!beam || !process || !unwind || !frames)
                return 0;
#pragma unroll
        for (int i = 0; i < BEAM_STEP_WORDS; i++)
                if (!beam_take(beam, process, unwind, frames->words))
                        return 0;
        return 1;
}

__attribute__((noinline)) int beam_begin_at(struct beam *beam, const struct beam_process *process,
                                            struct unwind *unwind, const struct rules *rules,
                                            struct hotspot_words *frames) {
        return beam && process && unwind && rules && frames &&
                beam_begin(beam, process, unwind, rules, frames->words);
}

__attribute__((noinline)) int beam_find_task_at(struct beam *beam, const struct beam_process *process) {
        return beam && process && beam_find_task(beam, process);
}

/* Processes that run V8, by tgid. As `python_processes`. */
struct {
        __uint(type, BPF_MAP_TYPE_HASH);
        __uint(map_flags, BPF_F_NO_PREALLOC);
        __uint(max_entries, RUNTIME_MAX_PROCESSES);
        __type(key, uint32_t);
        __type(value, struct v8_process);
} v8_processes SEC(".maps");

/* The way to the span of this CPU's sample. */
struct {
        __uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
        __uint(max_entries, 1);
        __type(key, uint32_t);
        __type(value, struct v8_span_walk);
} v8_span_walks SEC(".maps");

/* Global functions, as rows_rule(). What they return is that of v8_span_do_…(). */
__attribute__((noinline)) int v8_span_open(struct v8_span_walk *walk, uint64_t tagged) {
        return walk ? v8_span_do_open(walk, tagged) : -1;
}

__attribute__((noinline)) int v8_span_property(struct v8_span_walk *walk, uint32_t name, uint32_t index) {
        return walk ? v8_span_do_property(walk, name, index) : -1;
}

__attribute__((noinline)) int v8_span_find(struct v8_span_walk *walk, uint32_t name) {
        return walk ? v8_span_do_find(walk, name) : -1;
}

__attribute__((noinline)) int v8_span_table(const struct v8_spans *spans, struct v8_span_walk *walk,
                                            uint64_t tagged) {
        return spans && walk ? v8_span_do_table(spans, walk, tagged) : -1;
}

__attribute__((noinline)) int v8_span_store(const struct v8_spans *spans, struct v8_span_walk *walk,
                                            uint32_t index) {
        return spans && walk ? v8_span_do_store(spans, walk, index) : -1;
}

__attribute__((noinline)) int v8_span_pair(const struct v8_spans *spans, struct v8_span_walk *walk,
                                           uint32_t index) {
        return spans && walk ? v8_span_do_pair(spans, walk, index) : -1;
}

__attribute__((noinline)) int v8_span_digits(struct v8_span_walk *walk, uint64_t tagged, uint32_t n) {
        return walk && v8_span_do_digits(walk, tagged, n);
}

/* Global functions, as rows_rule(). Three, so that none has what the others have on the stack. */
__attribute__((noinline)) int v8_find(struct unwind *unwind, struct rules *rules,
                                      const struct v8_process *process, struct v8 *state,
                                      struct hotspot_words *frames) {
        struct rows_walk walk = { .unwind = unwind, .rules = rules };
        const struct v8_step step = { .unwind = unwind, .rules = rules, .process = process, .state = state,
                                      .frames = frames };

        if (!unwind || !rules || !process || !state || !frames)
                return 0;
        walk.cache = hotspot_cache();
        return walk.cache ? v8_do_find(&step, &walk) : 0;
}

__attribute__((noinline)) int v8_frame_at(struct unwind *unwind, struct rules *rules,
                                          const struct v8_process *process, struct v8 *state,
                                          struct hotspot_words *frames) {
        const struct v8_step step = { .unwind = unwind, .rules = rules, .process = process, .state = state,
                                      .frames = frames };

        return unwind && rules && process && state && frames && v8_frame(&step);
}

__attribute__((noinline)) int v8_leaf_at(struct unwind *unwind, struct rules *rules,
                                         const struct v8_process *process, struct v8 *state,
                                         struct hotspot_words *frames) {
        const struct v8_step step = { .unwind = unwind, .rules = rules, .process = process, .state = state,
                                      .frames = frames };

        return unwind && rules && process && state && frames ? v8_do_leaf(&step) : 0;
}

static inline bool rules_v8(const struct rows_walk *walk) {
        struct hotspot_words *frames = (struct hotspot_words *)walk->frames;
        int r = v8_find(walk->unwind, walk->rules, walk->v8, &walk->states->v8, frames);

        if (r == V8_FOUND)
                r = v8_leaf_at(walk->unwind, walk->rules, walk->v8, &walk->states->v8, frames);
        return r == V8_FOUND ? v8_frame_at(walk->unwind, walk->rules, walk->v8, &walk->states->v8, frames)
                             : r;
}

static __always_inline const uint8_t *rows_block(uint32_t table, uint32_t block) {
        void *blocks = bpf_map_lookup_elem(&row_tables, &table);

        return blocks ? bpf_map_lookup_elem(blocks, &block) : NULL;
}

/*
 * A global function: the verifier follows it once, not once for every path that leads to it. It also keeps
 * the walk's loop short: in most samples the processor's caches are cold, and each line of code costs as much
 * as one of data.
 */
__attribute__((noinline)) uint64_t rows_rule(uint32_t table, uint64_t offset) {
        return rows_read_table(table, offset);
}

/*
 * An update of a hash map puts the new element at the head of its chain and then takes the old one away: a
 * reader that has passed the head and has not reached the old one meets neither. The second look meets the
 * new one.
 */
static __always_inline const struct unwind_node *rows_leaf(uint64_t space, uint32_t leaf) {
        struct unwind_node_key key = unwind_node_key(space, leaf);
        const struct unwind_node *node = bpf_map_lookup_elem(&row_nodes, &key);

        return node ? node : bpf_map_lookup_elem(&row_nodes, &key);
}

static __always_inline struct counters *counters_get(void) {
        uint32_t zero = 0;

        return bpf_map_lookup_elem(&counters, &zero);
}

/*
 * Adds @n to a counter, in parts that objects share. While a program of the sampler's runs, none other counts
 * on its CPU. COUNTS_ATOMICALLY is for an object whose programs a tick or another thread may interrupt.
 */
static __always_inline void counters_count(struct counters *counters, uint32_t counter, uint64_t n) {
#ifdef COUNTS_ATOMICALLY
        __sync_fetch_and_add(&counters->values[counter], n);
#else
        counters->values[counter] += n;
#endif
}

/* Adds 1 by an atomic instruction: for programs beside which a tick may count, too. */
static __always_inline void counters_add(enum counter counter) {
        struct counters *counters = counters_get();

        if (counters)
                __sync_fetch_and_add(&counters->values[counter], 1);
}

/* SPDX-License-Identifier: GPL-2.0-only */
#pragma once

/*
 * Allocations
 *
 * With --allocations, programs that tell some of their allocations by the probe otel_memory:alloc (USDT) have
 * them as samples, with stack and span. The producer in the program draws which; its probe says pointer, size
 * and how many bytes of allocations this one stands for. The program is in the object of crashes, whose walk
 * is the same code, and is loaded alone. It is attached to the probes of files that targets have mapped as
 * code (host/sampling/sample/alloc-probes.c).
 *
 *     mov %rax, %rdi; …; nop  ─ breakpoint ─▶ allocation: target? budget, arguments, span, walk ─▶ ring
 *
 * A probe is a place of a file, so processes that are no targets come here as well, and leave at once.
 *
 * The kernel runs a program at a probe while other threads may take the CPU. So it notes that it uses the
 * CPU's working memory, which is its own: what comes meanwhile is left out and counted. Only an allocation of
 * a target within its budget gets that far. A tick may come in between, too, and has other memory.
 *
 * A target may hit its probe as often as it likes, with any arguments. A process has ALLOC_PROCESS_BUDGET of
 * them a second, and a CPU ALLOC_CPU_BUDGET, in shares, so that the ring is there for the ticks of others;
 * values are bounded.
 *
 * otel_memory:free says that such an allocation goes. That is an address, which needs neither stack nor
 * working memory: a short record goes into the same ring, in the order of the calls. A free that is lost
 * would leave its allocation alive for ever. So each is counted for its process, and the daemon believes
 * nothing of what that process had (host/sampling/aggregate/live-set.c).
 */

#include "border/alloc_abi.h"
#include "walk/entry-walk.bpf.h"
#include "walk/share-budget.bpf.h"
#include "walk/wake.bpf.h"

enum {
        ALLOC_PROCESS_BUDGET = 1000,
        ALLOC_CPU_BUDGET = 2000,
        FREE_PROCESS_BUDGET = 4000,
        FREE_CPU_BUDGET = 8000,
        FREE_MAX_LOSERS = ABI_MAX_PROCESSES / 2,        /* all targets */
        ALLOC_MAX_PROCESSES = 1024,
#if UNWIND_ARM64
        ALLOC_COPIED_REGISTERS = 34,    /* struct user_pt_regs, with which pt_regs begins */
#else
        ALLOC_COPIED_REGISTERS = 21,    /* struct pt_regs */
#endif
};

/* By cookie. Daemon writes before it attaches. */
struct {
        __uint(type, BPF_MAP_TYPE_ARRAY);
        __uint(max_entries, ALLOC_MAX_PROBES);
        __type(key, uint32_t);
        __type(value, struct alloc_probe);
} alloc_probes SEC(".maps");

struct alloc_budget {
        uint64_t second;
        uint64_t n;
};

/* Processes that allocate, and that free. The least used may go, and begins again. */
struct {
        __uint(type, BPF_MAP_TYPE_LRU_HASH);
        __uint(max_entries, ALLOC_MAX_PROCESSES);
        __type(key, uint32_t);
        __type(value, struct alloc_budget);
} alloc_budgets SEC(".maps");

/* Targets that have lost frees. The daemon removes those that are none any more. */
struct {
        __uint(type, BPF_MAP_TYPE_HASH);
        __uint(max_entries, FREE_MAX_LOSERS);
        __type(key, uint32_t);
        __type(value, struct alloc_losses);
} free_losses SEC(".maps");

struct alloc_state {
        uint64_t is_used;
        struct share_budget budget, free_budget;
        uint64_t registers[ALLOC_N_REGISTERS];
};

struct {
        __uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
        __uint(max_entries, 1);
        __type(key, uint32_t);
        __type(value, struct alloc_state);
} alloc_states SEC(".maps");

/* Two CPUs may begin a second of a process at once: some more are taken then. */
static __always_inline bool alloc_count(struct alloc_budget *budget, uint64_t second, uint64_t most) {
        if (budget->second != second) {
                budget->second = second;
                budget->n = 0;
        }
        return __sync_fetch_and_add(&budget->n, 1) < most;
}

/* A process has a number for what it allocates, and another one for what it frees. */
static __attribute__((noinline)) bool alloc_admit(struct alloc_state *state, uint32_t tgid, bool is_free) {
        uint64_t second = bpf_ktime_get_ns() >> BUDGET_SECOND_SHIFT;
        struct alloc_budget *budget, first = { .second = second, .n = 1 };
        uint32_t key = is_free ? ~tgid : tgid;

        if (!state)
                return false;
        budget = bpf_map_lookup_elem(&alloc_budgets, &key);
        if (!budget)
                bpf_map_update_elem(&alloc_budgets, &key, &first, BPF_NOEXIST);
        else if (!alloc_count(budget, second, is_free ? FREE_PROCESS_BUDGET : ALLOC_PROCESS_BUDGET))
                return false;
        return is_free ? budget_take(&state->free_budget, FREE_CPU_BUDGET)
                       : budget_take(&state->budget, ALLOC_CPU_BUDGET);
}

/* @base: the register that the argument lies in, or at. Return: false = it cannot be read. */
static __always_inline bool alloc_argument_from(const struct alloc_argument *argument, uint64_t base,
                                                uint64_t *valuep) {
        uint64_t value = (uint64_t)argument->value, bits = argument->size * 8;

        if (argument->place == ALLOC_REGISTER)
                value = base;
        else if (argument->place == ALLOC_MEMORY &&
                 bpf_probe_read_user(&value, sizeof(value), (const void *)(base + value)))
                return false;
        if (bits && bits < 64)
                value = argument->is_signed ? (uint64_t)((int64_t)(value << (64 - bits)) >> (64 - bits))
                                            : value << (64 - bits) >> (64 - bits);
        *valuep = value;
        return true;
}

/* Return: as above. */
static __always_inline bool alloc_argument_read(const struct alloc_state *state,
                                                const struct alloc_argument *argument, uint64_t *valuep) {
        uint64_t index = argument->index & (ALLOC_N_REGISTERS - 1);

        barrier_var(index);
        index &= ALLOC_N_REGISTERS - 1;
        return alloc_argument_from(argument, state->registers[index], valuep);
}

/* Return: false = the arguments are none that an allocation can have. */
static __always_inline bool alloc_facts(struct task_struct *task, const struct alloc_probe *probe,
                                        struct alloc_state *state, struct scratch *scratch) {
        struct abi_allocation *allocation = (struct abi_allocation *)scratch->frames;
        uint64_t address, size, weight;

        if (bpf_probe_read_kernel(state->registers, ALLOC_COPIED_REGISTERS * sizeof(uint64_t),
                                  (const void *)bpf_task_pt_regs(task)) ||
            !alloc_argument_read(state, &probe->arguments[0], &address) ||
            !alloc_argument_read(state, &probe->arguments[1], &size) ||
            !alloc_argument_read(state, &probe->arguments[2], &weight) || size > ALLOC_MAX_SIZE || !weight ||
            weight > ALLOC_MAX_WEIGHT)
                return false;
        scratch->sample.kind = ABI_KIND_ALLOC;
        scratch->sample.value = weight;
        allocation->address = address;
        allocation->size = size;
        allocation->has_free = probe->has_frees;
        return true;
}

static __always_inline void alloc_emit(struct scratch *scratch, struct counters *counters) {
        uint64_t n = scratch->unwind.n_frames, size;

        if (n > UNWIND_MAX_FRAMES)
                n = UNWIND_MAX_FRAMES;
        size = n * sizeof(uint64_t) + attributes_part(scratch, n, counters) + sizeof(scratch->sample);
        if (bpf_ringbuf_output(&samples, &scratch->sample, size, wake_for_sample(counters, WAKE_CALL_NONE)))
                counters_add(COUNTER_ALLOCATIONS_RING_FULL);
        else
                counters_add(COUNTER_ALLOCATIONS);
}

/* Return: NULL = the process is no target. */
static __always_inline const struct abi_process *alloc_target(struct task_struct *task,
                                                              struct identity *identity) {
        const struct abi_process *row;

        if (!identity_read(task, identity))
                return NULL;
        row = bpf_map_lookup_elem(&processes, &identity->tgid);
        return row && row->state == ABI_STATE_TARGET && select_is_start(row, identity->start_time_ns) ? row
                                                                                                   : NULL;
}

/* @row: may be another process' by now. */
static __always_inline void alloc_take(struct task_struct *task, const struct abi_process *row,
                                       const struct alloc_probe *probe, struct alloc_state *state,
                                       struct scratch *scratch, struct counters *counters) {
        if (!select_copy(row, scratch->identity.start_time_ns, &scratch->process) ||
            scratch->process.state != ABI_STATE_TARGET)
                return;
        record_begin(&scratch->sample, task, &scratch->identity, &scratch->process, identity_innermost(task));
        scratch->sample.n_kernel = 0;
        scratch->sample.is_copied = 0;
        if (!alloc_facts(task, probe, state, scratch)) {
                counters_add(COUNTER_ALLOCATIONS_UNREADABLE);
                return;
        }
        context_read(&scratch->process, scratch);
        sdk_span_part(&scratch->sample);
        obi_part(&scratch->process, &scratch->sample);
        entry_walk(task, &scratch->process, scratch, ABI_ALLOCATION_WORDS, setting_depth);
        alloc_emit(scratch, counters);
}

SEC("uprobe")
int allocation(void *context) {
        struct task_struct *task = bpf_get_current_task_btf();
        uint32_t index = (uint32_t)bpf_get_attach_cookie(context), zero = 0;
        const struct alloc_probe *probe = bpf_map_lookup_elem(&alloc_probes, &index);
        struct alloc_state *state = bpf_map_lookup_elem(&alloc_states, &zero);
        struct scratch *scratch = bpf_map_lookup_elem(&scratches, &zero);
        struct counters *counters = counters_get();
        const struct abi_process *row;
        struct identity identity = {};

        if (!probe || !state || !scratch || !counters)
                return 0;
        row = alloc_target(task, &identity);
        if (!row)
                return 0;
        if (!alloc_admit(state, identity.tgid, false)) {
                counters_add(COUNTER_ALLOCATIONS_BUDGET);
                return 0;
        }
        if (__sync_val_compare_and_swap(&state->is_used, 0, 1)) {
                counters_add(COUNTER_ALLOCATIONS_NESTED);
                return 0;
        }
        scratch->identity = identity;
        alloc_take(task, row, probe, state, scratch, counters);
        __sync_val_compare_and_swap(&state->is_used, 1, 0);
        return 0;
}

static __always_inline void free_lose(const struct identity *identity) {
        const struct alloc_losses first = { .start_time_ns = identity->start_time_ns, .n = 1 };
        struct alloc_losses *losses = bpf_map_lookup_elem(&free_losses, &identity->tgid);

        if (!losses) {
                if (!bpf_map_update_elem(&free_losses, &identity->tgid, &first, BPF_NOEXIST))
                        return;
                /* another thread has lost the first one meanwhile, or there is no room */
                losses = bpf_map_lookup_elem(&free_losses, &identity->tgid);
        }
        if (losses && losses->start_time_ns == first.start_time_ns)
                __sync_fetch_and_add(&losses->n, 1);
        else if (!losses || bpf_map_update_elem(&free_losses, &identity->tgid, &first, BPF_ANY))
                counters_add(COUNTER_FREES_LOSERS_FULL);
}

/* Return: false = it cannot be read. */
static __always_inline bool free_address(struct task_struct *task, const struct alloc_argument *argument,
                                         uint64_t *addressp) {
        const uint64_t *registers = (const void *)bpf_task_pt_regs(task);
        uint64_t index = argument->index & (ALLOC_N_REGISTERS - 1), base;

        return index < ALLOC_COPIED_REGISTERS &&
                !bpf_probe_read_kernel(&base, sizeof(base), registers + index) &&
                alloc_argument_from(argument, base, addressp);
}

/* Return: false = it is lost, and counted. */
static __always_inline bool free_take(struct task_struct *task, const struct abi_process *row,
                                      const struct alloc_probe *probe, struct alloc_state *state,
                                      const struct identity *identity, struct counters *counters) {
        const volatile uint64_t *generation = &row->generation;
        struct abi_free record = { .kind = ABI_KIND_FREE };

        if (!alloc_admit(state, identity->tgid, true)) {
                counters_add(COUNTER_FREES_BUDGET);
                return false;
        }
        record.generation = *generation;
        /* the row may be another process' by now */
        if (*generation != record.generation || !select_is_start(row, identity->start_time_ns) ||
            !free_address(task, &probe->arguments[0], &record.address)) {
                counters_add(COUNTER_FREES_UNREADABLE);
                return false;
        }
        if (bpf_ringbuf_output(&samples, &record, sizeof(record),
                               wake_for_sample(counters, WAKE_CALL_NONE))) {
                counters_add(COUNTER_FREES_RING_FULL);
                return false;
        }
        counters_add(COUNTER_FREES);
        return true;
}

SEC("uprobe")
int freed(void *context) {
        struct task_struct *task = bpf_get_current_task_btf();
        uint32_t index = (uint32_t)bpf_get_attach_cookie(context), zero = 0;
        const struct alloc_probe *probe = bpf_map_lookup_elem(&alloc_probes, &index);
        struct alloc_state *state = bpf_map_lookup_elem(&alloc_states, &zero);
        struct counters *counters = counters_get();
        const struct abi_process *row;
        struct identity identity = {};

        if (!probe || !state || !counters)
                return 0;
        row = alloc_target(task, &identity);
        /* the row that was found became another process' before it was read: the target has a new one */
        if (!row && bpf_map_lookup_elem(&processes, &identity.tgid))
                row = alloc_target(task, &identity);
        if (row && !free_take(task, row, probe, state, &identity, counters))
                free_lose(&identity);
        return 0;
}

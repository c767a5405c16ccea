/* SPDX-License-Identifier: GPL-2.0-only */

/*
 * Sampler
 *
 * The kernel half's main program: runs at each tick of a CPU's clock event and
 * turns the interrupted thread into one record. The stages stand in their order
 * in sample() at the end; each is one short function.
 */

#include "settings.bpf.h"
#include "tables.bpf.h"

#include "context.bpf.h"
#include "defer.bpf.h"
#include "select.bpf.h"
#include "spaces.bpf.h"
#include "watch.bpf.h"

char LICENSE[] SEC("license") = "GPL";

static __always_inline long rows_round(const struct rows_walk *walk) {
#pragma unroll
        for (int i = 0; i < ROUND_ROW_STEPS; i++)
                if (!rules_step(walk))
                        return 1;
        return 0;
}

static long rows_by_loop(uint32_t index, const struct rows_walk *walk) {
        return rows_round(walk);
}

static long rows_by_map(const void *map, const void *key, void *value, const struct rows_walk *walk) {
        return rows_round(walk);
}

static __always_inline bool has_bpf_loop(void) {
#ifdef SPANPROF_NO_BPF_LOOP
        return false;
#else
        return bpf_core_enum_value_exists(enum bpf_func_id, BPF_FUNC_loop);
#endif
}

/*
 * No node says yet what the process has mapped, so nothing says how to go on from the pc: rbp may hold
 * anything, and a guess is no caller.
 */
static __always_inline void pc_alone(struct scratch *scratch) {
        struct unwind *unwind = &scratch->unwind;
        uint32_t n = unwind->n_frames;

        if (n >= UNWIND_MAX_FRAMES)
                return;
        scratch->frames[n] = unwind->pc;
        unwind->n_frames = n + 1;
        unwind->end = ABI_STACK_PENDING;
}

static __always_inline bool is_user_mode(const volatile uint64_t *context) {
        return (context[CONTEXT_WORD_CS] & KERNEL_CS_RING) == KERNEL_CS_RING;
}

/*
 * Fills registers by their DWARF numbers (psABI, figure 3.36): those that were interrupted, or that the
 * kernel saved as the thread entered it. A system call has the caller's as well, but for rax, rcx and r11,
 * which it takes for itself.
 */
static __always_inline void saved_registers(const struct pt_regs *saved, uint64_t *registers) {
        registers[0] = saved->ax;
        registers[1] = saved->dx;
        registers[2] = saved->cx;
        registers[4] = saved->si;
        registers[5] = saved->di;
        registers[8] = saved->r8;
        registers[9] = saved->r9;
        registers[10] = saved->r10;
        registers[11] = saved->r11;
        registers[12] = saved->r12;
        registers[13] = saved->r13;
        registers[14] = saved->r14;
        registers[15] = saved->r15;
}

static __always_inline void interrupted_registers(const volatile uint64_t *context, uint64_t *registers) {
        registers[0] = context[CONTEXT_WORD_AX];
        registers[1] = context[CONTEXT_WORD_DX];
        registers[2] = context[CONTEXT_WORD_CX];
        registers[4] = context[CONTEXT_WORD_SI];
        registers[5] = context[CONTEXT_WORD_DI];
        registers[8] = context[CONTEXT_WORD_R8];
        registers[9] = context[CONTEXT_WORD_R9];
        registers[10] = context[CONTEXT_WORD_R10];
        registers[11] = context[CONTEXT_WORD_R11];
        registers[12] = context[CONTEXT_WORD_R12];
        registers[13] = context[CONTEXT_WORD_R13];
        registers[14] = context[CONTEXT_WORD_R14];
        registers[15] = context[CONTEXT_WORD_R15];
}

/*
 * Finds the registers of the user code: interrupted now, or saved as it entered the kernel. An exec that has
 * taken the old program's memory away still has its registers. Return: false if there are none.
 */
static __always_inline bool user_registers(const volatile uint64_t *context, struct task_struct *task,
                                           struct unwind *unwind, struct rules *rules) {
        const struct pt_regs *registers;
        uint16_t cs;

        if (is_user_mode(context)) {
                cs = context[CONTEXT_WORD_CS];
                unwind->pc = context[CONTEXT_WORD_IP];
                unwind->sp = context[CONTEXT_WORD_SP];
                unwind->bp = context[CONTEXT_WORD_BP];
                rules->bx = context[CONTEXT_WORD_BX];
        } else {
                if (!BPF_CORE_READ(task, mm, start_code))
                        return false;
                registers = (const struct pt_regs *)bpf_task_pt_regs(task);
                cs = registers->cs;
                unwind->pc = registers->ip;
                unwind->sp = registers->sp;
                unwind->bp = registers->bp;
                rules->bx = registers->bx;
        }
        /* No pc: a worker of io_uring, which never was in user mode. */
        return cs == KERNEL_USER_CS && unwind->pc;
}

static __always_inline void record_begin(struct abi_sample *sample, struct task_struct *task,
                                         const struct identity *identity, const struct abi_process *process) {
        sample->time_ns = bpf_ktime_get_ns();
        sample->value = 1;
        sample->start_time_ns = identity->start_time_ns;
        sample->generation = process->generation;
        sample->tgid = identity->tgid;
        sample->tid = identity->tid;
        sample->ns_tid = identity_innermost(task);
        sample->cpu = bpf_get_smp_processor_id();
        sample->kind = ABI_KIND_CPU;
        sample->interrupted = 0;
        comm_copy(sample->comm, task->comm);
}

static __always_inline void kernel_part(const volatile uint64_t *context, struct scratch *scratch) {
        long size;

        scratch->sample.n_kernel = 0;
        if (!setting_kernel_stacks || is_user_mode(context))
                return;
        size = bpf_get_stack((void *)context, scratch->frames, ABI_MAX_KERNEL_FRAMES * sizeof(uint64_t), 0);
        if (size > 0)
                scratch->sample.n_kernel = (uint64_t)size / sizeof(uint64_t);
}

/* The entry may be another process' in a moment: its memory is used again. */
static __always_inline bool hotspot_is(const struct hotspot_process *process,
                                       const struct abi_sample *sample) {
        const volatile struct hotspot_process *live = process;

        return !process || live->generation == sample->generation;
}

static __always_inline const struct hotspot_process *hotspot_of(const struct abi_sample *sample) {
        const struct hotspot_process *process;
        uint32_t tgid = sample->tgid;

        if (!runtimes_on)
                return NULL;
        process = bpf_map_lookup_elem(&hotspot_processes, &tgid);
        return process && hotspot_is(process, sample) ? process : NULL;
}

static __always_inline void hotspot_count(const struct hotspot *state) {
        struct counters *counters = counters_get();

        if (!counters)
                return;
        if (state->end == HOTSPOT_END_UNREADABLE)
                counters->values[COUNTER_HOTSPOT_UNREADABLE]++;
        else if (state->end == HOTSPOT_END_NO_CODE)
                counters->values[COUNTER_HOTSPOT_NO_CODE]++;
        else if (state->end == HOTSPOT_END_NO_FRAME)
                counters->values[COUNTER_HOTSPOT_NO_FRAME]++;
        else if (state->end == HOTSPOT_END_NO_RETURN)
                counters->values[COUNTER_HOTSPOT_NO_RETURN]++;
        else
                counters->values[COUNTER_HOTSPOT_CHANGING]++;
}

/*
 * Walks by rows. The node may be replaced during the walk, and its memory given to another process.
 * Generations are never used twice, so one look at the end tells; then only the interrupted pc is sure.
 */
static __always_inline void walk_by_rows(struct scratch *scratch, const struct space *space) {
        const struct unwind_node *root = space->root;
        const volatile struct unwind_node *live = root;
        struct unwind *unwind = &scratch->unwind;
        struct rules *rules = &scratch->rules;
        struct rows_walk walk = { .unwind = unwind, .rules = rules, .frames = scratch->frames, .root = root };
        uint32_t zero = 0;

        walk.cache = bpf_map_lookup_elem(&row_caches, &zero);
        if (!walk.cache)
                return;
        rules_begin(rules, space->number, space->generation, unwind->n_frames);
        walk.state = &scratch->hotspot;
        walk.hotspot = hotspot_of(&scratch->sample);
        scratch->has_runtime = walk.hotspot != NULL;
        if (has_bpf_loop())
                bpf_loop(ROW_ROUNDS, rows_by_loop, &walk, 0);
        else
                bpf_for_each_map_elem(&rounds, rows_by_map, &walk, 0);
        if (rules->interrupted <= 0xff)
                scratch->sample.interrupted = rules->interrupted;
        if (live->generation == rules->generation && unwind->end != ABI_STACK_STALE &&
            hotspot_is(walk.hotspot, &scratch->sample)) {
                if (unwind->end == ABI_STACK_RUNTIME)
                        hotspot_count(&scratch->hotspot);
                if (unwind->end == ABI_STACK_NO_MAPPING)
                        scratch->calls = wake_calls((struct unwind_node *)root, scratch->sample.time_ns)
                                ? WAKE_CALL_LISTENING
                                : WAKE_CALL_NONE;
                return;
        }
        rules->generation = 0;          /* the next walk must not use its mapping */
        unwind->end = ABI_STACK_STALE;
        unwind->n_frames = rules->first + 1;
        scratch->sample.interrupted = 0;
}

/* Keeps what a later walk begins with, and the registers that rules for frame 0 may name. */
static __always_inline void leaf_part(const volatile uint64_t *context, struct task_struct *task,
                                      struct scratch *scratch) {
        scratch->leaf.pc = scratch->unwind.pc;
        scratch->leaf.sp = scratch->unwind.sp;
        scratch->leaf.bp = scratch->unwind.bp;
        scratch->leaf.bx = scratch->rules.bx;
        if (is_user_mode(context))
                interrupted_registers(context, scratch->rules.registers);
        else
                saved_registers((const struct pt_regs *)bpf_task_pt_regs(task), scratch->rules.registers);
}

static __always_inline void user_part(const volatile uint64_t *context, struct task_struct *task,
                                      const struct abi_process *process, struct scratch *scratch) {
        struct unwind *unwind = &scratch->unwind;
        struct space space;

        space_find(process, scratch->sample.tgid, scratch->sample.start_time_ns, &space);
        scratch->calls = WAKE_CALL_NONE;
        scratch->has_runtime = false;
        unwind_begin(unwind, scratch->sample.n_kernel, setting_depth);
        if (!user_registers(context, task, unwind, &scratch->rules)) {
                unwind->end = ABI_STACK_NO_USER;
        } else {
                leaf_part(context, task, scratch);
                if (space.root)
                        walk_by_rows(scratch, &space);
                else
                        pc_alone(scratch);
        }
        scratch->sample.n_user = unwind->n_frames - scratch->sample.n_kernel;
        scratch->sample.stack_end = unwind->end;
}

/*
 * Attributes that do not fit, or cannot be read, are left out; the span stays. Return: bytes in the record.
 */
static __always_inline uint64_t attributes_part(struct scratch *scratch, uint64_t n_frames,
                                                struct counters *counters) {
        uint64_t size = scratch->sample.attributes_size;

        if (!size)
                return 0;
        if (size <= ABI_MAX_ATTRIBUTES_SIZE &&
            !bpf_probe_read_user(scratch->frames + n_frames, size, (const void *)scratch->attributes_address))
                return (size + 7) & ~7ULL;
        scratch->sample.attributes_size = 0;
        counters->values[COUNTER_CONTEXT_ATTRIBUTES_UNREADABLE]++;
        return 0;
}

/* The first sample of a process that the daemon does not know yet, and that is likely a target. */
static __always_inline void call_for_new(struct task_struct *task, struct scratch *scratch) {
        struct task_struct *leader;
        struct known_name name;

        if (scratch->sample.generation || !daemon_hears)
                return;
        leader = KERNEL_POINTER(task, group_leader);
        if (!bpf_core_read(&name, sizeof(name), &leader->comm) && wake_knows_name((const char *)&name))
                scratch->calls = WAKE_CALL_AT_ONCE;
}

/* Sends exactly the bytes that are used. */
static __always_inline void record_emit(struct scratch *scratch, struct counters *counters) {
        uint64_t n = scratch->unwind.n_frames, size;

        if (n > UNWIND_MAX_FRAMES)
                n = UNWIND_MAX_FRAMES;
        size = sizeof(scratch->sample) + n * sizeof(uint64_t);
        size += attributes_part(scratch, n, counters);
        if (bpf_ringbuf_output(&samples, &scratch->sample, size, wake_for_sample(counters, scratch->calls)))
                counters->values[COUNTER_LOST_RING_FULL]++;
}

SEC("perf_event")
int sample(const volatile uint64_t *context) {
        struct task_struct *task = bpf_get_current_task_btf();
        struct counters *counters = counters_get();
        struct identity identity = {};
        struct abi_process process;
        struct scratch *scratch;
        uint32_t zero = 0;

        if (!counters)
                return 0;
        counters->values[COUNTER_SAMPLER_ENTRIES]++;
        if (!task->pid || task->flags & KERNEL_PF_KTHREAD || !KERNEL_POINTER(task, mm))
                return 0;
        if (!identity_read(task, &identity) || identity.tgid == setting_self_tgid)
                return 0;
        if (!select_process(task, &identity, &process))
                return 0;

        counters->values[COUNTER_TICKS]++;
        scratch = bpf_map_lookup_elem(&scratches, &zero);
        if (!scratch) {
                counters->values[COUNTER_LOST_KERNEL_INTERNAL]++;
                return 0;
        }
        record_begin(&scratch->sample, task, &identity, &process);
        context_read(&process, scratch);
        kernel_part(context, scratch);
        user_part(context, task, &process, scratch);
        defer_part(task, scratch, counters);
        call_for_new(task, scratch);
        record_emit(scratch, counters);
        return 0;
}

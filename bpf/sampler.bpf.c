/* SPDX-License-Identifier: GPL-2.0-only */

/*
 * Sampler
 *
 * The kernel half's main program: runs at each tick of a CPU's clock event and
 * turns the interrupted thread into one record. The stages stand in their order
 * in take_sample() at the end; each is one short function.
 *
 * Two programs are made of these stages. Most hosts have no process whose frames
 * are a runtime's (runtime_abi.h), and should pay for none: the walks over them are
 * the larger part of what the verifier follows and of the loop's code.
 *
 *     sample            loaded at the start, on every event; knows rows and frame pointers
 *     sample_runtimes   the same with all runtimes' walks; loaded beside the running daemon when it
 *                       meets the first such process (daemon/host/sampling/sample/runtime-walk.c)
 *
 *     tick ─▶ sample ─ runtimes_on? ─ no ──▶ take_sample(…, false)
 *                                   └ yes ─▶ tail call ─▶ sample_runtimes: take_sample(…, true)
 *
 * The tail call is the first thing that sample does, and it does not return. So each tick is taken by
 * one of the two, whole: none is lost or counted twice as they change over. Where the call is refused, sample
 * goes on. All maps are shared, so that books, caches and budgets go on, too.
 *
 * A new runtime's walk hooks into rules_step() and walk_by_rows(), under `runtimes`, or goes on behind the
 * latter, as beam_part().
 */

#include "walk/settings.bpf.h"
#include "walk/tables.bpf.h"

#include "walk/defer.bpf.h"
#include "walk/faults.bpf.h"
#include "walk/narrow.bpf.h"
#include "walk/registers.bpf.h"
#include "walk/run-ticks.bpf.h"
#include "walk/start.bpf.h"
#include "walk/walk.bpf.h"
#include "walk/watch.bpf.h"

char LICENSE[] SEC("license") = "GPL";

static __always_inline void kernel_part(const volatile uint64_t *context, struct scratch *scratch) {
        long size;

        scratch->sample.n_kernel = 0;
        if (!setting_kernel_stacks || is_user_mode(context))
                return;
        if (faults_words(scratch))
                size = bpf_get_stack((void *)context, scratch->frames + ABI_FAULT_WORDS,
                                     (ABI_MAX_KERNEL_FRAMES - ABI_FAULT_WORDS) * sizeof(uint64_t), 0);
        else
                size = bpf_get_stack((void *)context, scratch->frames,
                                     ABI_MAX_KERNEL_FRAMES * sizeof(uint64_t), 0);
        if (size > 0)
                scratch->sample.n_kernel = (uint64_t)size / sizeof(uint64_t);
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

/*
 * Begins to fetch the lines of the runs in @last, of rows_runs: a walk finds each by the run before it, so it
 * would wait for one after the other. A loop: its code is a line, and that of eight in a row is five.
 */
static __always_inline void fetch_runs(const struct rows_cache *cache, uint64_t last) {
#pragma clang loop unroll(disable)
        for (int i = 0; i < ROWS_RUNS_KEPT; i++) {
                uint64_t run = last & ((1 << ROWS_RUN_SHIFT) - 1);

                /* Masked twice, as in memory.bpf.h. */
                barrier_var(run);
                run &= (1 << ROWS_RUN_SHIFT) - 1;
                (void)*(const volatile uint64_t *)&cache->runs[run * ROWS_RUN].tag;
                last >>= ROWS_RUN_SHIFT;
        }
}

/*
 * Begins to fetch what the sample needs later: rules, and the positions of the ring, by a question whose
 * answer is not waited for. It stands behind the clock of record_begin(): a clock waits for all loads before
 * it.
 */
static __always_inline void fetch_ahead(const struct recent *recent) {
        uint32_t zero = 0;
        const struct rows_cache *cache = bpf_map_lookup_elem(&row_caches, &zero);

        if (cache)
                fetch_runs(cache, recent->runs);
        bpf_ringbuf_query(&samples, BPF_RB_AVAIL_DATA);
}

/*
 * How much the thread has allocated rides in the place of the tick's value. A function of its own as
 * python_begin().
 */
static __attribute__((noinline)) void allocated_part(struct scratch *scratch) {
        const struct hotspot_process *process = hotspot_of(&scratch->sample);
        uint64_t value;

        if (!process || scratch->leaf.pc - process->low >= process->size || faults_words(scratch))
                return;
        value = hotspot_bytes(process, scratch->rules.registers[HOTSPOT_KEPT_THREAD], scratch->leaf.sp);
        if (hotspot_is(process, &scratch->sample))
                scratch->sample.value = value;
}

static __always_inline void user_part(const volatile uint64_t *context, struct task_struct *task,
                                      struct recent *recent, struct scratch *scratch, bool runtimes) {
        struct space space = { .version = recent->version };
        struct unwind *unwind = &scratch->unwind;

        space_find(&recent->row, scratch->sample.tgid, scratch->sample.start_time_ns, &recent->nodes, &space);
        PART(NODE);
        scratch->calls = WAKE_CALL_NONE;
        scratch->has_runtime = false;
        unwind_begin(unwind, faults_words(scratch) + scratch->sample.n_kernel, setting_depth);
        if (!user_registers(context, task, unwind, &scratch->rules)) {
                unwind->end = ABI_STACK_NO_USER;
                if (narrow_registers(context, task, unwind))
                        narrow_walk(scratch);
        } else {
                leaf_part(context, task, scratch);
                PART(REGISTERS);
                if (runtimes && setting_allocated && space.generation)
                        allocated_part(scratch);
                if (space.generation)
                        walk_by_rows(task, scratch, &space, runtimes);
                else
                        pc_alone(scratch);
                if (runtimes)
                        beam_part(scratch);
                recent->runs = scratch->rules.runs.last;
        }
        if (space.generation && unwind->end == ABI_STACK_NO_MAPPING &&
            wake_calls(space.number, scratch->sample.time_ns))
                scratch->calls = WAKE_CALL_LISTENING;
        scratch->sample.n_user = unwind->n_frames - scratch->sample.n_kernel - faults_words(scratch);
        scratch->sample.stack_end = unwind->end;
}

/*
 * The first sample of a process that the daemon does not know yet, and that is likely a target. A function of
 * its own as python_begin().
 */
static __attribute__((noinline)) void call_for_new(struct task_struct *task, const struct recent *recent,
                                                   struct scratch *scratch, struct counters *counters) {
        struct task_struct *leader;
        struct known_name name;

        if (scratch->sample.generation || !daemon_hears)
                return;
        leader = KERNEL_POINTER(task, group_leader);
        if (bpf_core_read(&name, sizeof(name), &leader->comm))
                return;
        wake_trim_name(&name, (const char *)&name);
        if (!bpf_map_lookup_elem(&known_names, &name))
                return;
        if (start_waits(recent, scratch, &name))
                counters->values[COUNTER_STARTS_WAIT]++;
        else
                scratch->calls = WAKE_CALL_AT_ONCE;
}

/*
 * Processes whose ticks were lost since the daemon said so last. Sampler writes, daemon reads and clears. The
 * least used may go: only a message depends on it.
 */
struct {
        __uint(type, BPF_MAP_TYPE_LRU_HASH);
        __uint(max_entries, 512);
        __type(key, uint32_t);
        __type(value, struct abi_lost_ticks);
} lost_ticks SEC(".maps");

/* A function of its own: its value is off the stack before the caller goes on. */
static __attribute__((noinline)) void lost_note(const struct abi_sample *sample) {
        struct abi_lost_ticks *known, first = { .n = 1 };
        uint32_t tgid = sample->tgid;

        known = bpf_map_lookup_elem(&lost_ticks, &tgid);
        if (known) {
                __sync_fetch_and_add(&known->n, 1);
                return;
        }
        comm_copy(first.comm, sample->comm);
        bpf_map_update_elem(&lost_ticks, &tgid, &first, BPF_NOEXIST);
}

/*
 * Counts a tick on a target, and says of which kind it is, 0 = it is left out. Of each CPU's entries every
 * ticks_per_sample-th is exported: so these are what a slower clock would have taken. Of a boosted process
 * all are. A global function, as rows_rule(): verified once, and its ways are one for the caller. @flags:
 * ABI_PROCESS_*.
 */
__attribute__((noinline)) uint32_t tick_kind(uint32_t flags) {
        struct counters *counters = counters_get();
        uint32_t n_ticks = ticks_per_sample;

        if (!counters)
                return 0;
        if (n_ticks > 1 && flags & ABI_PROCESS_BOOSTED) {
                counters->values[COUNTER_TICKS]++;
                counters->values[COUNTER_BOOST_TICKS]++;
                return ABI_KIND_BOOST;
        }
        if (n_ticks > 1 && counters->values[COUNTER_SAMPLER_ENTRIES] % n_ticks) {
                counters->values[COUNTER_FINE_TICKS] += setting_recorder;
                return setting_recorder ? ABI_KIND_FINE : 0;
        }
        counters->values[COUNTER_TICKS]++;
        return ABI_KIND_CPU;
}

static __always_inline bool fine_is_one(const struct abi_sample *sample) {
        return setting_recorder && sample->kind == ABI_KIND_FINE;
}

/* The other half of the ring is for samples that others would have, too. */
static __always_inline bool fine_finds_no_room(void) {
        uint64_t n_used = bpf_ringbuf_query(&samples, BPF_RB_AVAIL_DATA);

        return 2 * n_used > bpf_ringbuf_query(&samples, BPF_RB_RING_SIZE);
}

static __always_inline void count_no_room(const struct scratch *scratch, bool is_undecided,
                                          struct counters *counters) {
        if (faults_words(scratch)) {
                counters->values[COUNTER_FAULT_SAMPLES_RING_FULL]++;
                return;
        }
        if (fine_is_one(&scratch->sample)) {
                counters->values[COUNTER_FINE_RING_FULL]++;
                return;
        }
        counters->values[COUNTER_LOST_RING_FULL]++;
        lost_note(&scratch->sample);
        counters->values[COUNTER_UNDECIDED_LOST] += is_undecided;
}

/* Sends exactly the bytes that are used. A fine tick that calls the daemon goes in any case. */
static __always_inline void record_emit(struct scratch *scratch, bool is_undecided,
                                        struct counters *counters) {
        uint64_t n = scratch->unwind.n_frames, size;

        if (n > UNWIND_MAX_FRAMES)
                n = UNWIND_MAX_FRAMES;
        if (scratch->sample.task_size == BEAM_TASK_UNKNOWN) {
                scratch->sample.task_size = 0;
                counters->values[COUNTER_BEAM_TASKS_UNKNOWN] += !fine_is_one(&scratch->sample);
        }
        size = n * sizeof(uint64_t) + attributes_part(scratch, n, counters);
        size += sizeof(scratch->sample) + task_part(scratch, size / sizeof(uint64_t));
        if ((scratch->sample.kind >= ABI_KIND_FINE && !scratch->calls && fine_finds_no_room()) ||
            bpf_ringbuf_output(&samples, &scratch->sample, size, wake_for_sample(counters, scratch->calls)))
                count_no_room(scratch, is_undecided, counters);
}

/* For the CPU time of spans (wait-run.bpf.h). A context that cannot be read says nothing of it. */
static __always_inline void note_tick(struct task_struct *task, const struct abi_sample *sample,
                                      struct counters *counters) {
        if (abi_context_is_told(sample->context) && run_add_tick(sample, run_switches(task)))
                counters->values[COUNTER_RUN_TICKS_OVER_CAP]++;
}

/* Takes the sample of a tick, or of a page fault. @runtimes: a constant. */
static __always_inline int take_sample(const volatile uint64_t *context, bool runtimes) {
        struct task_struct *task = bpf_get_current_task_btf();
        struct counters *counters = counters_get();
        struct identity identity = {};
        const struct abi_process *process;
        struct scratch *scratch;
        struct recent *recent;
        uint32_t zero = 0;
        uint32_t kind;

        PART(BEGIN);
        if (!counters)
                return 0;
        counters->values[COUNTER_SAMPLER_ENTRIES] += !faults_is_one(counters);
        if (!task->pid || task->flags & KERNEL_PF_KTHREAD ||
            (!is_user_mode(context) && !KERNEL_POINTER(task, mm)))
                return 0;
        PART(TASK);
        if (!identity_read(task, &identity) || identity.tgid == setting_self_tgid)
                return 0;
        PART(IDENTITY);
        recent = select_process(task, &identity, counters);
        PART(PROCESS);
        if (!recent)
                return 0;
        process = &recent->row;

        kind = faults_is_one(counters) ? ABI_KIND_FAULT : tick_kind(process->flags);
        if (!kind)
                return 0;
        scratch = bpf_map_lookup_elem(&scratches, &zero);
        if (!scratch) {
                if (kind == ABI_KIND_FINE)
                        counters->values[COUNTER_FINE_RING_FULL]++;
                else
                        counters->values[COUNTER_LOST_KERNEL_INTERNAL] += !faults_is_one(counters);
                return 0;
        }
        record_begin(&scratch->sample, task, &identity, process,
                     recent->has_one_id ? task->pid : identity_innermost(task));
        if (faults_is_one(counters))
                faults_begin(scratch, counters);
        else
                scratch->sample.kind = (uint8_t)kind;
        fetch_ahead(recent);
        PART(HEAD);
        context_read(process, scratch);
        if (runtimes) {
                labels_part(scratch);
                go_part(&scratch->sample);
                sdk_span_part(&scratch->sample);
        }
        obi_part(process, &scratch->sample);
        if (setting_run_ticks && !faults_is_one(counters))
                note_tick(task, &scratch->sample, counters);
        PART(CONTEXT);
        kernel_part(context, scratch);
        PART(KERNEL);
        user_part(context, task, recent, scratch, runtimes);
        defer_part(task, scratch, counters);
        start_part(task, recent, scratch, counters);
        call_for_new(task, recent, scratch, counters);
        PART(AFTER_WALK);
        record_emit(scratch, process->state == ABI_STATE_UNDECIDED, counters);
        PART(RECORD);
        return 0;
}

SEC("perf_event")
int sample(const volatile uint64_t *context) {
        int r;

        if (runtimes_on)
                bpf_tail_call((void *)context, &runtime_sampler, 0);
        r = take_sample(context, false);
        faults_end();
        return r;
}

SEC("perf_event")
int sample_runtimes(const volatile uint64_t *context) {
        int r = take_sample(context, true);

        faults_end();
        return r;
}

/* Loaded with --page-faults. */
SEC("perf_event")
int page_fault_minor(const volatile uint64_t *context) {
        return faults_take(context, false);
}

SEC("perf_event")
int page_fault_major(const volatile uint64_t *context) {
        return faults_take(context, true);
}

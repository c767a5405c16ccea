/* SPDX-License-Identifier: GPL-2.0-only */
#pragma once

/*
 * The Walk of a Record
 *
 * What each program that sends a stack does in the same way: the head of the record, the walk by the rows of
 * the thread's process (rules.bpf.h), and the attributes of its context behind the frames. `scratch` holds
 * the registers of frame 0 as the walk begins (registers.bpf.h), and the frames as it ends.
 */

#include "walk/context.bpf.h"
#include "walk/select.bpf.h"
#include "walk/spaces.bpf.h"

static __always_inline long rows_round(const struct rows_walk *walk, bool runtimes) {
#pragma unroll
        for (int i = 0; i < ROUND_ROW_STEPS; i++)
                if (runtimes ? !python_step(walk) : !rules_native_step(walk))
                        return 1;
        return 0;
}

static long rows_by_loop(uint32_t index, const struct rows_walk *walk) {
        return rows_round(walk, false);
}

static long rows_by_map(const void *map, const void *key, void *value, const struct rows_walk *walk) {
        return rows_round(walk, false);
}

static long runtimes_by_loop(uint32_t index, const struct rows_walk *walk) {
        return rows_round(walk, true);
}

static long runtimes_by_map(const void *map, const void *key, void *value, const struct rows_walk *walk) {
        return rows_round(walk, true);
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

static __always_inline void record_begin(struct abi_sample *sample, struct task_struct *task,
                                         const struct identity *identity, const struct abi_process *process,
                                         uint32_t ns_tid) {
        sample->time_ns = bpf_ktime_get_ns();
        sample->value = 1;
        sample->start_time_ns = identity->start_time_ns;
        sample->generation = process->generation;
        sample->tgid = identity->tgid;
        sample->tid = identity->tid;
        sample->ns_tid = ns_tid;
        sample->cpu = bpf_get_smp_processor_id();
        sample->kind = ABI_KIND_CPU;
        sample->interrupted = 0;
        sample->task_size = 0;
        sample->has_start = 0;
        sample->signal = 0;
        sample->signal_code = 0;
        comm_copy(sample->comm, task->comm);
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

        if (!(runtime_kinds & RUNTIME_HAS_HOTSPOT))
                return NULL;
        process = bpf_map_lookup_elem(&hotspot_processes, &tgid);
        return process && hotspot_is(process, sample) ? process : NULL;
}

static __always_inline void hotspot_count(const struct hotspot *state) {
        struct counters *counters = counters_get();

        if (!counters)
                return;
        if (state->end == HOTSPOT_END_UNREADABLE)
                counters_count(counters, COUNTER_HOTSPOT_UNREADABLE, 1);
        else if (state->end == HOTSPOT_END_NO_CODE)
                counters_count(counters, COUNTER_HOTSPOT_NO_CODE, 1);
        else if (state->end == HOTSPOT_END_NO_FRAME)
                counters_count(counters, COUNTER_HOTSPOT_NO_FRAME, 1);
        else if (state->end == HOTSPOT_END_NO_RETURN)
                counters_count(counters, COUNTER_HOTSPOT_NO_RETURN, 1);
        else
                counters_count(counters, COUNTER_HOTSPOT_CHANGING, 1);
}

static __always_inline void hotspot_count_heap(const struct hotspot *state) {
        struct counters *counters = counters_get();

        if (counters && state->heap.result == HOTSPOT_HEAP_READ)
                counters_count(counters, COUNTER_HOTSPOT_HEAP_READ, 1);
        else if (counters && state->heap.result == HOTSPOT_HEAP_SKIPPED)
                counters_count(counters, COUNTER_HOTSPOT_HEAP_SKIPPED, 1);
}

/* ---- Python ---- */

struct python_walk {
        struct python *python;
        const struct python_process *process;
};

enum { PYTHON_RETRY_NS = 100000000 };   /* until a thread without a state is looked for again */

static long python_look_by_loop(uint32_t index, const struct python_walk *walk) {
        return !python_look_at(walk->python, walk->process);
}

static long python_look_by_map(const void *map, const void *key, void *value,
                               const struct python_walk *walk) {
        return !python_look_at(walk->python, walk->process);
}

static long python_chain_by_loop(uint32_t index, const struct python_walk *walk) {
        return !python_chain_at(walk->python, walk->process);
}

static long python_chain_by_map(const void *map, const void *key, void *value,
                                const struct python_walk *walk) {
        return !python_chain_at(walk->python, walk->process);
}

static __always_inline bool python_is(const struct python_process *process, const struct abi_sample *sample) {
        const volatile struct python_process *live = process;

        return !process || live->generation == sample->generation;
}

/*
 * Whether what was found is so still: python->states has the thread's state, or none. A new interpreter comes
 * first in the list of them.
 */
static __always_inline bool python_recall(const struct python_walk *walk, const struct python_thread *known,
                                          uint64_t now_ns) {
        struct python *python = walk->python;
        uint64_t first;

        if (!known->interpreter || !python_read(walk->process->interpreters, &first) ||
            first != known->interpreter)
                return false;
        python->states[0] = known->state;
        python->n_states = !!python->states[0];
        if (python->n_states)
                return python_is_listed(python, walk->process, first, python->states[0]);
        return now_ns - known->time_ns < PYTHON_RETRY_NS &&
                python_is_as_before(python, walk->process, first, known->head);
}

/*
 * Finds the thread's states. One that was found is known from then on, if there is one interpreter; so is
 * that there is none, if that took long. A sample's span and its chain are of the same states. Return:
 * whether it has one.
 */
static __always_inline bool python_find(const struct python_walk *walk, const struct abi_sample *sample) {
        struct python *python = walk->python;
        struct python_thread_key key = { sample->generation, sample->tid };
        struct python_thread *known, fresh = {};

        if (python->looked_ns == sample->time_ns && python->looked_generation == sample->generation &&
            python->looked_id == python->thread_id)
                return python->n_states;
        python->looked_ns = sample->time_ns;
        python->looked_generation = sample->generation;
        python->looked_id = python->thread_id;
        python->n_states = 0;
        python->has_more = 0;
        known = bpf_map_lookup_elem(&python_threads, &key);
        if (known && python_recall(walk, known, sample->time_ns))
                return python->n_states;
        if (!python_look_begin(python, walk->process))
                return false;
        python_read(python->first + walk->process->threads, &fresh.head);
        if (has_bpf_loop())
                bpf_loop(PYTHON_MAX_THREADS, python_look_by_loop, (void *)walk, 0);
        else
                bpf_for_each_map_elem(&rounds, python_look_by_map, (void *)walk, 0);
        fresh.state = python_look_end(python);
        fresh.interpreter = python->first;
        fresh.time_ns = sample->time_ns;
        if (fresh.state || python->n_looked > PYTHON_FEW_THREADS)
                bpf_map_update_elem(&python_threads, &key, &fresh, BPF_ANY);
        return fresh.state;
}

/* Return: NULL = the process of @sample does not run Python. */
static __always_inline const struct python_process *python_of(const struct abi_sample *sample) {
        const struct python_process *process;
        uint32_t tgid = sample->tgid;

        if (!(runtime_kinds & RUNTIME_HAS_PYTHON))
                return NULL;
        process = bpf_map_lookup_elem(&python_processes, &tgid);
        return process && python_is(process, sample) ? process : NULL;
}

/* ---- PHP ---- */

struct php_walk {
        struct python *python;
        const struct php_process *process;
        const struct rules *rules;
};

static long php_chain_by_loop(uint32_t index, const struct php_walk *walk) {
        return !php_chain_at(walk->python, walk->process, walk->rules);
}

static long php_chain_by_map(const void *map, const void *key, void *value, const struct php_walk *walk) {
        return !php_chain_at(walk->python, walk->process, walk->rules);
}

/* Return: NULL = the process of @sample does not run PHP, or this thread of it does not. */
static __always_inline const struct php_process *php_of(const struct abi_sample *sample) {
        const struct php_process *process;
        uint32_t tgid = sample->tgid;

        if (!(runtime_kinds & RUNTIME_HAS_PHP) || sample->tid != tgid)
                return NULL;
        process = bpf_map_lookup_elem(&php_processes, &tgid);
        return process && process->generation == sample->generation ? process : NULL;
}

/* ---- Ruby ---- */

struct ruby_walk {
        struct python *python;
        const struct ruby_process *process;
};

static long ruby_chain_by_loop(uint32_t index, const struct ruby_walk *walk) {
        return !ruby_chain_at(walk->python, walk->process);
}

static long ruby_chain_by_map(const void *map, const void *key, void *value, const struct ruby_walk *walk) {
        return !ruby_chain_at(walk->python, walk->process);
}

/* Return: NULL = the process of @sample does not run Ruby. */
static __always_inline const struct ruby_process *ruby_of(const struct abi_sample *sample) {
        const struct ruby_process *process;
        uint32_t tgid = sample->tgid;

        if (!(runtime_kinds & RUNTIME_HAS_RUBY))
                return NULL;
        process = bpf_map_lookup_elem(&ruby_processes, &tgid);
        return process && process->generation == sample->generation ? process : NULL;
}

/* Whether the entry of PHP or Ruby, that a walk was begun by, is its own still: as hotspot_is(). */
static __attribute__((noinline)) bool counted_stays(const struct python *python,
                                                    const struct abi_sample *sample) {
        return !python || !python->is_counted || php_of(sample) || ruby_of(sample);
}

/* ---- Erlang ---- */

struct beam_walk {
        struct beam *beam;
        const struct beam_process *process;
        struct unwind *unwind;
        struct hotspot_words *frames;
};

static long beam_by_loop(uint32_t index, const struct beam_walk *walk) {
        return !beam_take_at(walk->beam, walk->process, walk->unwind, walk->frames);
}

static long beam_by_map(const void *map, const void *key, void *value, const struct beam_walk *walk) {
        return !beam_take_at(walk->beam, walk->process, walk->unwind, walk->frames);
}

/* Return: NULL = the process of @sample does not run Erlang. */
static __always_inline const struct beam_process *beam_of(const struct abi_sample *sample) {
        const struct beam_process *process;
        uint32_t tgid = sample->tgid;

        if (!(runtime_kinds & RUNTIME_HAS_BEAM))
                return NULL;
        process = bpf_map_lookup_elem(&beam_processes, &tgid);
        return process && process->generation == sample->generation ? process : NULL;
}

/* In the code of Erlang's JIT rbp is no frame pointer: the walk ends there, and beam_part() goes on. */
static __attribute__((noinline)) void beam_expect(struct scratch *scratch) {
        if (beam_of(&scratch->sample))
                scratch->has_runtime = scratch->rules.is_strict = 1;
}

static __always_inline void beam_count(const struct beam *beam) {
        struct counters *counters = counters_get();

        if (!counters)
                return;
        if (beam->end == BEAM_END_WHOLE)
                counters_count(counters, COUNTER_PYTHON_WHOLE, 1);
        else if (beam->end == BEAM_END_LOST)
                counters_count(counters, COUNTER_PYTHON_PARTIAL, 1);
        else
                counters_count(counters, COUNTER_PYTHON_CUT, 1);
}

/*
 * Goes on where walk_by_rows() has ended in code of Erlang's JIT. It is a walk of its own behind that one, so
 * that neither has what the other has on the stack (tests/oracles/bpf_stacks.py).
 */
static __attribute__((noinline)) void beam_part(struct scratch *scratch) {
        struct unwind *unwind = &scratch->unwind;
        struct beam_walk walk = { .process = beam_of(&scratch->sample), .unwind = unwind,
                                  .frames = (struct hotspot_words *)scratch->frames };
        struct task_struct *task = bpf_get_current_task_btf();
        uint32_t zero = 0;

        if (!walk.process)
                return;
        walk.beam = bpf_map_lookup_elem(&beams, &zero);
        if (!walk.beam ||
            !beam_is_met(walk.beam, walk.process, unwind, &scratch->rules, KERNEL_THREAD_POINTER(task)))
                return;
        if (beam_begin_at(walk.beam, walk.process, unwind, &scratch->rules, walk.frames)) {
                if (has_bpf_loop())
                        bpf_loop(BEAM_MAX_STEPS, beam_by_loop, &walk, 0);
                else
                        bpf_for_each_map_elem(&rounds, beam_by_map, &walk, 0);
        }
        scratch->sample.task_size = beam_find_task_at(walk.beam, walk.process) ? BEAM_TASK_SIZE
                : walk.beam->current                                           ? BEAM_TASK_UNKNOWN
                                                                               : 0;
        beam_count(walk.beam);
        if (beam_of(&scratch->sample))
                return;
        scratch->sample.task_size = 0;
        /* as walk_by_rows() does where the entry has become another process' */
        unwind->end = ABI_STACK_STALE;
        unwind->n_frames = scratch->rules.first + 1;
        if (scratch->rules.first < UNWIND_MAX_FRAMES)
                scratch->frames[scratch->rules.first] = scratch->leaf.pc;
}

/* As php_begin(), which calls it. In the code of Ruby's JIT rbp is anything. */
static __attribute__((noinline)) struct python *ruby_begin(struct scratch *scratch) {
        struct ruby_walk walk = { .process = ruby_of(&scratch->sample) };
        struct task_struct *task = bpf_get_current_task_btf();
        uint32_t zero = 0;

        if (!walk.process) {
                beam_expect(scratch);
                return NULL;
        }
        scratch->has_runtime = true;
        scratch->rules.is_strict = 1;
        walk.python = bpf_map_lookup_elem(&pythons, &zero);
        if (!walk.python ||
            !ruby_chain_begin(walk.python, walk.process, KERNEL_THREAD_POINTER(task), scratch->unwind.sp))
                return NULL;
        python_chain_place(walk.python, &scratch->unwind, &scratch->rules);
        if (has_bpf_loop())
                bpf_loop(PYTHON_MAX_CHAIN, ruby_chain_by_loop, &walk, 0);
        else
                bpf_for_each_map_elem(&rounds, ruby_chain_by_map, &walk, 0);
        return python_chain_end(walk.python) ? walk.python : NULL;
}

/*
 * As python_begin(), behind it; @begun: what that found. Code without a row is that of PHP's JIT, where rbp
 * is anything.
 */
static __attribute__((noinline)) struct python *php_begin(struct scratch *scratch, struct python *begun) {
        struct php_walk walk = { .rules = &scratch->rules };
        uint32_t zero = 0;

        if (begun)
                return begun;
        walk.process = php_of(&scratch->sample);
        if (!walk.process)
                return ruby_begin(scratch);
        scratch->has_runtime = true;
        scratch->rules.is_strict = 1;
        walk.python = bpf_map_lookup_elem(&pythons, &zero);
        if (!walk.python || !php_chain_begin(walk.python, walk.process))
                return NULL;
        python_chain_place(walk.python, &scratch->unwind, &scratch->rules);
        if (has_bpf_loop())
                bpf_loop(PYTHON_MAX_CHAIN, php_chain_by_loop, &walk, 0);
        else
                bpf_for_each_map_elem(&rounds, php_chain_by_map, &walk, 0);
        return python_chain_end(walk.python) ? walk.python : NULL;
}

/* ---- Python: the chain ---- */

/*
 * Copies the chain of frames. A function of its own: what it has on the stack is gone before frames are
 * walked (tests/oracles/bpf_stacks.py). Return: NULL = this thread runs no function of
 * Python.
 */
static __attribute__((noinline)) struct python *python_begin(struct task_struct *task,
                                                             struct scratch *scratch,
                                                             const struct python_process **processp) {
        struct python_walk walk = { .process = python_of(&scratch->sample) };
        uint32_t zero = 0;

        *processp = walk.process;
        if (!walk.process)
                return NULL;
        walk.python = bpf_map_lookup_elem(&pythons, &zero);
        if (!walk.python)
                return NULL;
        walk.python->thread_id = KERNEL_THREAD_POINTER(task) - walk.process->thread_below;
        if (!python_find(&walk, &scratch->sample) || !python_chain_begin(walk.python, walk.process))
                return NULL;
        if (has_bpf_loop())
                bpf_loop(PYTHON_MAX_STEPS / ROUND_PYTHON_STEPS + 1, python_chain_by_loop, &walk, 0);
        else
                bpf_for_each_map_elem(&rounds, python_chain_by_map, &walk, 0);
        return python_chain_end(walk.python) ? walk.python : NULL;
}

/*
 * The span of a thread that publishes none, out of the SDK's own context. A global function, as
 * context_of_thread(). A thread that is in several interpreters has several contexts: none of them counts.
 * Return: enum sdk_result; -1 = the thread does not run Python.
 */
__attribute__((noinline)) int python_span_of_thread(struct abi_sample *sample) {
        struct task_struct *task = bpf_get_current_task_btf();
        struct python_walk walk = {};
        struct python_span_walk *spans;
        uint32_t zero = 0;
        int end;

        if (!sample || task->flags & KERNEL_PF_WORKERS)         /* as context_of_thread() */
                return -1;
        walk.process = python_of(sample);
        if (!walk.process || !walk.process->spans.context_type)
                return -1;
        walk.python = bpf_map_lookup_elem(&pythons, &zero);
        spans = bpf_map_lookup_elem(&python_span_walks, &zero);
        if (!walk.python || !spans)
                return -1;
        walk.python->thread_id = KERNEL_THREAD_POINTER(task) - walk.process->thread_below;
        if (!python_find(&walk, sample))
                return -1;
        if (walk.python->n_states != 1 || walk.python->has_more)
                return SDK_RESULT_INTERPRETERS;
        end = python_span_read(&walk.process->spans, spans, walk.python->states[0], &sample->span);
        return python_is(walk.process, sample) ? end : -1;
}

ABI_ASSERT(COUNTER_SDK_SPANS_NONE == COUNTER_SDK_SPANS_READ + SDK_RESULT_NONE);
ABI_ASSERT(COUNTER_SDK_SPANS_REMOTE == COUNTER_SDK_SPANS_READ + SDK_RESULT_REMOTE);
ABI_ASSERT(COUNTER_SDK_SPANS_UNLEARNED == COUNTER_SDK_SPANS_READ + SDK_RESULT_UNLEARNED);
ABI_ASSERT(COUNTER_SDK_SPANS_TYPE == COUNTER_SDK_SPANS_READ + SDK_RESULT_TYPE);
ABI_ASSERT(COUNTER_SDK_SPANS_FAULT == COUNTER_SDK_SPANS_READ + SDK_RESULT_FAULT);
ABI_ASSERT(COUNTER_SDK_SPANS_FAR == COUNTER_SDK_SPANS_READ + SDK_RESULT_FAR);
ABI_ASSERT(COUNTER_SDK_SPANS_INTERPRETERS == COUNTER_SDK_SPANS_READ + SDK_RESULT_INTERPRETERS);

static __always_inline void sdk_span_count(uint32_t result) {
        struct counters *counters = counters_get();

        barrier_var(result);            /* the check is of this very register */
        if (counters && result < SDK_RESULT_N)
                counters_count(counters, COUNTER_SDK_SPANS_READ + result, 1);
}

/* A context that the thread itself publishes comes first, also if it is none. */
static __always_inline void python_span_part(struct abi_sample *sample) {
        int result;

        if (!(runtime_kinds & RUNTIME_HAS_PYTHON) || sample->form != ABI_FORM_NONE)
                return;
        result = python_span_of_thread(sample);
        if (result < 0)
                return;
        sdk_span_count((uint32_t)result);
        sample->form = ABI_FORM_PYTHON;
        sample->attributes_size = 0;
        if (result == SDK_RESULT_READ) {
                sample->context = ABI_CONTEXT_PRESENT;
                sample->attributes_size = sizeof(struct python_span_facts);
                return;
        }
        sample->span = (struct abi_span){};
        if (result == SDK_RESULT_NONE || result == SDK_RESULT_REMOTE)
                sample->context = ABI_CONTEXT_NONE;
        else if (result != SDK_RESULT_UNLEARNED)
                sample->context = ABI_CONTEXT_UNREADABLE;
}

static __always_inline bool v8_is_of(const struct v8_process *process, const struct abi_sample *sample) {
        const volatile struct v8_process *live = process;

        return !process || live->generation == sample->generation;
}

/* Return: NULL = the process of @sample does not run V8. */
static __always_inline const struct v8_process *v8_of(const struct abi_sample *sample) {
        const struct v8_process *process;
        uint32_t tgid = sample->tgid;

        if (!(runtime_kinds & RUNTIME_HAS_V8))
                return NULL;
        process = bpf_map_lookup_elem(&v8_processes, &tgid);
        return process && v8_is_of(process, sample) ? process : NULL;
}

/*
 * As python_span_of_thread(), of a thread that has an isolate. SDK_RESULT_N = no context of an SDK is
 * current.
 */
__attribute__((noinline)) int v8_span_of_thread(struct abi_sample *sample) {
        struct task_struct *task = bpf_get_current_task_btf();
        const struct v8_process *process;
        struct v8_span_walk *walk;
        uint64_t isolate = 0;
        uint32_t zero = 0;
        int end;

        if (!sample || task->flags & KERNEL_PF_WORKERS)         /* as context_of_thread() */
                return -1;
        process = v8_of(sample);
        if (!process || !process->spans.isolate)
                return -1;
        walk = bpf_map_lookup_elem(&v8_span_walks, &zero);
        if (!walk ||
            bpf_probe_read_user(&isolate, sizeof(isolate),
                                (const void *)(KERNEL_THREAD_POINTER(task) + process->spans.isolate)) ||
            !isolate)
                return -1;
        end = (int)v8_span_read(&process->spans, walk, isolate, &sample->span);
        if (end == SDK_RESULT_NONE && !walk->context)
                end = SDK_RESULT_N;
        return v8_is_of(process, sample) ? end : -1;
}

/* A context that the thread itself publishes comes first, also if it is none. */
static __always_inline void v8_span_part(struct abi_sample *sample) {
        int result;

        if (!(runtime_kinds & RUNTIME_HAS_V8) || sample->form != ABI_FORM_NONE)
                return;
        result = v8_span_of_thread(sample);
        if (result < 0)
                return;
        sdk_span_count(result == SDK_RESULT_N ? SDK_RESULT_NONE : (uint32_t)result);
        if (result == SDK_RESULT_N)     /* OBI may know more */
                return;
        sample->form = ABI_FORM_V8;
        sample->attributes_size = 0;
        if (result == SDK_RESULT_READ) {
                sample->context = ABI_CONTEXT_PRESENT;
                return;
        }
        sample->span = (struct abi_span){};
        sample->context = result == SDK_RESULT_NONE || result == SDK_RESULT_REMOTE ? ABI_CONTEXT_NONE
                                                                                   : ABI_CONTEXT_UNREADABLE;
}

/* A global function, as context_of_thread(). What it says is in the sample. */
__attribute__((noinline)) int sdk_span_part(struct abi_sample *sample) {
        if (sample) {
                python_span_part(sample);
                v8_span_part(sample);
        }
        return 0;
}

static __always_inline void python_count(const struct python *python) {
        struct counters *counters = counters_get();

        if (!counters)
                return;
        if (python->is_cut)
                counters_count(counters, COUNTER_PYTHON_CUT, 1);
        else if (python->n_written + python->n_left_out < python->n_frames ||
                 python->mode == PYTHON_WRITES_REST)
                counters_count(counters, COUNTER_PYTHON_PARTIAL, 1);
        else
                counters_count(counters, COUNTER_PYTHON_WHOLE, 1);
}

/*
 * The goroutine and its labels. A global function, as context_of_thread(). Return: enum go_end; -1 = the
 * process does not run Go.
 */
__attribute__((noinline)) int go_of_thread(struct abi_sample *sample) {
        struct task_struct *task = bpf_get_current_task_btf();
        const struct go_process *process;
        uint32_t tgid, zero = 0, end;
        struct counters *counters;
        struct go_state *state;

        if (!sample || task->flags & KERNEL_PF_WORKERS)         /* as context_of_thread() */
                return -1;
        tgid = sample->tgid;
        process = bpf_map_lookup_elem(&go_processes, &tgid);
        if (!process || process->generation != sample->generation)
                return -1;
        counters = counters_get();
        state = bpf_map_lookup_elem(&go_states, &zero);
        if (!counters || !state)
                return -1;
        end = go_read(process, state, place_of_goroutine(task));
        /* as hotspot_is() */
        if (((const volatile struct go_process *)process)->generation != sample->generation)
                return -1;
        sample->attributes_size = end == GO_END_READ ? (uint16_t)state->size : 0;
        counters_count(counters, COUNTER_GO_LEFT_OUT, state->n_left_out);
        if (end == GO_END_READ)
                counters_count(counters, COUNTER_GO_READ, 1);
        else if (end == GO_END_NONE)
                counters_count(counters, COUNTER_GO_NONE, 1);
        else
                counters_count(counters, COUNTER_GO_UNREADABLE, 1);
        return (int)end;
}

/* A context that the thread itself publishes comes first. */
static __always_inline void go_part(struct abi_sample *sample) {
        int end;

        if (!(runtime_kinds & RUNTIME_HAS_GO) || sample->context == ABI_CONTEXT_PRESENT ||
            sample->attributes_size)
                return;
        end = go_of_thread(sample);
        if (end < 0)
                return;
        sample->form = ABI_FORM_GO;
        sample->context = end == GO_END_UNREADABLE ? ABI_CONTEXT_UNREADABLE : ABI_CONTEXT_NONE;
}

/*
 * The labels of a thread that publishes custom_labels_current_set; @labels is what it points to. A global
 * function, as context_of_thread(). Return: enum go_end.
 */
__attribute__((noinline)) int labels_of_thread(struct abi_sample *sample, uint64_t labels) {
        struct counters *counters = counters_get();
        struct go_state *state;
        uint32_t zero = 0, end;

        state = bpf_map_lookup_elem(&go_states, &zero);
        if (!sample || !counters || !state)
                return GO_END_UNREADABLE;
        end = go_read_custom(state, labels);
        sample->attributes_size = end == GO_END_READ ? (uint16_t)state->size : 0;
        counters_count(counters, COUNTER_CUSTOM_LABELS_LEFT_OUT, state->n_left_out);
        return (int)end;
}

static __always_inline void labels_part(struct scratch *scratch) {
        struct abi_sample *sample = &scratch->sample;

        if (sample->form == ABI_FORM_LABELS && sample->context == ABI_CONTEXT_NONE &&
            scratch->attributes_address &&
            labels_of_thread(sample, scratch->attributes_address) != GO_END_READ)
                sample->context = ABI_CONTEXT_UNREADABLE;
}

/*
 * Whether what was read in the nodes is theirs: they may be replaced during the walk, and their memory given
 * to another process. Generations are never used twice, so one look at the end tells. A walk that has read no
 * node has at most read a table, by the mapping of the walk before; its place is given to another file once
 * the change was counted, and not before.
 */
static __always_inline bool nodes_are(const struct rules *rules, const struct space *space) {
        if (!rules->has_searched && space->version == rows_version)
                return true;
        return space_generation(rules->space) == rules->generation;
}

static __attribute__((noinline)) void probes_count(const struct rules *rules) {
        struct counters *counters = counters_get();

        if (!counters)
                return;
        counters_count(counters, COUNTER_RETURN_PROBES, rules->probes.n);
        counters_count(counters, COUNTER_RETURN_PROBES_LOST, rules->probes.n_lost);
}

/* Walks by rows. If its nodes are replaced under it, only the interrupted pc is sure. */
static __always_inline void walk_by_rows(struct task_struct *task, struct scratch *scratch,
                                         const struct space *space, bool runtimes) {
        struct unwind *unwind = &scratch->unwind;
        struct rules *rules = &scratch->rules;
        struct rows_walk walk = { .unwind = unwind, .rules = rules, .frames = scratch->frames };
        const struct python_process *python = NULL;
        uint32_t zero = 0;

        walk.cache = bpf_map_lookup_elem(&row_caches, &zero);
        if (!walk.cache)
                return;
        rules_begin(rules, space->number, space->generation, unwind->n_frames);
        walk.states = &scratch->states;
        hotspot_begin(&scratch->states.hotspot);
        scratch->has_runtime = false;
        rules->is_strict = 0;
        if (runtimes) {
                walk.hotspot = hotspot_of(&scratch->sample);
                walk.python = php_begin(scratch, python_begin(task, scratch, &python));
                walk.v8 = v8_of(&scratch->sample);
                v8_begin(&scratch->states.v8);
                if (walk.python && walk.python->is_single)
                        unwind->window.size = WINDOW_WIDE_SIZE;
                /* Not by ||, which clang makes one of two pointers. */
                if (walk.hotspot)
                        scratch->has_runtime = true;
                if (python)
                        scratch->has_runtime = true;
                if (walk.v8)
                        scratch->has_runtime = true;
        }
        PART(WALK_BEGIN);
        if (has_bpf_loop())
                bpf_loop(ROW_ROUNDS, runtimes ? runtimes_by_loop : rows_by_loop, &walk, 0);
        else
                bpf_for_each_map_elem(&rounds, runtimes ? runtimes_by_map : rows_by_map, &walk, 0);
        PART(FRAMES);
        if (rules->probes.is_asked)
                probes_count(rules);
        if (rules->interrupted <= 0xff)
                scratch->sample.interrupted = rules->interrupted;
        if (unwind->end != ABI_STACK_STALE && nodes_are(rules, space) &&
            hotspot_is(walk.hotspot, &scratch->sample) && python_is(python, &scratch->sample) &&
            counted_stays(walk.python, &scratch->sample) && v8_is_of(walk.v8, &scratch->sample)) {
                if (walk.python) {
                        python_count(walk.python);
                        scratch->sample.task_size = (uint8_t)walk.python->awaits.name_size;
                }
                if (walk.hotspot)
                        hotspot_count_heap(&scratch->states.hotspot);
                if (unwind->end == ABI_STACK_RUNTIME)
                        hotspot_count(&scratch->states.hotspot);
                return;
        }
        rules->generation = 0;          /* the next walk must not use its mapping */
        unwind->end = ABI_STACK_STALE;
        unwind->n_frames = rules->first + 1;
        /* The first frame may be of a runtime, and of several words. */
        if (rules->first < UNWIND_MAX_FRAMES)
                scratch->frames[rules->first] = scratch->leaf.pc;
        scratch->sample.interrupted = 0;
}

/* Return: bytes in the record. */
static __always_inline uint64_t go_attributes(struct scratch *scratch, uint64_t n_frames, uint64_t size) {
        uint32_t zero = 0;
        const struct go_state *state = bpf_map_lookup_elem(&go_states, &zero);

        if (state && size <= ABI_MAX_ATTRIBUTES_SIZE &&
            !bpf_probe_read_kernel(scratch->frames + n_frames, size, state->bytes))
                return (size + 7) & ~7ULL;
        scratch->sample.attributes_size = 0;
        return 0;
}

/* Name and parent of the span that was found in Python's context. Return: bytes in the record. */
static __always_inline uint64_t python_attributes(struct scratch *scratch, uint64_t n_frames) {
        uint32_t zero = 0;
        const struct python_span_walk *walk = bpf_map_lookup_elem(&python_span_walks, &zero);

        if (walk && !bpf_probe_read_kernel(scratch->frames + n_frames, sizeof(walk->facts), &walk->facts))
                return sizeof(walk->facts);
        scratch->sample.attributes_size = 0;
        return 0;
}

/*
 * Attributes that do not fit, or cannot be read, are left out; the span stays. Return: bytes in the record.
 */
static __always_inline uint64_t attributes_part(struct scratch *scratch, uint64_t n_frames,
                                                struct counters *counters) {
        uint64_t size = scratch->sample.attributes_size;

        if (!size)
                return 0;
        if (scratch->sample.form == ABI_FORM_GO || scratch->sample.form == ABI_FORM_LABELS)
                return go_attributes(scratch, n_frames, size);
        if (scratch->sample.form == ABI_FORM_PYTHON)
                return python_attributes(scratch, n_frames);
        if (size <= ABI_MAX_ATTRIBUTES_SIZE &&
            !bpf_probe_read_user(scratch->frames + n_frames, size, (const void *)scratch->attributes_address))
                return (size + 7) & ~7ULL;
        scratch->sample.attributes_size = 0;
        counters_count(counters, COUNTER_CONTEXT_ATTRIBUTES_UNREADABLE, 1);
        return 0;
}

/*
 * The name of the running task of Python, or what tells the process of Erlang, behind the attributes: at word
 * @at. Return: bytes in the record.
 */
static __always_inline uint64_t task_part(struct scratch *scratch, uint64_t at) {
        const struct python *python;
        const struct beam *beam;
        uint32_t zero = 0;

        if (!scratch->sample.task_size)
                return 0;
        if (scratch->sample.task_size == BEAM_TASK_SIZE) {
                beam = bpf_map_lookup_elem(&beams, &zero);
                if (beam && at <= UNWIND_MAX_FRAMES + ABI_MAX_ATTRIBUTES_SIZE / 8 &&
                    !bpf_probe_read_kernel(scratch->frames + at, BEAM_TASK_SIZE, &beam->task))
                        return BEAM_TASK_SIZE;
                scratch->sample.task_size = 0;
                return 0;
        }
        python = bpf_map_lookup_elem(&pythons, &zero);
        if (python && at <= UNWIND_MAX_FRAMES + ABI_MAX_ATTRIBUTES_SIZE / 8 &&
            !bpf_probe_read_kernel(scratch->frames + at, PYTHON_TASK_SIZE, python->awaits.name)) {
                scratch->sample.task_size = PYTHON_TASK_SIZE;
                return PYTHON_TASK_SIZE;
        }
        scratch->sample.task_size = 0;
        return 0;
}

/* SPDX-License-Identifier: GPL-2.0-only */
#pragma once

/*
 * Runs
 *
 * CPU time of spans. A thread's run lies between two switches. The span at its end is read anyway, for the
 * wait that begins there, and the element still has the one from its begin:
 *
 *     out, span A      in               out, span A     the whole run is A's
 *     ├─── waits ──────┼──── runs ──────┤
 *                                       out, span B     split by the ticks in such runs (daemon)
 *
 * A tick inside of a whole run may have met another span, which came and went in it. It is told apart.
 *
 * How long the thread ran is the scheduler's own count: it is exact as the thread leaves its CPU, and a
 * kernel that hides switches does not hide it. What is known of a run goes with the wait behind it.
 */

#include "waits/waits.bpf.h"
#include "walk/run-ticks.bpf.h"

/* Threads that were born later (BOOTTIME) are seen from their first run on. The daemon sets it. */
volatile uint64_t runs_since_ns = 0;

static __always_inline bool run_is_whole(const struct wait_thread *thread, const struct abi_sample *sample) {
        bool had = thread->key.context == ABI_CONTEXT_PRESENT, has = sample->context == ABI_CONTEXT_PRESENT;

        if (had || has)
                return had && has && run_is_same(&thread->key.span, &sample->span);
        return abi_context_is_told(thread->key.context) && abi_context_is_told(sample->context);
}

/* Whether the element knows when the current run began. */
static __always_inline bool run_is_known(struct task_struct *task, const struct wait_thread *thread,
                                         const struct abi_sample *sample, uint64_t n_switches) {
        if (thread->n_switches)
                return thread->generation == sample->generation;
        return n_switches == 1 && task->start_boottime >= runs_since_ns;
}

/* Before the element is told of the wait that begins, whose record is in @sample. */
static __always_inline void run_end(struct task_struct *task, struct wait_thread *thread,
                                    const struct abi_sample *sample, struct counters *counters) {
        uint64_t cpu_ns = task->se.sum_exec_runtime, n_switches = run_switches(task);

        thread->run.ns = cpu_ns - thread->cpu_ns;
        thread->run.n_moved = 0;
        thread->run.kind = RUN_UNKNOWN;
        if (run_is_known(task, thread, sample, n_switches)) {
                thread->run.kind = run_is_whole(thread, sample) ? RUN_WHOLE : RUN_SPLIT;
        } else {
                thread->run.ns = 0;
                counters->values[COUNTER_RUNS_UNKNOWN]++;
        }
        thread->cpu_ns = cpu_ns;
        thread->n_switches = n_switches;
}

/* Return: the ticks of the current thread's run, or NULL = there were none. */
static __always_inline struct run_ticks *run_ticks_of(uint64_t task, uint64_t n_switches) {
        struct run_ticks *ticks;
        uint32_t zero = 0;

        ticks = bpf_map_lookup_elem(&run_ticks, &zero);
        return ticks && ticks->n && ticks->task == task && ticks->n_switches + 1 == n_switches ? ticks : NULL;
}

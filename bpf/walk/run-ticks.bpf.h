/* SPDX-License-Identifier: GPL-2.0-only */
#pragma once

/*
 * Ticks of a Run
 *
 * The spans that ticks have met since the current thread was given its CPU. A run is on one CPU, and so are
 * its ticks. The sampler writes, and offcpu.bpf.c reads as the thread leaves its CPU (wait-run.bpf.h). Both
 * run with interrupts off.
 */

#include "border/kernel.bpf.h"

#include "border/abi.h"

enum {
        RUN_TICKS_SPANS = 4,            /* distinct ones of a run; further ticks are left out, and counted */
};

/* The task's words beside those that samples need. */
struct task_struct___switches {
        unsigned long nvcsw, nivcsw;    /* times that it left a CPU: to wait, and as others came */
} KERNEL_TYPE;

struct run_tick {
        struct abi_span span;           /* zero = none */
        uint64_t n;
};

struct run_ticks {
        uint64_t task;                  /* thread of the run, by the address of the task */
        uint64_t n_switches;            /* times that it had left a CPU before */
        uint64_t n;
        struct run_tick ticks[RUN_TICKS_SPANS];
};

struct {
        __uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
        __uint(max_entries, 1);
        __type(key, uint32_t);
        __type(value, struct run_ticks);
} run_ticks SEC(".maps");

static __always_inline uint64_t run_switches(struct task_struct *task) {
        const struct task_struct___switches *counts = (const void *)task;

        return counts->nvcsw + counts->nivcsw;
}

static __always_inline bool run_is_same(const struct abi_span *a, const struct abi_span *b) {
        return !((a->trace_high ^ b->trace_high) | (a->trace_low ^ b->trace_low) | (a->span ^ b->span));
}

/* A tick of the current thread, whose context is in @sample. A global function, as rows_rule(). */
__attribute__((noinline)) int run_add_tick(const struct abi_sample *sample, uint64_t n_switches) {
        uint64_t task = bpf_get_current_task();
        struct run_ticks *run;
        struct abi_span span = {};
        uint32_t zero = 0;

        run = bpf_map_lookup_elem(&run_ticks, &zero);
        if (!run || !sample)
                return 0;
        if (sample->context == ABI_CONTEXT_PRESENT)
                span = sample->span;
        if (run->task != task || run->n_switches != n_switches) {
                run->task = task;
                run->n_switches = n_switches;
                run->n = 0;
        }
        for (uint32_t i = 0; i < RUN_TICKS_SPANS; i++) {
                if (i == run->n) {
                        run->ticks[i].span = span;
                        run->ticks[i].n = 0;
                        run->n++;
                }
                if (!run_is_same(&run->ticks[i].span, &span))
                        continue;
                run->ticks[i].n++;
                return 0;
        }
        return 1;
}

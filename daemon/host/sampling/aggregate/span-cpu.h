/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * CPU of Spans
 *
 * Adds up CPU time by service and operation, from runs between switches (bpf/waits/wait-run.bpf.h), or from
 * samples where no waits are recorded. The operation of a span is an attribute that its threads publish,
 * which samples and walked waits carry. So time may come before its operation: it is held until the window
 * closes, and one window more while the operation is not known.
 *
 *     whole run ─▶ its span ─▶ row (service, operation)          none at both ends ─▶ outside, of the service
 *     split run ─▶ split, of the service ─▶ by the ticks in such runs, when the window closes
 *     a tick in a whole run that met another span: one tick's time goes from the run's owner to that span
 *
 * Sums only grow: what is taken back from a row is held back from its next time.
 *
 * What a thread has allocated is added up in the same way, in bytes instead of ns, by a SpanCpu of its own:
 * from the thread's count at each tick that has one (span_cpu_add_count()).
 */

#include <stdint.h>

#include "border/offcpu_abi.h"
#include "core/base/util/macro.h"
#include "host/sampling/context/publication.h"
#include "host/sampling/sample/decode.h"

typedef struct SpanCpu SpanCpu;

enum {
        SPAN_CPU_MAX_SERVICES = 256,    /* then SPAN_CPU_OVERFLOW stands for others, as for operations */
        SPAN_CPU_MAX_ROWS = 1000,
        SPAN_CPU_MAX_SPANS = 16384,     /* spans of a window that wait for their operation or have it */
        SPAN_CPU_MAX_TICKS = 4096,      /* ticks of a window, in split runs */
        SPAN_CPU_MAX_THREADS = 16384,   /* threads whose count is known */
};

#define SPAN_CPU_OVERFLOW "__overflow__"

/* CPU time of the runs before one wait, or before a sum of waits. */
typedef struct SpanCpuRuns {
        uint64_t whole_ns, split_ns;
        uint32_t n_moved, n_split, n_inside;    /* as in struct abi_wait_sum */
} SpanCpuRuns;

/* A span that took much of a row's time lately. */
typedef struct SpanCpuExemplar {
        struct abi_span span;
        uint64_t ns;                    /* 0 = there is none */
        uint64_t time_ns;               /* REALTIME */
} SpanCpuExemplar;

typedef struct SpanCpuRow {
        const char *service;            /* UTF-8, as is the operation; "" = it has none, or it is not known */
        const char *operation;
        uint64_t ns;
        const SpanCpuExemplar *exemplar;
} SpanCpuRow;

typedef struct SpanCpuService {
        const char *name;
        uint64_t outside_ns;
        uint64_t split_ns;              /* CPU time that no tick has split yet */
} SpanCpuService;

/*
 * @key: of the attribute that names operations, borrowed; NULL = those of core/profile/operation.h, "" = no
 * span has an operation. Return: 0, -ENOMEM.
 */
int span_cpu_new(SpanCpu **cpup, const char *key);
SpanCpu *span_cpu_free(SpanCpu *cpu);
DEFINE_CLEANUP(SpanCpu, span_cpu_free)

/*
 * Looks for the operation of the sample's span in its attributes, or in the labels of its goroutine, and adds
 * @tick_ns to that span: what the sample stands for, 0 where runs are told. Return: 0, -ENOMEM.
 */
int span_cpu_add_sample(SpanCpu *cpu, const Program *program, const Sample *sample, uint64_t tick_ns);

/*
 * @name is the `span.name` of @span, which no thread publishes: it is known otherwise. It is no operation where
 * another attribute is. Return: 0, -ENOMEM.
 */
int span_cpu_add_name(SpanCpu *cpu, const Program *program, const struct abi_span *span, const char *name);

/* @header: whose runs, and the span. @tick_ns: what one tick stands for. Return: 0, -ENOMEM. */
int span_cpu_add(SpanCpu *cpu, const Program *program, const struct abi_sample *header,
                 const SpanCpuRuns *runs, uint64_t tick_ns);

/*
 * Pure. Whether a sample is a tick with all bytes of its thread (ABI_VALUE_*), and it is known which span it
 * met. If the span cannot be read, the bytes are left to the next tick.
 */
bool span_cpu_has_count(const struct abi_sample *header);

/*
 * What the thread of @sample, which has a count, has allocated since its tick before belongs to the span of
 * both, if that is one. If it is not, or a virtual thread was carried at either, half of it belongs to each,
 * and counts as split, too. Return: 0, -ENOMEM.
 */
int span_cpu_add_count(SpanCpu *cpu, const Program *program, const Sample *sample);

/* A window closes. Return: 0, -ENOMEM. */
int span_cpu_rotate(SpanCpu *cpu);

void span_cpu_each_row(const SpanCpu *cpu, void (*visit)(void *userdata, const SpanCpuRow *row),
                       void *userdata);
void span_cpu_each_service(const SpanCpu *cpu, void (*visit)(void *userdata, const SpanCpuService *service),
                           void *userdata);

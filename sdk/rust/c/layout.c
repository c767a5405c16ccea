/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Layout of what src/layout.rs declares, as the compiler of C sees it
 *
 * In the order of the test in src/layout.rs, which compares each number. Nothing else refers to this.
 */
#include <stddef.h>

#include "spanprof/context.h"
#include "spanprof/otel.h"
#include "spanprof/process.h"
#include "spanprof/ring.h"
#include "spanprof/thread.h"

#define OPTIONS struct spanprof_context_options
#define ATTRIBUTE struct spanprof_otel_attribute
#define PROCESS struct spanprof_otel_process
#define ROOT struct spanprof_otel_root
#define RECORD struct spanprof_thread_record

__attribute__((__visibility__("default"))) const size_t spanprof_rust_layout[] = {
        SPANPROF_CONTEXT_RING,
        SPANPROF_CONTEXT_THREAD,
        sizeof(OPTIONS),
        offsetof(OPTIONS, size),
        offsetof(OPTIONS, capacity),
        offsetof(OPTIONS, storage),
        sizeof(ATTRIBUTE),
        offsetof(ATTRIBUTE, key),
        offsetof(ATTRIBUTE, value),
        sizeof(PROCESS),
        offsetof(PROCESS, size),
        offsetof(PROCESS, n_attributes),
        offsetof(PROCESS, attributes),
        offsetof(PROCESS, n_keys),
        offsetof(PROCESS, keys),
        sizeof(ROOT),
        offsetof(ROOT, number),
        offsetof(ROOT, name),
        offsetof(ROOT, thread),
        sizeof(RECORD),
        offsetof(RECORD, trace_id),
        offsetof(RECORD, span_id),
        offsetof(RECORD, valid),
        offsetof(RECORD, trace_flags),
        offsetof(RECORD, attributes_size),
        SPANPROF_THREAD_VALID,
};

const size_t spanprof_rust_n_layout = sizeof(spanprof_rust_layout) / sizeof(spanprof_rust_layout[0]);
const char spanprof_rust_thread_symbol[] = SPANPROF_THREAD_SYMBOL;
const char spanprof_rust_environment[] = SPANPROF_CONTEXT_ENVIRONMENT;

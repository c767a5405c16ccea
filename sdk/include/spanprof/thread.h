/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only */
#pragma once

/*
 * Thread Context: the layout that a thread publishes
 *
 * A thread-local pointer with the name SPANPROF_THREAD_SYMBOL, exported by the
 * executable or a library (OpenTelemetry enhancement proposal 4947). NULL = no
 * context; else it points to this header and the attributes behind it. Readers
 * look only while the thread is interrupted.
 *
 * Ids are in the order of the wire (big endian), integers native. An attribute
 * is {u8 index of its key, u8 length, bytes}; the names of the keys stand in the
 * process context (spanprof/process.h). Of two with one key the last counts.
 */

#ifndef __bpf__
#include <assert.h>
#include <stdint.h>
#endif

#define SPANPROF_THREAD_SYMBOL "otel_thread_ctx_v1"

enum {
        SPANPROF_THREAD_VALID = 1,
        SPANPROF_THREAD_MAX_ATTRIBUTES = 612,   /* bytes that writers reserve for attributes */
};

struct spanprof_thread_record {
        uint8_t trace_id[16];
        uint8_t span_id[8];
        uint8_t valid;                  /* 1 = may be read; anything else: no context, or being written */
        uint8_t trace_flags;
        uint16_t attributes_size;       /* bytes of attributes that follow */
};

#ifndef __cplusplus
_Static_assert(sizeof(struct spanprof_thread_record) == 28, "header is 28 bytes");
#else
static_assert(sizeof(spanprof_thread_record) == 28, "layout");
#endif

/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Goroutine Labels
 *
 * What a sample has of its goroutine (bpf/border/runtime_abi.h, struct go_process): its id, and the labels
 * that runtime/pprof gave it. Labels of a thread (custom_labels_current_set) come in the same bytes, with the
 * id 0. Labels that tracers are known to write become the sample's span:
 *
 *     trace_id (32 hex), span_id (16 hex)             OpenTelemetry, by grafana/otel-profiling-go
 *     local root span id, span id (decimal)           Datadog, dd-trace-go
 *
 * As in the ring (spanprof/ring.h), Datadog's local root span is the low half of a trace id whose high half
 * is 0. Of two labels with one key the first counts. All other labels, and ids without their counterpart, are
 * attributes.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "border/abi.h"

/* A label: any bytes, not terminated. */
typedef struct GoroutineLabel {
        const uint8_t *key, *value;
        uint8_t key_size, value_size;   /* key_size > 0 */
} GoroutineLabel;

/* Pure. Takes the label at *@at of @size bytes, and moves *@at. Return: false = no whole one is there. */
bool goroutine_labels_next(const uint8_t *bytes, size_t size, size_t *at, GoroutineLabel *label);

typedef struct GoroutineContext {
        uint64_t goid;                  /* 0 = not known */
        struct abi_span span;           /* zeros = none */
        uint64_t local_root;            /* root span of Datadog's ids, 0 = none */
        /* as they came, from the id on, without the labels that are in `span`, and each key once */
        uint8_t attributes[ABI_MAX_ATTRIBUTES_SIZE];
        size_t attributes_size;         /* 0, or at least GO_HEADER_SIZE */
} GoroutineContext;

/*
 * Pure. @bytes: @size ≤ ABI_MAX_ATTRIBUTES_SIZE. @with_id: the goroutine's id counts as an attribute; else
 * it is zero there. Return: false = malformed: what is sound in front of it was taken.
 */
bool goroutine_context_read(const uint8_t *bytes, size_t size, bool with_id, GoroutineContext *context);

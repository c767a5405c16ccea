/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * V8 Spans Shim
 *
 * The way to a span in V8's memory (bpf/runtimes/v8_spans.bpf.h), with its global functions, which the kernel
 * half has elsewhere. For one file of a program. Include behind rows-shim.h.
 */

#include "runtimes/v8_spans.bpf.h"

int v8_span_open(struct v8_span_walk *walk, uint64_t tagged) {
        return v8_span_do_open(walk, tagged);
}

int v8_span_property(struct v8_span_walk *walk, uint32_t name, uint32_t index) {
        return v8_span_do_property(walk, name, index);
}

int v8_span_find(struct v8_span_walk *walk, uint32_t name) {
        return v8_span_do_find(walk, name);
}

int v8_span_table(const struct v8_spans *spans, struct v8_span_walk *walk, uint64_t tagged) {
        return v8_span_do_table(spans, walk, tagged);
}

int v8_span_store(const struct v8_spans *spans, struct v8_span_walk *walk, uint32_t index) {
        return v8_span_do_store(spans, walk, index);
}

int v8_span_pair(const struct v8_spans *spans, struct v8_span_walk *walk, uint32_t index) {
        return v8_span_do_pair(spans, walk, index);
}

int v8_span_digits(struct v8_span_walk *walk, uint64_t tagged, uint32_t n) {
        return v8_span_do_digits(walk, tagged, n);
}

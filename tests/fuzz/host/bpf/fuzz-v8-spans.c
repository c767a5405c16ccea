/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Fuzz: the kernel half's way to the span of OpenTelemetry's SDK for Node.js, through Maps, hidden classes and
 * Strings that no V8 has. The input is what the daemon has found (bpf/border/runtime_abi.h), then the memory
 * that begins with the isolate. Whatever they hold: the way ends within its reads, for one reason, and a span
 * that it gives has both ids. Recipe of the corpus: make-v8-corpus.py.
 */

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "shim/bpf-shim.h"
#include "shim/rows-shim.h"
#include "shim/v8-spans-shim.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* host/runtime/v8/v8-layout.h, whose other names are those of the kernel half, too */
bool v8_spans_are_sound(const struct v8_spans *spans);

enum { MEMORY = 0x20000000 };

static _Alignas(8) uint8_t memory[16384];

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
        struct v8_span_walk walk = { 0 };
        struct v8_spans spans;
        struct abi_span span = { 0 };
        uint32_t result;

        if (size < sizeof(spans))
                return 0;
        memcpy(&spans, data, sizeof(spans));
        size -= sizeof(spans);
        if (!v8_spans_are_sound(&spans))
                return 0;
        memset(memory, 0, sizeof(memory));
        memcpy(memory, data + sizeof(spans), size < sizeof(memory) ? size : sizeof(memory));
        shim_areas[0] = (ShimArea){ .address = MEMORY, .size = sizeof(memory), .data = memory };
        result = v8_span_read(&spans, &walk, MEMORY, &span);
        if (walk.n_reads > V8_MAX_SPAN_READS || result >= SDK_RESULT_INTERPRETERS ||
            result == SDK_RESULT_UNLEARNED)
                abort();
        if (result == SDK_RESULT_READ && (!span.span || !(span.trace_high | span.trace_low)))
                abort();
        return 0;
}

/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Fuzz: the kernel half's way to the span of OpenTelemetry's SDK for Python, through trees, dicts and objects
 * that no interpreter has. The input is what the daemon has learned (bpf/border/runtime_abi.h), then the
 * memory that its addresses lead to. Whatever they hold: the way ends within its reads, for one reason, and a
 * span that it gives has both ids. Recipe of the corpus: make-python-corpus.py.
 */

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "shim/bpf-shim.h"
#include "shim/rows-shim.h"

#include "runtimes/python_spans.bpf.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* host/runtime/python/python-span.h, whose other names are those of the kernel half, too */
bool python_span_check(const struct python_spans *spans);

enum { MEMORY = 0x20000000 };

static _Alignas(8) uint8_t memory[16384];

int python_hamt_step(const struct python_spans *spans, struct python_span_walk *walk) {
        return python_hamt_do_step(spans, walk);
}

int python_keys_step(const struct python_spans *spans, struct python_span_walk *walk) {
        return python_keys_do_step(spans, walk);
}

static void check(const struct python_span_walk *walk, uint32_t end, const struct abi_span *span) {
        const struct python_span_facts *facts = &walk->facts;
        uint32_t result = python_span_result(walk, end);

        if (walk->n_reads > PYTHON_MAX_SPAN_READS || result >= SDK_RESULT_INTERPRETERS)
                abort();
        if ((end == PYTHON_SPAN_READ) != (result == SDK_RESULT_READ))
                abort();
        if ((end == PYTHON_SPAN_UNREADABLE) != (result >= SDK_RESULT_TYPE))
                abort();
        if (end != PYTHON_SPAN_READ)
                return;
        if (!span->span || !(span->trace_high | span->trace_low))
                abort();
        if (facts->place > PYTHON_PLACE_CHILD || (facts->place == PYTHON_PLACE_CHILD) != !!facts->parent)
                abort();
        if (facts->name_size && facts->name_size != PYTHON_NAME_FEW && facts->name_size != PYTHON_NAME_SIZE)
                abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
        struct python_span_walk walk;
        struct python_spans spans;
        struct abi_span span;

        if (size < sizeof(spans))
                return 0;
        memcpy(&spans, data, sizeof(spans));
        size -= sizeof(spans);
        if (!python_span_check(&spans))
                return 0;
        memset(memory, 0, sizeof(memory));
        memcpy(memory, data + sizeof(spans), size < sizeof(memory) ? size : sizeof(memory));
        shim_areas[0] = (ShimArea){ .address = MEMORY, .size = sizeof(memory), .data = memory };
        memset(&walk, 0xee, sizeof(walk));
        check(&walk, python_span_do_read(&spans, &walk, MEMORY, &span), &span);
        return 0;
}

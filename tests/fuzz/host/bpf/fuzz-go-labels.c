/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Fuzz: the kernel half's way to a goroutine's labels, in memory that no program of Go has, and what the
 * daemon makes of what was found there. The first byte is the form (bit 2: labels of a thread, not of Go);
 * the rest is memory, in which every word
 * below its size stands for an address in it. Whatever it holds: what is read fits a record, consists of
 * whole labels, and takes a bounded number of reads. Recipe of the corpus: make-go-labels-corpus.py.
 */

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "shim/bpf-shim.h"
#include "host/runtime/go/go-host.h"

#include "host/sampling/context/goroutine-labels.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum {
        MEMORY = 0x20000000,
        SIZE = 8192,
        SET = 0x500,                    /* where the recipe puts the set of labels */
        /* g, m, curg, set; chunks or buckets; two strings for each label that fits */
        MAX_READS = 16 + 2 * GO_MAX_CHUNKS + GO_MAX_BUCKETS + 4 * GO_CHUNK * GO_MAX_CHUNKS,
};

static _Alignas(8) uint8_t memory[SIZE];

static void relocate(void) {
        for (size_t i = 0; i < SIZE; i += 8) {
                uint64_t word;

                memcpy(&word, memory + i, sizeof(word));
                if (word >> 32 == 1)    /* an address, as the recipe writes it */
                        word = MEMORY + (word & (SIZE - 1));
                memcpy(memory + i, &word, sizeof(word));
        }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
        static struct go_state state;
        static GoroutineContext context;
        struct go_process process = { .tls_offset = -8, .m = 48, .goid = 152, .labels = 344, .curg = 192 };
        size_t at = GO_HEADER_SIZE;
        GoroutineLabel label;
        uint32_t end;

        if (!size)
                return 0;
        process.form = data[0] & 1 ? GO_LABELS_MAP : GO_LABELS_SLICE;
        memset(memory, 0, sizeof(memory));
        memcpy(memory, data + 1, size - 1 < SIZE ? size - 1 : SIZE);
        relocate();
        shim_areas[0] = (ShimArea){ .address = MEMORY, .size = SIZE, .data = memory };
        shim_n_reads = 0;
        end = data[0] & 4 ? go_do_read_custom(&state, MEMORY + SET)
                          : go_do_read(&process, &state, MEMORY + 8);
        if (end > GO_END_UNREADABLE || state.size > ABI_MAX_ATTRIBUTES_SIZE || shim_n_reads > MAX_READS)
                abort();
        while (state.size && goroutine_labels_next(state.bytes, state.size, &at, &label))
                ;
        if (state.size && at != state.size)
                abort();
        if (state.size && !goroutine_context_read(state.bytes, state.size, data[0] & 2, &context))
                abort();
        /* any bytes as well: a record comes from a buffer that is not trusted */
        if (size > ABI_MAX_ATTRIBUTES_SIZE)
                size = ABI_MAX_ATTRIBUTES_SIZE;
        goroutine_context_read(data, size, data[0] & 2, &context);
        if (context.attributes_size > ABI_MAX_ATTRIBUTES_SIZE)
                abort();
        return 0;
}

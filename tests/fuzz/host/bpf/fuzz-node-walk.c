/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Fuzz: the way to the record of Node, in memory that no V8 has. The data is memory, in which every word with
 * 1 in its upper half stands for an address in it; the last word is the layout that the process would tell.
 * Whatever it holds: the walk ends after a bounded number of reads, and says a record only with an address
 * that can be one. Recipe of the corpus: make-node-walk-corpus.py.
 */

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "shim/bpf-shim.h"
#include "shim/node-shim.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum {
        MEMORY = 0x20000000,
        SIZE = 4096,
        MAX_READS = 12 + NODE_MAX_CHAIN,
};

static _Alignas(8) uint8_t memory[SIZE];

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
        uint64_t record = 0, word;
        struct node_layout told;
        enum node_end end;

        memset(memory, 0, sizeof(memory));
        memcpy(memory, data, size < SIZE ? size : SIZE);
        for (size_t i = 0; i < SIZE; i += 8) {
                memcpy(&word, memory + i, sizeof(word));
                if (word >> 32 == 1)
                        word = MEMORY + (word & (SIZE - 1));
                memcpy(memory + i, &word, sizeof(word));
        }
        memcpy(&told, memory + SIZE - sizeof(told), sizeof(told));
        shim_areas[0] = (ShimArea){ .address = MEMORY, .size = SIZE, .data = memory };
        shim_n_reads = 0;
        end = node_find_record(NULL, &told, MEMORY, &record);
        if (end > NODE_UNREADABLE || shim_n_reads > MAX_READS)
                abort();
        if (end == NODE_FOUND && (!record || record & 1))
                abort();
        return 0;
}

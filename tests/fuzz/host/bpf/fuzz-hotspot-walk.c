/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Fuzz: the kernel half's walk over frames of HotSpot, with an entry, a code cache and stacks that no virtual
 * machine has. The input is the entry, then the memory that its addresses lead to. Whatever they hold: it
 * ends, cuts no frame, and writes none beyond its limit. Recipe of the corpus: make-hotspot-walk-corpus.py.
 */

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "shim/bpf-shim.h"
#include "shim/rows-shim.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum {
        MEMORY = 0x20000000,            /* stack, code heap, segment map and methods at once */
        DEPTH = 64,
};

static _Alignas(8) uint8_t memory[16384];

static uint64_t into(uint64_t address) {
        return MEMORY + address % sizeof(memory);
}

static void begin(struct unwind *unwind, struct rules *rules, struct hotspot_process *process) {
        struct unwind_mapping mappings[] = { { .start = 0x10000, .n_pages = 1, .table = UNWIND_NO_TABLE } };

        nodes_build(&shim_nodes, mappings, 1, 1);
        shim_areas[0] = (ShimArea){ .address = MEMORY, .size = sizeof(memory), .data = memory };
        process->low = MEMORY;
        process->size = sizeof(memory) / 2;
        process->call_stub = into(process->call_stub);
        process->interpreter = into(process->interpreter);
        process->heaps[0] = (struct hotspot_heap){ MEMORY, sizeof(memory) / 2,
                                                   into(process->heaps[0].segment_map) };
        shim_hotspot = process;
        shim_begin(unwind, rules, DEPTH);
        memcpy(rules->registers, memory + 64, sizeof(rules->registers));
        memcpy(&unwind->pc, memory, 8);
        unwind->pc = MEMORY + unwind->pc % (sizeof(memory) / 2);
        unwind->sp = into((uint64_t)memory[8] * 64);
        unwind->bp = into((uint64_t)memory[9] * 64);
        rules->registers[13] = into(rules->registers[13]);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
        static uint64_t frames[UNWIND_MAX_FRAMES];
        static struct hotspot_process process;
        static struct rows_cache cache;
        static struct unwind unwind;
        static struct rules rules;
        size_t in_entry = size < sizeof(process) ? size : sizeof(process);

        memset(&process, 0, sizeof(process));
        memset(memory, 0, sizeof(memory));
        memset(&cache, 0, sizeof(cache));
        memset(&rules, 0, sizeof(rules));
        memcpy(&process, data, in_entry);
        memcpy(memory, data + in_entry, size - in_entry < sizeof(memory) ? size - in_entry : sizeof(memory));
        begin(&unwind, &rules, &process);
        shim_walk(&unwind, &rules, frames, &cache);
        shim_check_frames(&unwind, frames, DEPTH, RUNTIME_NATIVE);
        return 0;
}

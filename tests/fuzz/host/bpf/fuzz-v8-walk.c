/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Fuzz: the kernel half's walk over frames of V8, with an entry, functions, code and stacks that no V8 has.
 * The input is the entry, places of pc, rsp and rbp in the memory, then memory, which is stack, heap and code
 * at once. Whatever it holds: the walk ends, cuts no frame, and writes none beyond its limit. Recipe of the
 * corpus: make-v8-corpus.py.
 */

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "shim/bpf-shim.h"
#include "shim/rows-shim.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum {
        MEMORY = 0x20000000,
        DEPTH = 64,
};

static _Alignas(8) uint8_t memory[16384];

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
        struct unwind_mapping mappings[] = { { .start = MEMORY, .n_pages = 4, .table = UNWIND_NO_TABLE } };
        static uint64_t frames[UNWIND_MAX_FRAMES];
        static struct rows_cache cache;
        struct v8_process process;
        struct unwind unwind = { 0 };
        struct rules rules = { 0 };
        uint16_t places[4];

        if (size < sizeof(process) + sizeof(places))
                return 0;
        memcpy(&process, data, sizeof(process));
        memcpy(places, data + sizeof(process), sizeof(places));
        data += sizeof(process) + sizeof(places);
        size -= sizeof(process) + sizeof(places);
        memset(memory, 0, sizeof(memory));
        memcpy(memory, data, size < sizeof(memory) ? size : sizeof(memory));
        nodes_build(&shim_nodes, mappings, 1, 1);
        shim_areas[0] = (ShimArea){ .address = MEMORY, .size = sizeof(memory), .data = memory };
        memset(&cache, 0, sizeof(cache));
        for (unsigned i = 0; i < RULES_N_REGISTERS; i++)
                rules.registers[i] = MEMORY + (uint64_t)places[3] + i;
        shim_v8 = &process;
        shim_begin(&unwind, &rules, DEPTH);
        unwind.pc = MEMORY + (uint64_t)places[0];
        unwind.sp = MEMORY + (uint64_t)places[1];
        unwind.bp = MEMORY + (uint64_t)places[2];
        shim_walk(&unwind, &rules, frames, &cache);
        /* a leaf's builtin comes with its function */
        shim_check_frames(&unwind, frames, DEPTH + 1, RUNTIME_NATIVE);
        return 0;
}

/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Fuzz: the kernel half's walk over frames of Python, with an entry, thread states, chains and stacks that no
 * interpreter has. The input is the entry, then the memory that its addresses lead to. Whatever they hold: it
 * ends, cuts no frame, and writes none beyond its limit. Recipe of the corpus: make-python-corpus.py.
 */

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "shim/bpf-shim.h"
#include "shim/rows-shim.h"
#include "shim/python-shim.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum {
        MEMORY = 0x20000000,            /* stack, thread states, frames and code objects at once */
        TEXT = 0x10000,
        DEPTH = 64,
        POINTER = 0x4242,
};

static _Alignas(8) uint8_t memory[16384];

static void check(const struct unwind *unwind, const struct python *python, const uint64_t *frames) {
        uint32_t n_python = shim_check_frames(unwind, frames, DEPTH, RUNTIME_PYTHON);

        if (python && (n_python != python->n_written || python->n_written > python->n_frames))
                abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
        struct unwind_mapping mappings[] = { { .start = TEXT, .n_pages = 1, .table = UNWIND_NO_TABLE } };
        static uint64_t frames[UNWIND_MAX_FRAMES];
        static struct rows_cache cache;
        static struct python python;
        struct python_process process;
        struct unwind unwind = { 0 };
        struct rules rules = { 0 };

        if (size < sizeof(process))
                return 0;
        memcpy(&process, data, sizeof(process));
        size -= sizeof(process);
        memset(memory, 0, sizeof(memory));
        memcpy(memory, data + sizeof(process), size < sizeof(memory) ? size : sizeof(memory));
        nodes_build(&shim_nodes, mappings, 1, 1);
        shim_areas[0] = (ShimArea){ .address = MEMORY, .size = sizeof(memory), .data = memory };
        memset(&cache, 0, sizeof(cache));
        memset(&python, 0xee, sizeof(python));
        python.thread_id = POINTER;
        shim_python = shim_python_begin(&python, &process) ? &python : NULL;
        shim_begin(&unwind, &rules, DEPTH);
        unwind.pc = TEXT + 16;
        unwind.sp = MEMORY;
        unwind.bp = MEMORY + (uint64_t)memory[0] * 64;
        shim_walk(&unwind, &rules, frames, &cache);
        check(&unwind, shim_python, frames);
        if (python_waits_for_lock(&process, MEMORY) && !process.lock_end)
                abort();
        return 0;
}

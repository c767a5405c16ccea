/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Fuzz: the kernel half's walk over frames of Ruby, with an entry, contexts, chains and stacks that no
 * interpreter has. The input is the entry, then the memory that its addresses lead to. Whatever they hold: it
 * ends, cuts no frame, and writes none beyond its limit. Recipe of the corpus: make-ruby-corpus.py.
 */

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "shim/bpf-shim.h"
#include "shim/rows-shim.h"
#include "shim/ruby-shim.h"
#include "host/sampling/unwind/tables/rows.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum {
        MEMORY = 0x20000000,            /* stacks, contexts, frames and code at once */
        POINTER = MEMORY + 0x1000,      /* the thread's */
        TEXT = 0x10000,                 /* CFA = rsp + 64; from 0x800 on the outermost frame */
        DEPTH = 64,
};

static _Alignas(8) uint8_t memory[16384];

static void check(const struct unwind *unwind, const struct python *ruby, const uint64_t *frames) {
        uint32_t n_ruby = shim_check_frames(unwind, frames, DEPTH, RUNTIME_RUBY);

        if (ruby && (n_ruby != ruby->n_written || ruby->n_written > ruby->n_frames))
                abort();
        /* a whole walk with frames of Ruby has as many places as runs, or one that was left out */
        if (ruby && n_ruby && unwind->end == ABI_STACK_COMPLETE && !ruby->is_cut &&
            ruby->n_met + 1 < ruby->n_runs)
                abort();
}

static void put_rows(void) {
        static Rows rows;

        if (rows.data)
                return;
        if (rows_init(&rows, 0x1000, 0x2000, 1 << 20) ||
            rows_add(&rows, 0x1000, unwind_rule(UNWIND_CFA_RSP, 64, 0, 0, 0)) ||
            rows_add(&rows, 0x1800, unwind_rule(UNWIND_CFA_END, 0, 0, 0, 0)) || rows_finish(&rows, 0x2000))
                abort();
        shim_tables[3] = (ShimTable){ .data = rows.data, .size = (size_t)rows.n_blocks * UNWIND_BLOCK_SIZE };
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
        struct unwind_mapping mappings[] = { { .start = TEXT, .n_pages = 1, .table = 3 } };
        static uint64_t frames[UNWIND_MAX_FRAMES];
        static struct rows_cache cache;
        static struct python ruby;
        struct ruby_process process;
        struct unwind unwind = { 0 };
        struct rules rules = { 0 };

        if (size < sizeof(process))
                return 0;
        memcpy(&process, data, sizeof(process));
        size -= sizeof(process);
        memset(memory, 0, sizeof(memory));
        memcpy(memory, data + sizeof(process), size < sizeof(memory) ? size : sizeof(memory));
        put_rows();
        nodes_build(&shim_nodes, mappings, 1, 1);
        shim_areas[0] = (ShimArea){ .address = MEMORY, .size = sizeof(memory), .data = memory };
        memset(&cache, 0, sizeof(cache));
        memset(&ruby, 0xee, sizeof(ruby));
        shim_begin(&unwind, &rules, DEPTH);
        unwind.pc = TEXT + 16;
        unwind.sp = MEMORY;
        shim_python = shim_ruby_begin(&ruby, &process, POINTER, &unwind, &rules) ? &ruby : NULL;
        shim_walk(&unwind, &rules, frames, &cache);
        check(&unwind, shim_python, frames);
        return 0;
}

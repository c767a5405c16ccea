/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Fuzz: the kernel half's walk by rows, on tables, mappings and stacks that nobody
 * would make. The first block of the input is the directory and record block of one
 * table, the rest is the stack. Whatever they hold: it ends, writes no frame beyond
 * its limit, and reads nothing but what the shim gives out (the sanitizers watch).
 */

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "shim/bpf-shim.h"
#include "shim/rows-shim.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum {
        MADE = 0x8000,                  /* code made at run time */
        TEXT = 0x10000,
        N_PAGES = 600,                  /* more than the table's directory speaks for */
        STACK = 0x20000000,
        DEPTH = 64,
};

static _Alignas(8) uint8_t table[2 * UNWIND_BLOCK_SIZE];
static _Alignas(8) uint8_t stack[8192];

static void begin(struct unwind *unwind, struct rules *rules) {
        struct unwind_mapping mappings[] = {
                { .start = MADE, .n_pages = 4, .table = UNWIND_NO_TABLE, .offset = UNWIND_MADE },
                { .start = TEXT, .n_pages = N_PAGES },
        };

        nodes_build(&shim_nodes, mappings, 2, 1);
        shim_tables[0] = (ShimTable){ .data = table, .size = sizeof(table) };
        shim_areas[0] = (ShimArea){ .address = STACK, .size = sizeof(stack), .data = stack };
        shim_begin(unwind, rules, DEPTH);
        memcpy(rules->registers, stack + 64, sizeof(rules->registers));
        memcpy(&unwind->pc, stack, 8);
        unwind->pc %= TEXT + N_PAGES * UNWIND_PAGE_SIZE;
        unwind->sp = STACK + stack[8] * 8;
        unwind->bp = STACK + stack[9] * 8;
        rules->bx = STACK + stack[10] * 8;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
        static uint64_t frames[UNWIND_MAX_FRAMES];
        static struct rows_cache cache;
        static struct unwind unwind;
        static struct rules rules;
        size_t in_table = size < sizeof(table) ? size : sizeof(table);

        memset(table, 0, sizeof(table));
        memset(stack, 0, sizeof(stack));
        memset(&cache, 0, sizeof(cache));
        memset(&rules, 0, sizeof(rules));
        memcpy(table, data, in_table);
        memcpy(stack, data + in_table, size - in_table < sizeof(stack) ? size - in_table : sizeof(stack));
        begin(&unwind, &rules);
        shim_walk(&unwind, &rules, frames, &cache);
        if (unwind.n_frames > DEPTH || unwind.end >= ABI_STACK_END_N)
                abort();
        return 0;
}

/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Rows Shim
 *
 * Lets rows.bpf.h and rules.bpf.h compile for the host: the kernel's tables and
 * nodes are what the test lists. Include behind a shim that has
 * bpf_probe_read_user(), memory.bpf.h and unwind.bpf.h.
 */

#include <stdlib.h>

#include "border/unwind_abi.h"
#include "host/sampling/unwind/tables/nodes.h"

enum {
        SHIM_MAX_TABLES = 64,
        SHIM_SPACE = 4711,
};

typedef struct ShimTable {
        const uint8_t *data;            /* blocks */
        size_t size;
} ShimTable;

static ShimTable shim_tables[SHIM_MAX_TABLES];
static Nodes shim_nodes;                /* of the space SHIM_SPACE */
static unsigned shim_n_searches;        /* rules that were in no cache */

static inline const uint8_t *rows_block(uint32_t table, uint32_t block) {
        if (table >= SHIM_MAX_TABLES ||
            (uint64_t)(block + 1ULL) * UNWIND_BLOCK_SIZE > shim_tables[table].size)
                return NULL;
        return shim_tables[table].data + (size_t)block * UNWIND_BLOCK_SIZE;
}

static inline uint64_t rows_rule(uint32_t table, uint64_t offset);

static inline const struct unwind_node *rows_leaf(uint64_t space, uint32_t leaf) {
        return space == SHIM_SPACE && leaf < shim_nodes.n ? &shim_nodes.nodes[leaf] : NULL;
}

#include "walk/rows.bpf.h"
#include "walk/rules.bpf.h"

static inline struct rows_cache *hotspot_cache(void);
#include "runtimes/hotspot.bpf.h"
#include "runtimes/python.bpf.h"
#include "runtimes/php.bpf.h"
#include "runtimes/ruby.bpf.h"
#include "runtimes/v8.bpf.h"

/* The kernel's list of calls with a return probe: @shim_probes[n - 1], n from shim_n_probes down to 1. */
static uint64_t shim_trampoline;
static struct rules_probe shim_probes[RULES_MAX_PROBES + 1];
static uint32_t shim_n_probes;

static inline uint64_t rules_probe_trampoline(void) {
        return shim_trampoline;
}

static inline uint64_t rules_probe_first(void) {
        return shim_n_probes;
}

static inline bool rules_probe_read(uint64_t at, struct rules_probe *probe) {
        *probe = shim_probes[at - 1];
        probe->next = at - 1;
        return true;
}

/* One step: the copy of the instruction at @shim_stepped lies at @shim_copy. */
static uint64_t shim_copy, shim_stepped;

static inline uint64_t rules_probe_stepped(uint64_t pc) {
        return shim_copy && pc - shim_copy < RULES_PROBE_STEP ? shim_stepped + (pc - shim_copy) : 0;
}

static struct rows_cache *shim_cache;
static const struct hotspot_process *shim_hotspot;      /* NULL = SHIM_SPACE runs no Java */

static inline struct rows_cache *hotspot_cache(void) {
        return shim_cache;
}

static inline bool rules_hotspot(const struct rows_walk *walk) {
        struct hotspot_step step = { .unwind = walk->unwind, .rules = walk->rules, .process = walk->hotspot,
                                     .state = &walk->states->hotspot,
                                     .frames = (struct hotspot_words *)walk->frames };

        return hotspot_do_step(&step);
}

static struct python *shim_python;      /* NULL = SHIM_SPACE runs no Python */
static const struct v8_process *shim_v8;        /* NULL = SHIM_SPACE runs no V8 */

static inline bool rules_v8(const struct rows_walk *walk) {
        const struct v8_step step = { .unwind = walk->unwind, .rules = walk->rules, .process = walk->v8,
                                      .state = &walk->states->v8,
                                      .frames = (struct hotspot_words *)walk->frames };
        int r = v8_do_find(&step, walk);

        if (r == V8_FOUND)
                r = v8_do_leaf(&step);
        return r == V8_FOUND ? v8_frame(&step) : r;
}

static inline bool python_write_one(const struct rows_walk *walk) {
        return python_write(walk->unwind, walk->python, walk->frames);
}

static inline uint64_t rows_rule(uint32_t table, uint64_t offset) {
        shim_n_searches++;
        return rows_read_table(table, offset);
}

/*
 * As sampler.bpf.c does it: begin, then steps until one says that it is over. Registers are set between the
 * two.
 */
static inline void shim_begin(struct unwind *unwind, struct rules *rules, uint32_t depth) {
        unwind_begin(unwind, 0, depth);
        rules_begin(rules, SHIM_SPACE, shim_nodes.nodes[0].generation, 0);
}

static inline void shim_walk(struct unwind *unwind, struct rules *rules, uint64_t *frames,
                             struct rows_cache *cache) {
        static struct runtime_states states;
        const struct rows_walk walk = { .unwind = unwind, .rules = rules, .frames = frames, .cache = cache,
                                        .hotspot = shim_hotspot, .python = shim_python, .v8 = shim_v8,
                                        .states = &states };

        shim_cache = cache;
        hotspot_begin(&states.hotspot);
        v8_begin(&states.v8);
        while (python_step(&walk))
                ;
}

/*
 * Ends the program unless a walk left whole frames, @max at most, and an end that is one. Return: how many of
 * them are of @kind, enum runtime_kind.
 */
static inline uint32_t shim_check_frames(const struct unwind *unwind, const uint64_t *frames, uint32_t max,
                                         uint32_t kind) {
        uint32_t n = 0, n_kind = 0, i = 0;

        for (; i < unwind->n_frames; n++) {
                if (!runtime_frame_words(frames[i]))
                        abort();
                n_kind += frames[i] >> RUNTIME_KIND_SHIFT == kind;
                i += runtime_frame_words(frames[i]);
        }
        if (i != unwind->n_frames || n > max || unwind->end >= ABI_STACK_END_N)
                abort();
        return n_kind;
}

/* SPDX-License-Identifier: GPL-2.0-only */
#pragma once

/*
 * Slots of Threads
 *
 * A table with two slots for each thread that can be followed. A thread takes a free slot behind the hash of
 * its task, and gives it back at its end. One that finds none is not looked for (wait-long.bpf.h).
 */

#include "waits/waits.bpf.h"

enum {
        WAIT_SLOT_TRIES = 16,
};

/* A wait has begun whose stack was not drawn. The daemon clears it. */
volatile uint32_t wait_undrawn = 0;

static __always_inline struct wait_block *wait_block_of(uint32_t slot) {
        uint32_t block = slot / WAIT_BLOCK_SLOTS;

        return bpf_map_lookup_elem(&wait_blocks, &block);
}

/* Return: WAIT_NO_SLOT = all that it tried are others'. */
static __always_inline uint32_t wait_slot_take(uint64_t task) {
        uint32_t first = wait_hash(task) % (WAIT_BLOCKS * WAIT_BLOCK_SLOTS);

        for (uint32_t i = 0; i < WAIT_SLOT_TRIES; i++) {
                uint32_t slot = (first + i) % (WAIT_BLOCKS * WAIT_BLOCK_SLOTS);
                struct wait_block *block = wait_block_of(slot);

                if (block && !__sync_val_compare_and_swap(&block->tasks[slot % WAIT_BLOCK_SLOTS], 0, task))
                        return slot;
        }
        return WAIT_NO_SLOT;
}

static __always_inline void wait_slot_leave(uint32_t slot, uint64_t task) {
        struct wait_block *block = wait_block_of(slot);

        if (block)
                __sync_val_compare_and_swap(&block->tasks[slot % WAIT_BLOCK_SLOTS], task, 0);
}

/* The store is left out where it changes nothing: other CPUs have the byte's cache line, too. */
static __always_inline void wait_slot_mark(uint32_t slot) {
        struct wait_block *block = wait_block_of(slot);

        if (block && !block->is_undrawn[slot % WAIT_BLOCK_SLOTS])
                block->is_undrawn[slot % WAIT_BLOCK_SLOTS] = 1;
        if (!wait_undrawn)
                wait_undrawn = 1;
}

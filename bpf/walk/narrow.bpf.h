/* SPDX-License-Identifier: GPL-2.0-only */
#pragma once

/*
 * Code of 32 Bits
 *
 * The walk of a stack of i386, by frame pointers where the stack itself proves them: no rows are read for
 * such code. The first word above esp that lies behind a call is the return address, or one that an earlier
 * call has left. So the frame at ebp counts only if its return address is that first word:
 *
 *     ff..c0   local           ← esp
 *     ff..c8   ff..f0          ← ebp: the caller's, saved
 *     ff..cc   804..56         the first word that has a call in front: frame and caller are proved
 *
 * Where a function without a frame was called in between, or one has just begun, an address stands below ebp:
 * the walk ends, and skips no caller. Every end is ABI_STACK_UNSUPPORTED, since nothing tells the last frame.
 */

#include "walk/registers.bpf.h"
#include "walk/walk.bpf.h"

enum {
        NARROW_MAX_WORDS = 512,         /* words of a stack that are looked at */
        NARROW_LOWEST_CODE = 1 << 16,   /* nothing is mapped below it (vm.mmap_min_addr) */
};

#if UNWIND_ARM64
/* Compilers do not agree on a frame pointer for 32 bits there. */
static __always_inline bool narrow_step(struct unwind *unwind, uint64_t *frames) {
        return false;
}
#else
static __always_inline bool narrow_is_called(uint32_t word) {
        uint8_t code[RULES_CALL_SIZE];

        return word >= NARROW_LOWEST_CODE &&
                !bpf_probe_read_user(code, sizeof(code), (const void *)((uint64_t)word - sizeof(code))) &&
                rules_is_call(code);
}

/*
 * Looks at the word at unwind->sp, and goes up. What it keeps between words is in the map, as the rest of a
 * walk (unwind.bpf.h). Return: false = no further caller is proved.
 */
static __always_inline bool narrow_step(struct unwind *unwind, uint64_t *frames) {
        uint64_t sp = unwind->sp, bp = unwind->bp;
        uint32_t pair[2], n = unwind->n_frames;

        /* Unsigned: refuses an ebp below the words that are left, and one too far above them. */
        if (bp - sp > UNWIND_MAX_JUMP || bpf_probe_read_user(pair, sizeof(pair), (const void *)sp))
                return false;
        unwind->sp = sp + sizeof(pair[0]);
        if (!narrow_is_called(pair[sp == bp]))
                return sp != bp;
        if (sp != bp || n >= unwind->limit || n >= UNWIND_MAX_FRAMES)
                return false;
        frames[n] = pair[1];
        unwind->n_frames = n + 1;
        unwind->sp = sp + sizeof(pair);
        unwind->bp = pair[0];
        return true;
}

#endif

static long narrow_by_loop(uint32_t index, const struct rows_walk *walk) {
        return !narrow_step(walk->unwind, walk->frames);
}

static long narrow_by_map(const void *map, const uint32_t *key, void *value, const struct rows_walk *walk) {
        return !narrow_step(walk->unwind, walk->frames) || *key >= NARROW_MAX_WORDS - 1;
}

/* Walks from the registers in scratch->unwind. Its locals are its own: the stack of its callers is full. */
static __noinline void narrow_walk(struct scratch *scratch) {
        struct rows_walk walk = { .unwind = &scratch->unwind, .frames = scratch->frames };

        pc_alone(scratch);
        if (has_bpf_loop())
                bpf_loop(NARROW_MAX_WORDS, narrow_by_loop, &walk, 0);
        else
                bpf_for_each_map_elem(&rounds, narrow_by_map, &walk, 0);
        scratch->unwind.end = ABI_STACK_UNSUPPORTED;
}

/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only */
#pragma once

/*
 * Unwinder
 *
 * State of a walk of the user stack of the interrupted thread, and the step by the
 * frame pointer. Code that keeps one begins every function with `push %rbp; mov
 * %rsp,%rbp`, so that the stack (growing down) holds a chain:
 *
 *     address    word
 *     7ff..e0    7ff..f0     ← rbp: the caller's rbp, saved
 *     7ff..e8    5566..1c    return address into the caller
 *     7ff..f0    0           the caller's caller has none: the chain ends
 *     7ff..f8    5566..80    return address into it
 *
 * The step counts only where no rows exist (rules.bpf.h): code with rows may use rbp
 * for anything.
 *
 * The walk's state lives in a per-CPU map value: on the BPF stack the verifier
 * would follow each possible frame count by itself (100,000 instructions instead
 * of a few hundred).
 *
 * Includes nothing, and needs barrier_var(): the same lines run on the host under test
 * (tests/harness/c/shim/bpf-shim.h), and in the daemon (daemon/host/sampling/unwind/walk/host-walk.c).
 */

enum {
        /* Room for the words of both parts' frames; the kernel part is in front. */
        UNWIND_MAX_FRAMES = ABI_MAX_KERNEL_FRAMES + ABI_MAX_USER_WORDS,
        /* Largest frame. Beyond it, rbp held something else, or the stack was switched. */
        UNWIND_MAX_JUMP = 1 << 20,
};

/*
 * 1 if they are equal, else 0; both below 2^63. A number and no branch: in a loop the verifier would follow
 * both ways of each turn.
 */
static inline uint64_t unwind_is_same(uint64_t one, uint64_t other) {
        uint64_t below = (one ^ other) - 1;

        barrier_var(below);
        return below >> 63;
}

struct unwind {
        uint64_t pc, sp, bp;            /* registers of the frame that the next step writes down */
        uint32_t n_frames;              /* index of the next word in `frames`, kernel part included */
        uint32_t limit;                 /* largest n_frames; a frame of more words moves it up */
        uint32_t end;                   /* enum abi_stack_end, once a step has returned false */
        uint32_t reserved;
        struct window window;
};

/*
 * The lowest address that a walk from @sp on may read, if it is there. Go's code for arm64 keeps the caller's
 * x29 below sp:
 *
 *     ff..f8    caller's x29            the last word of the chunk (ABI_STACK_CHUNK) before
 *     ff..00    return address          ← sp, a multiple of a chunk, as one in 64 is
 *
 * A copy of whole chunks from sp on would lack that word.
 */
static inline uint64_t unwind_lowest(uint64_t sp) {
        return UNWIND_ARM64 && sp && sp % ABI_STACK_CHUNK == 0 ? sp - sizeof(sp) : sp;
}

/*
 * A return address as the processor uses it. arm64 may have an authentication code above the 48 bits that a
 * program's addresses have (asm/pointer_auth.h; code above them needs an mmap() that asks for it).
 */
static inline uint64_t unwind_return_address(uint64_t word) {
        return UNWIND_ARM64 ? word << 16 >> 16 : word;
}

/* @first: index of the first user frame; @depth: user frames at most. */
static inline void unwind_begin(struct unwind *unwind, uint32_t first, uint32_t depth) {
        unwind->n_frames = first;
        unwind->limit = first + depth;
        unwind->end = ABI_STACK_INTERNAL;
        unwind->window.n_valid = 0;
        unwind->window.n_words = 0;
        unwind->window.size = WINDOW_SIZE;
}

/* Finds the registers of the caller by the frame pointer. On false they are untouched and `end` is set. */
static inline bool unwind_by_frame_pointer(struct unwind *unwind) {
        uint64_t bp = unwind->bp, caller_bp, caller_pc;

        /* Unsigned: refuses zero, an rbp below the frame of the callee, and one too far above it. */
        if (bp - unwind->sp > UNWIND_MAX_JUMP) {
                unwind->end = ABI_STACK_FP_END;
                return false;
        }
        if (bp & 7) {
                unwind->end = ABI_STACK_BAD_CFA;
                return false;
        }
        if (!window_read_pair(&unwind->window, bp, &caller_bp, &caller_pc)) {
                unwind->end = ABI_STACK_FAULT;
                return false;
        }
        caller_pc = unwind_return_address(caller_pc);
        if (!caller_pc) {
                unwind->end = ABI_STACK_FP_END;
                return false;
        }
        unwind->pc = caller_pc;
        unwind->sp = bp + 16;           /* the CFA: above the two words */
        unwind->bp = caller_bp;
        return true;
}

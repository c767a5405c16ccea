/* SPDX-License-Identifier: Apache-2.0 */

/*
 * The lines of bpf/walk/unwind.bpf.h themselves, on stacks made by hand.
 */

#include <criterion/criterion.h>
#include <stdlib.h>

#include "shim/bpf-shim.h"

enum {
        STACK = 0x7ffe0000,             /* address of words[0] */
        N_WORDS = 8192,
        PC = 0x401000,
};

static uint64_t words[N_WORDS];
static uint64_t frames[UNWIND_MAX_FRAMES];
static struct unwind unwind;

/* Two words at @at (index): the saved rbp points to word @next, 0 = none. */
static void put_frame(unsigned at, unsigned next, uint64_t return_address) {
        words[at] = next ? STACK + 8 * (uint64_t)next : 0;
        words[at + 1] = return_address;
}

static void begin(unsigned n_words, unsigned bp) {
        shim_areas[0] = (ShimArea){ .address = STACK, .size = 8 * (uint64_t)n_words, .data = words };
        unwind_begin(&unwind, 0, ABI_DEFAULT_FRAMES);
        unwind.pc = PC;
        unwind.sp = STACK;
        unwind.bp = STACK + 8 * (uint64_t)bp;
        memset(frames, 0xee, sizeof(frames));
}

static void walk(void) {
        while (shim_step_by_frame_pointer(&unwind, frames))
                ;
}

static void check(uint32_t end, unsigned n, const uint64_t *expected) {
        cr_assert_eq(unwind.end, end, "end %u, expected %u", unwind.end, end);
        cr_assert_eq(unwind.n_frames, n, "%u frames, expected %u", unwind.n_frames, n);
        for (unsigned i = 0; i < n; i++)
                cr_assert_eq(frames[i], expected[i], "frame %u is %lx", i, frames[i]);
        cr_assert_eq(frames[n], 0xeeeeeeeeeeeeeeee, "nothing behind the last frame is written");
}

/* main ← outer ← leaf: three frames in 12 words. */
static void three_frames(void) {
        put_frame(2, 6, 0x402000);
        put_frame(6, 10, 0x403000);
        put_frame(10, 0, 0x404000);
}

/* Go's code for arm64 keeps the caller's x29 there. */
Test(unwind, tells_what_is_read_below_the_stack_pointer) {
        uint64_t edge = STACK + ABI_STACK_CHUNK;

        cr_expect_eq(unwind_lowest(edge), UNWIND_ARM64 ? edge - 8 : edge);
        cr_expect_eq(unwind_lowest(edge + 16), edge + 16, "the chunk has the word");
        cr_expect_eq(unwind_lowest(0), 0);
}

Test(unwind, follows_the_chain_to_a_saved_rbp_of_zero) {
        three_frames();
        begin(N_WORDS, 2);
        walk();
        check(ABI_STACK_FP_END, 4, (uint64_t[]){ PC, 0x402000, 0x403000, 0x404000 });
        cr_assert_eq(shim_n_reads, 1, "one read serves neighbours");
}

Test(unwind, ends_at_a_return_address_of_zero) {
        three_frames();
        put_frame(10, 14, 0);
        begin(N_WORDS, 2);
        walk();
        check(ABI_STACK_FP_END, 3, (uint64_t[]){ PC, 0x402000, 0x403000 });
}

Test(unwind, ends_where_the_chain_does_not_rise) {
        three_frames();
        put_frame(6, 2, 0x403000);      /* back to the leaf's */
        begin(N_WORDS, 2);
        walk();
        check(ABI_STACK_FP_END, 3, (uint64_t[]){ PC, 0x402000, 0x403000 });

        put_frame(6, 6, 0x403000);      /* to itself */
        begin(N_WORDS, 2);
        walk();
        check(ABI_STACK_FP_END, 3, (uint64_t[]){ PC, 0x402000, 0x403000 });

        put_frame(6, 7, 0x403000);      /* overlaps itself */
        begin(N_WORDS, 2);
        walk();
        check(ABI_STACK_FP_END, 3, (uint64_t[]){ PC, 0x402000, 0x403000 });
}

Test(unwind, ends_where_the_chain_leaps) {
        three_frames();
        /* 8 more than allowed above the frame's end */
        words[6] = STACK + 8 * 8 + (uint64_t)UNWIND_MAX_JUMP + 8;
        begin(N_WORDS, 2);
        walk();
        check(ABI_STACK_FP_END, 3, (uint64_t[]){ PC, 0x402000, 0x403000 });
        cr_assert_eq(shim_n_reads, 1, "what lies there is not even read");
}

Test(unwind, refuses_an_unaligned_frame) {
        three_frames();
        words[6] += 4;
        begin(N_WORDS, 2);
        walk();
        check(ABI_STACK_BAD_CFA, 3, (uint64_t[]){ PC, 0x402000, 0x403000 });
}

Test(unwind, ends_in_code_without_frame_pointers) {
        three_frames();
        begin(N_WORDS, 2);
        unwind.bp = 1;                  /* libc's code may keep a number in rbp */
        walk();
        check(ABI_STACK_FP_END, 1, (uint64_t[]){ PC });
}

Test(unwind, leaves_registers_untouched_on_a_fault) {
        three_frames();
        put_frame(6, 512, 0x403000);
        begin(512, 2);                  /* the third frame is not mapped */
        walk();
        check(ABI_STACK_FAULT, 3, (uint64_t[]){ PC, 0x402000, 0x403000 });
        cr_assert_eq(unwind.pc, 0x403000);
        cr_assert_eq(unwind.sp, STACK + 8 * 8);
        cr_assert_eq(unwind.bp, STACK + 8 * 512);
        cr_assert_eq(unwind.window.n_valid, 0, "a window that was not read serves nothing");
}

Test(unwind, reads_the_last_words_below_the_end_of_a_mapping) {
        /* 512 words are a page: the third frame's words are its last two, and nothing follows. */
        put_frame(2, 6, 0x402000);
        put_frame(6, 510, 0x403000);
        put_frame(510, 0, 0x404000);
        begin(512, 2);
        walk();
        check(ABI_STACK_FP_END, 4, (uint64_t[]){ PC, 0x402000, 0x403000, 0x404000 });
        cr_assert_eq(shim_n_reads, 2, "no read that could fault was tried");
}

Test(unwind, takes_a_frame_that_straddles_pages) {
        put_frame(2, 511, 0x402000);
        put_frame(511, 600, 0x403000);
        put_frame(600, 0, 0x404000);
        begin(N_WORDS, 2);
        walk();
        check(ABI_STACK_FP_END, 4, (uint64_t[]){ PC, 0x402000, 0x403000, 0x404000 });

        begin(512, 2);                  /* its second word is not mapped */
        walk();
        check(ABI_STACK_FAULT, 2, (uint64_t[]){ PC, 0x402000 });
}

Test(unwind, takes_a_frame_that_straddles_the_window) {
        /*
         * The window holds 64 words from the leaf's frame on: the second frame's words are its last and the
         * next one.
         */
        put_frame(2, 65, 0x402000);
        put_frame(65, 100, 0x403000);
        put_frame(100, 0, 0x404000);
        begin(N_WORDS, 2);
        walk();
        check(ABI_STACK_FP_END, 4, (uint64_t[]){ PC, 0x402000, 0x403000, 0x404000 });
        cr_assert_eq(shim_n_reads, 2);
}

static void long_chain(unsigned n_frames, uint64_t *expected) {
        expected[0] = PC;
        for (unsigned i = 1; i < n_frames; i++) {
                expected[i] = 0x500000 + i;
                put_frame(2 + 4 * (i - 1), i + 1 < n_frames ? 2 + 4 * i : 0, expected[i]);
        }
}

static void check_depth(unsigned n_frames, unsigned depth, uint32_t end) {
        static uint64_t expected[ABI_MAX_FRAMES + 64];

        long_chain(n_frames, expected);
        begin(N_WORDS, 2);
        unwind_begin(&unwind, 0, depth);
        walk();
        check(end, n_frames < depth ? n_frames : depth, expected);
}

Test(unwind, stops_exactly_at_the_depth) {
        check_depth(511, 512, ABI_STACK_FP_END);
        check_depth(512, 512, ABI_STACK_FP_END);        /* all of it fits */
        check_depth(513, 512, ABI_STACK_DEPTH);
        check_depth(1024, ABI_MAX_FRAMES, ABI_STACK_FP_END);
        check_depth(1025, ABI_MAX_FRAMES, ABI_STACK_DEPTH);
        check_depth(2, 1, ABI_STACK_DEPTH);
}

Test(unwind, writes_behind_the_kernel_part) {
        three_frames();
        begin(N_WORDS, 2);
        unwind_begin(&unwind, 5, 2);
        walk();
        cr_assert_eq(unwind.end, ABI_STACK_DEPTH);
        cr_assert_eq(unwind.n_frames, 7);
        cr_assert_eq(frames[4], 0xeeeeeeeeeeeeeeee);
        cr_assert_eq(frames[5], PC);
        cr_assert_eq(frames[6], 0x402000);
        cr_assert_eq(frames[7], 0xeeeeeeeeeeeeeeee);
}

Test(unwind, survives_any_stack) {
        srand(1);
        for (int round = 0; round < 5000; round++) {
                for (unsigned i = 0; i < 512; i++)
                        words[i] = rand() % 3
                                ? STACK + 8 * (uint64_t)(i + (unsigned)rand() % 16) + (rand() % 8 == 0)
                                : ((uint64_t)rand() << 33 | (uint64_t)rand());
                begin(512, (unsigned)rand() % 520);
                walk();
                cr_assert_neq(unwind.end, ABI_STACK_INTERNAL);
                cr_assert_leq(unwind.n_frames, 512 / 2 + 2, "each frame takes two words of its own");
        }
}

/* SPDX-License-Identifier: Apache-2.0 */

/*
 * The lines of bpf/runtimes/python.bpf.h themselves, on thread states, frames and native stacks made by hand.
 *
 * Native frames are 64 bytes each: all text has the row CFA = rsp + 64. Text of the evaluator is nothing
 * special but for 3.8 and 3.9.
 */

#include <criterion/criterion.h>

#include "shim/bpf-shim.h"
#include "shim/rows-shim.h"
#include "shim/python-shim.h"

#include "core/base/util/macro.h"
#include "host/sampling/unwind/tables/rows.h"

enum {
        STACK = 0x7ffe0000,
        N_WORDS = 512,
        FRAME_WORDS = 8,
        TEXT = 0x55000000,
        ROOT = TEXT + 0x1000,           /* its row says that it is the outermost frame */
        EVALUATOR = TEXT + 0x800,
        EVALUATOR_SIZE = 0x100,
        HEAP = 0x66000000,
        RUNTIME = HEAP,                 /* the pointer to the first interpreter */
        INTERPRETER = HEAP + 0x100,
        THREADS = HEAP + 0x200,         /* 64 bytes each */
        FRAMES = HEAP + 0x1000,         /* 64 bytes each */
        CODES = HEAP + 0x8000,          /* 64 bytes each */
        CODE_TYPE = HEAP + 0xf000,
        POINTER = 0x4242,               /* of the thread */
        GENERATION = 7,
        /* offsets */
        PREVIOUS = 8, POSITION = 16, OWNER = 24, NATIVE = 16,
};

static uint64_t words[N_WORDS];
static uint64_t heap[0x10000 / 8];
static uint64_t frames[UNWIND_MAX_FRAMES];
static struct unwind unwind;
static struct rules rules;
static struct rows_cache cache;
static struct python python;
static struct python_process process;
static Rows rows;

static uint64_t *at(uint64_t address) {
        return &heap[(address - HEAP) / 8];
}

static uint64_t frame(unsigned i) {
        return FRAMES + 64 * (uint64_t)i;
}

static uint64_t code(unsigned i) {
        return CODES + 64 * (uint64_t)i;
}

static void put_frame(uint64_t address, unsigned i, uint64_t previous, uint64_t owner) {
        uint64_t *to = address >= STACK ? &words[(address - STACK) / 8] : at(address);

        to[0] = i ? code(i) : 0;
        to[PREVIOUS / 8] = previous;
        to[POSITION / 8] = code(i) + 100;
        to[OWNER / 8] = owner;
}

static void put_code(unsigned i) {
        uint64_t *to = at(code(i));

        to[1] = CODE_TYPE;
        to[2] = i * 0x1000;             /* name */
        to[3] = i * 0x2000;             /* line table */
        to[4] = i;                      /* first line */
}

static uint64_t word_of(unsigned i) {
        return (uint64_t)RUNTIME_PYTHON << RUNTIME_KIND_SHIFT | code(i);
}

/* Native frame @i, from the leaf on, returns to @caller. */
static void put_native(unsigned i, uint64_t caller) {
        words[(i + 1) * FRAME_WORDS - 1] = caller;
}

/* A place in native frame @i. */
static uint64_t in_native(unsigned i) {
        return STACK + 8 * ((uint64_t)i * FRAME_WORDS + 2);
}

static void setup(void) {
        static struct unwind_mapping mappings[] = { { .start = TEXT, .n_pages = 2, .table = 3 } };

        memset(heap, 0, sizeof(heap));
        memset(words, 0, sizeof(words));
        cr_assert_eq(rows_init(&rows, 0x1000, 0x3000, 1 << 20), 0);
        cr_assert_eq(rows_add(&rows, 0x1000, unwind_rule(UNWIND_CFA_RSP, 64, 0, 0, 0)), 0);
        cr_assert_eq(rows_add(&rows, 0x2000, unwind_rule(UNWIND_CFA_END, 0, 0, 0, 0)), 0);
        cr_assert_eq(rows_finish(&rows, 0x3000), 0);
        shim_tables[3] = (ShimTable){ .data = rows.data, .size = (size_t)rows.n_blocks * UNWIND_BLOCK_SIZE };
        nodes_build(&shim_nodes, mappings, 1, GENERATION);
        shim_areas[0] = (ShimArea){ STACK, sizeof(words), words };
        shim_areas[1] = (ShimArea){ HEAP, sizeof(heap), heap };
        process = (struct python_process){
                .generation = GENERATION, .interpreters = RUNTIME, .code_type = CODE_TYPE,
                .chain = PYTHON_CHAIN_SHIMS, .next_interpreter = 0, .threads = 8, .thread_size = 32,
                .next_thread = 8, .previous_thread = 0, .thread_id = 16, .thread_frame = 24,
                .frame_size = 32, .code = 0, .previous = PREVIOUS, .position = POSITION, .owner = OWNER,
                .code_size = 40, .type = 8, .name = 16, .line_table = 24, .first_line = 32,
        };
        *at(RUNTIME) = INTERPRETER;
        at(INTERPRETER)[1] = THREADS;
        at(THREADS)[1] = THREADS + 64;
        at(THREADS)[2] = POINTER + 1;
        at(THREADS + 64)[0] = THREADS;
        at(THREADS + 64)[2] = POINTER;
        at(THREADS + 64)[3] = frame(1);
        for (unsigned i = 1; i < 100; i++)
                put_code(i);
}

static void teardown(void) {
        rows_deinit(&rows);
        shim_python = NULL;
}

TestSuite(python_walk, .init = setup, .fini = teardown);

static bool walk_from(uint64_t pc, uint32_t depth) {
        bool has;

        memset(&python, 0xee, sizeof(python));
        python.thread_id = POINTER;
        has = shim_python_begin(&python, &process);
        shim_python = has ? &python : NULL;
        memset(frames, 0xee, sizeof(frames));
        memset(&cache, 0, sizeof(cache));
        shim_begin(&unwind, &rules, depth);
        unwind.pc = pc;
        unwind.sp = STACK;
        unwind.bp = 0;
        shim_walk(&unwind, &rules, frames, &cache);
        return has;
}

/* Native frames: leaf, evaluator, callback, evaluator, main; marks lie in frames 1 and 3. */
static void put_natives(void) {
        put_native(0, EVALUATOR + 1);
        put_native(1, TEXT + 2);
        put_native(2, EVALUATOR + 3);
        put_native(3, ROOT + 4);
}

/* What put_natives() and two functions in front of each mark make. */
static void check_whole(void) {
        const uint64_t expected[] = { TEXT + 9, word_of(1), word_of(2), TEXT + 2, word_of(3), word_of(4),
                                      ROOT + 4 };
        uint32_t at_word = 0;

        for (size_t i = 0; i < ARRAY_SIZE(expected); i++) {
                cr_assert_eq(frames[at_word], expected[i], "%zu: %llx", i, (unsigned long long)frames[at_word]);
                at_word += runtime_frame_words(frames[at_word]);
        }
        cr_assert_eq(unwind.n_frames, at_word);
        cr_assert_eq(unwind.end, ABI_STACK_COMPLETE);
        cr_assert_eq(python.n_written, 4);
        cr_assert_eq(python.n_frames, 4);
}

Test(python_walk, frames_stand_where_the_evaluators_stood) {
        put_natives();
        put_frame(frame(1), 1, frame(2), 0);
        put_frame(frame(2), 2, in_native(1), 0);
        put_frame(in_native(1), 0, frame(3), PYTHON_OWNER_SHIM);
        put_frame(frame(3), 3, frame(4), 1);
        put_frame(frame(4), 4, in_native(3), 0);
        put_frame(in_native(3), 0, 0, PYTHON_OWNER_SHIM);
        cr_assert(walk_from(TEXT + 9, 64));
        check_whole();
        cr_assert_eq(frames[2], (uint64_t)python_cookie(0x1000, 0x2000, 1) << 32 | 100);
}

Test(python_walk, a_position_in_a_threads_own_copy_is_that_in_the_code) {
        const uint64_t array = HEAP + 0xe000, copy = HEAP + 0xd000;

        put_natives();
        put_frame(frame(1), 1, frame(2), 2ull << 32);
        put_frame(frame(2), 2, in_native(1), 0);
        put_frame(in_native(1), 0, frame(3), PYTHON_OWNER_SHIM);
        put_frame(frame(3), 3, frame(4), 1ull << 32);
        put_frame(frame(4), 4, in_native(3), (uint64_t)UINT32_MAX << 32);
        put_frame(in_native(3), 0, 0, PYTHON_OWNER_SHIM);
        process.copies = 40;
        process.copy_index = OWNER + 4;
        process.instructions = 48;
        process.code_size = 48;
        at(code(1))[5] = array;
        at(array)[0] = 3;
        at(array)[1 + 2] = copy;
        at(frame(1))[POSITION / 8] = copy + 8;
        at(code(3))[5] = 8;             /* no memory is there */
        at(code(4))[5] = array;
        cr_assert(walk_from(TEXT + 9, 64));
        check_whole();
        cr_assert_eq(frames[2], (uint64_t)python_cookie(0x1000, 0x2000, 1) << 32 | 56);
        cr_assert_eq(frames[4], (uint64_t)python_cookie(0x2000, 0x4000, 2) << 32 | 100);
        cr_assert_eq((uint32_t)frames[7], PYTHON_NO_POSITION);
        cr_assert_eq((uint32_t)frames[9], PYTHON_NO_POSITION, "an index that no array has");
}

Test(python_walk, frames_without_a_code_object_are_left_out) {
        put_natives();
        put_frame(frame(1), 1, frame(5), 0);
        put_frame(frame(5), 0, frame(2), 0);
        put_frame(frame(2), 2, in_native(1), 0);
        put_frame(in_native(1), 0, frame(3), PYTHON_OWNER_SHIM);
        put_frame(frame(3), 3, frame(4), 1);
        put_frame(frame(4), 4, in_native(3), 0);
        put_frame(in_native(3), 0, 0, PYTHON_OWNER_SHIM);
        cr_assert(walk_from(TEXT + 9, 64));
        check_whole();
}

Test(python_walk, marks_of_3_11_are_its_cframes) {
        put_natives();
        process.chain = PYTHON_CHAIN_CFRAMES;
        process.native_frame = 0;
        process.native_previous = 8;
        at(THREADS + 64)[3] = in_native(1);
        words[(in_native(1) - STACK) / 8] = frame(1);
        words[(in_native(1) - STACK) / 8 + 1] = in_native(3);
        for (unsigned i = 1; i <= 4; i++)
                put_frame(frame(i), i, i < 4 ? frame(i + 1) : 0, i % 2 ? 0 : 1);
        cr_assert(walk_from(TEXT + 9, 64));
        check_whole();
}

Test(python_walk, frames_of_3_9_are_one_evaluator_each) {
        process.chain = PYTHON_CHAIN_EVALUATOR;
        process.evaluator = EVALUATOR;
        process.evaluator_size = EVALUATOR_SIZE;
        put_natives();
        put_frame(frame(1), 1, frame(2), 0);
        put_frame(frame(2), 2, 0, 0);
        cr_assert(walk_from(TEXT + 9, 64));
        cr_assert_eq(frames[1], word_of(1));
        cr_assert_eq(frames[3], TEXT + 2);
        cr_assert_eq(frames[4], word_of(2));
        cr_assert_eq(frames[6], ROOT + 4);
        cr_assert_eq(unwind.n_frames, 7);
}

/* A function of Python is in native frames 1 and 3; in 1 is a CFrame, which says that 3 has the next one. */
static void put_3_10(void) {
        process.chain = PYTHON_CHAIN_OBJECTS;
        process.native_frame = 32;
        process.native_previous = 8;
        put_natives();
        at(THREADS + 64)[4] = in_native(1);
        words[(in_native(1) - STACK) / 8 + 1] = in_native(3);
        put_frame(frame(1), 1, frame(2), 0);
        put_frame(frame(2), 2, 0, 0);
}

Test(python_walk, cframes_of_3_10_are_read_as_the_walk_goes_over_them) {
        put_3_10();
        cr_assert(walk_from(TEXT + 9, 64));
        cr_assert_eq(python.n, 2, "frames alone, without marks");
        cr_assert_eq(frames[1], word_of(1));
        cr_assert_eq(frames[3], TEXT + 2);
        cr_assert_eq(frames[4], word_of(2));
        cr_assert_eq(frames[6], ROOT + 4);
        cr_assert_eq(unwind.n_frames, 7);
        cr_assert_eq(python.n_written, 2);
        cr_assert_not(python.is_cut);
        /* it leads nowhere: the next frame has no place */
        words[(in_native(1) - STACK) / 8 + 1] = 0;
        cr_assert(walk_from(TEXT + 9, 64));
        cr_assert_eq(frames[1], word_of(1));
        cr_assert_eq(frames[4], EVALUATOR + 3);
        cr_assert_eq(python.n_written, 1);
        cr_assert_eq(unwind.end, ABI_STACK_COMPLETE);
}

Test(python_walk, a_frame_of_3_10_without_a_code_object_leaves_its_evaluator) {
        put_3_10();
        *at(frame(1)) = 0;
        cr_assert(walk_from(TEXT + 9, 64));
        cr_assert_eq(frames[1], EVALUATOR + 1);
        cr_assert_eq(frames[2], TEXT + 2);
        cr_assert_eq(frames[3], word_of(2));
        cr_assert_eq(frames[5], ROOT + 4);
        cr_assert_eq(unwind.n_frames, 6);
        cr_assert_eq(python.n_written, python.n_frames);
}

Test(python_walk, frames_of_3_10_follow_a_native_walk_that_ends_early) {
        put_3_10();
        put_native(1, 0x77000000);      /* no mapping is known there */
        cr_assert(walk_from(TEXT + 9, 64));
        cr_assert_eq(frames[1], word_of(1));
        cr_assert_eq(frames[3], word_of(2));
        cr_assert_eq(unwind.n_frames, 5);
        cr_assert_eq(unwind.end, ABI_STACK_NO_MAPPING);
        cr_assert_eq(python.mode, PYTHON_WRITES_REST);
}

Test(python_walk, the_rest_follows_a_native_walk_that_ends_early) {
        put_natives();
        put_native(2, 0x77000000);      /* no mapping is known there */
        put_frame(frame(1), 1, in_native(1), 0);
        put_frame(in_native(1), 0, frame(3), PYTHON_OWNER_SHIM);
        put_frame(frame(3), 3, in_native(3), 0);
        put_frame(in_native(3), 0, 0, PYTHON_OWNER_SHIM);
        cr_assert(walk_from(TEXT + 9, 64));
        cr_assert_eq(frames[1], word_of(1));
        cr_assert_eq(frames[3], TEXT + 2);
        cr_assert_eq(frames[4], word_of(3));
        cr_assert_eq(unwind.n_frames, 6);
        cr_assert_eq(unwind.end, ABI_STACK_NO_MAPPING);
        cr_assert_eq(python.mode, PYTHON_WRITES_REST);
}

Test(python_walk, what_is_on_another_stack_is_left_out) {
        put_natives();
        put_frame(frame(1), 1, frame(9), 0);
        put_frame(frame(9), 0, 0, PYTHON_OWNER_SHIM);   /* on the heap */
        cr_assert(walk_from(TEXT + 9, 64));
        cr_assert_eq(unwind.n_frames, 5);
        cr_assert_eq(frames[1], EVALUATOR + 1);
        cr_assert_eq(python.n_written, 0);
        cr_assert_eq(unwind.end, ABI_STACK_COMPLETE);
}

Test(python_walk, an_evaluator_that_runs_nothing_yet_is_native) {
        put_natives();
        put_frame(in_native(1), 0, frame(3), PYTHON_OWNER_SHIM);
        put_frame(frame(3), 3, in_native(3), 0);
        put_frame(in_native(3), 0, 0, PYTHON_OWNER_SHIM);
        at(THREADS + 64)[3] = in_native(1);
        cr_assert(walk_from(TEXT + 9, 64));
        cr_assert_eq(frames[1], EVALUATOR + 1);
        cr_assert_eq(frames[3], word_of(3));
        cr_assert_eq(python.n_written, python.n_frames);
}

Test(python_walk, circles_and_forged_chains_end) {
        put_natives();
        put_frame(frame(1), 1, frame(2), 0);
        put_frame(frame(2), 2, frame(1), 0);
        cr_assert(walk_from(TEXT + 9, 64));
        cr_assert_eq(python.n, PYTHON_MAX_CHAIN);
        cr_assert(python.is_cut);
        put_frame(frame(2), 2, 0x123456789, 0);
        cr_assert(walk_from(TEXT + 9, 64));
        cr_assert(python.is_cut);
        cr_assert_eq(python.n_frames, 2);
        /* no code object: not a frame */
        at(code(2))[1] = 0;
        put_frame(frame(2), 2, 0, 0);
        cr_assert(walk_from(TEXT + 9, 64));
        cr_assert_eq(python.n_frames, 1);
        /* threads in a circle */
        at(THREADS + 64)[2] = POINTER + 2;
        at(THREADS + 64)[1] = THREADS;
        cr_assert_not(walk_from(TEXT + 9, 64));
}

Test(python_walk, depth_counts_frames_of_either_kind) {
        put_natives();
        for (unsigned i = 1; i < 90; i++)
                put_frame(frame(i), i, i < 89 ? frame(i + 1) : in_native(1), 0);
        put_frame(in_native(1), 0, 0, PYTHON_OWNER_SHIM);
        cr_assert(walk_from(TEXT + 9, 16));
        cr_assert_eq(unwind.end, ABI_STACK_DEPTH);
        cr_assert_eq(unwind.n_frames, 1 + 2 * 15);
}

/* A recursion of @n frames, whose evaluator is native frame 1. */
static void put_recursion(unsigned n) {
        static uint64_t many[8 * (PYTHON_MAX_STEPS + 100)];
        const uint64_t address = 0x67000000;

        put_natives();
        for (unsigned i = 0; i < n; i++) {
                many[8 * i] = code(i % 90 + 1);
                many[8 * i + PREVIOUS / 8] = i + 1 < n ? address + 64 * (i + 1) : in_native(1);
                many[8 * i + POSITION / 8] = code(i % 90 + 1) + 100;
                many[8 * i + OWNER / 8] = 0;
        }
        put_frame(in_native(1), 0, 0, PYTHON_OWNER_SHIM);
        shim_areas[2] = (ShimArea){ address, sizeof(many), many };
        at(THREADS + 64)[3] = address;
}

Test(python_walk, a_chain_of_more_frames_than_a_sample_has_keeps_its_place) {
        const unsigned ns[] = { ABI_MAX_FRAMES - 1, ABI_MAX_FRAMES, 1500, PYTHON_MAX_STEPS - 10 };

        for (size_t i = 0; i < ARRAY_SIZE(ns); i++) {
                put_recursion(ns[i]);
                cr_assert(walk_from(TEXT + 9, ABI_MAX_FRAMES));
                cr_assert_eq(frames[0], TEXT + 9, "what the innermost function has called");
                for (unsigned j = 0; j < ABI_MAX_FRAMES - 1; j++)
                        cr_assert_eq(frames[1 + 2 * j], word_of(j % 90 + 1), "%u of %u", j, ns[i]);
                cr_assert_eq(unwind.n_frames, 1 + 2 * (ABI_MAX_FRAMES - 1));
                cr_assert_eq(unwind.end, ABI_STACK_DEPTH);
                cr_assert_eq(python.is_cut, ns[i] > PYTHON_MAX_CHAIN);
        }
        /* no mark within reach: what has no place is not shown */
        put_recursion(PYTHON_MAX_STEPS + 10);
        cr_assert(walk_from(TEXT + 9, ABI_MAX_FRAMES));
        cr_assert_eq(frames[1], EVALUATOR + 1);
        cr_assert_eq(python.n_written, 0);
        cr_assert(python.is_cut);
}

Test(python_walk, a_thread_in_two_interpreters_has_its_frames_in_one) {
        put_natives();
        at(THREADS)[2] = POINTER;       /* without frames */
        put_frame(frame(1), 1, in_native(1), 0);
        put_frame(in_native(1), 0, 0, PYTHON_OWNER_SHIM);
        cr_assert(walk_from(TEXT + 9, 64));
        cr_assert_eq(python.found, THREADS + 64);
}

/* A second interpreter, in front of the first one in the list, whose only thread is ours. */
static void put_second_interpreter(uint64_t first_frame) {
        *at(RUNTIME) = INTERPRETER + 0x40;
        at(INTERPRETER + 0x40)[0] = INTERPRETER;
        at(INTERPRETER + 0x40)[1] = THREADS + 128;
        at(THREADS + 128)[1] = 0;
        at(THREADS + 128)[2] = POINTER;
        at(THREADS + 128)[3] = first_frame;
}

Test(python_walk, chains_of_two_interpreters_stand_in_the_order_of_their_marks) {
        /* inner: 1, 2 up to frame 1; outer: 3, 4 up to frame 3 */
        put_natives();
        put_frame(frame(1), 1, frame(2), 0);
        put_frame(frame(2), 2, in_native(1), 0);
        put_frame(in_native(1), 0, 0, PYTHON_OWNER_SHIM);
        put_frame(frame(3), 3, frame(4), 0);
        put_frame(frame(4), 4, in_native(3), 0);
        put_frame(in_native(3), 0, 0, PYTHON_OWNER_SHIM);
        put_second_interpreter(frame(3));
        cr_assert(walk_from(TEXT + 9, 64));
        check_whole();
        cr_assert_not(python.is_cut);
        cr_assert_eq(python.first, 0);
        /* the other way round in the list */
        at(THREADS + 64)[3] = frame(3);
        put_second_interpreter(frame(1));
        cr_assert(walk_from(TEXT + 9, 64));
        check_whole();
        cr_assert_not(python.is_cut);
}

Test(python_walk, the_rest_of_two_chains_follows_a_native_walk_that_ends_early) {
        put_natives();
        put_native(1, 0x77000000);      /* no mapping is known there */
        put_frame(frame(1), 1, in_native(1), 0);
        put_frame(in_native(1), 0, 0, PYTHON_OWNER_SHIM);
        put_frame(frame(3), 3, in_native(3), 0);
        put_frame(in_native(3), 0, 0, PYTHON_OWNER_SHIM);
        put_second_interpreter(frame(3));
        cr_assert(walk_from(TEXT + 9, 64));
        cr_assert_eq(frames[1], word_of(1));
        cr_assert_eq(frames[3], word_of(3));
        cr_assert_eq(unwind.n_frames, 5);
        cr_assert_eq(python.mode, PYTHON_WRITES_REST);
}

Test(python_walk, one_interpreter_alone_is_known_by_its_address) {
        put_natives();
        put_frame(frame(1), 1, in_native(1), 0);
        put_frame(in_native(1), 0, 0, PYTHON_OWNER_SHIM);
        cr_assert(walk_from(TEXT + 9, 64));
        cr_assert_eq(python.first, INTERPRETER);
        put_second_interpreter(0);
        cr_assert(walk_from(TEXT + 9, 64));
        cr_assert_eq(python.first, 0);
        cr_assert_eq(python.n_parts, 1);
}

static bool is_listed(uint64_t thread) {
        python.thread_id = POINTER;
        return python_is_listed(&python, &process, INTERPRETER, thread);
}

Test(python_walk, a_freed_state_with_a_new_threads_id_is_not_its_state) {
        const uint64_t freed = THREADS + 64, fresh = THREADS + 128;

        cr_assert(is_listed(freed));
        cr_assert_not(is_listed(THREADS), "another thread's");
        cr_assert_not(is_listed(0x12345678), "no memory is there");
        /* its thread has ended; free() has written nothing there */
        at(THREADS)[1] = 0;
        cr_assert_not(is_listed(freed));
        /* a new one, with the same stack and so the same id, comes first */
        at(fresh)[1] = THREADS;
        at(fresh)[2] = POINTER;
        at(THREADS)[0] = fresh;
        at(INTERPRETER)[1] = fresh;
        cr_assert(is_listed(fresh));
        cr_assert_not(is_listed(freed));
        /* it was the first one itself when it ended */
        at(INTERPRETER)[1] = THREADS;
        at(THREADS)[0] = 0;
        cr_assert_not(is_listed(fresh));
}

Test(python_walk, a_thread_without_a_state_has_none_until_the_list_begins_anew) {
        const uint64_t fresh = THREADS + 128;

        python.thread_id = POINTER + 5;
        cr_assert(python_is_as_before(&python, &process, INTERPRETER, THREADS));
        at(fresh)[1] = THREADS;
        at(fresh)[2] = POINTER + 5;
        at(INTERPRETER)[1] = fresh;
        cr_assert_not(python_is_as_before(&python, &process, INTERPRETER, THREADS));
        /* where its state is now, another thread had one when it was looked for */
        cr_assert_not(python_is_as_before(&python, &process, INTERPRETER, fresh));
        python.thread_id = POINTER + 6;
        cr_assert(python_is_as_before(&python, &process, INTERPRETER, fresh));
        at(INTERPRETER)[1] = 0;
        cr_assert_not(python_is_as_before(&python, &process, INTERPRETER, 0), "it has no threads yet");
}

Test(python_walk, more_interpreters_than_are_kept_cut_the_stack) {
        const uint64_t threads = HEAP + 0xe800, interpreters = HEAP + 0xe000;

        put_natives();
        for (unsigned i = 0; i <= PYTHON_MAX_STATES; i++) {
                at(interpreters + 64 * i)[0] = i < PYTHON_MAX_STATES ? interpreters + 64 * (i + 1) : 0;
                at(interpreters + 64 * i)[1] = threads + 64 * i;
                at(threads + 64 * i)[2] = POINTER;
                at(threads + 64 * i)[3] = frame(i + 1);
                put_frame(frame(i + 1), i + 1, in_native(i), 0);
                put_frame(in_native(i), 0, 0, PYTHON_OWNER_SHIM);
        }
        *at(RUNTIME) = interpreters;
        cr_assert(walk_from(TEXT + 9, 64));
        cr_assert_eq(python.n_parts, PYTHON_MAX_STATES);
        cr_assert(python.is_cut);
}

Test(python_walk, a_greenlets_stack_ends_at_its_root) {
        put_natives();
        put_frame(frame(1), 1, in_native(1), 0);
        put_frame(in_native(1), 0, 0, PYTHON_OWNER_SHIM);
        process.root = TEXT;
        process.root_size = 0x100;
        /* native frame 0 is greenlet's code, too: a call of it, in front of the mark */
        cr_assert(walk_from(TEXT + 9, 64));
        cr_assert_eq(frames[0], TEXT + 9);
        cr_assert_eq(frames[1], word_of(1));
        cr_assert_eq(frames[3], TEXT + 2);
        cr_assert_eq(unwind.n_frames, 4);
        cr_assert_eq(unwind.end, ABI_STACK_COMPLETE);
        /* what lies behind is not even looked at */
        put_native(2, 0x77000000);
        cr_assert(walk_from(TEXT + 9, 64));
        cr_assert_eq(unwind.n_frames, 4);
        cr_assert_eq(unwind.end, ABI_STACK_COMPLETE);
        cr_assert_eq(python.n_written, python.n_frames);
}

/* ---- tasks ---- */

enum {
        TASKS = HEAP + 0x3000,          /* 64 bytes each: name, coroutine, awaited_by, is_set */
        COROUTINES = HEAP + 0x4000,     /* 0x100 bytes each: type, state, then a frame and its stack's end */
        NAMES = HEAP + 0x6000,
        COROUTINE_TYPE = HEAP + 0xe000,
        RUNNING = 32,                   /* in a thread state */
};

static uint64_t task(unsigned i) {
        return TASKS + 64 * (uint64_t)i;
}

static uint64_t coroutine(unsigned i) {
        return COROUTINES + 0x100 * (uint64_t)i;
}

static void put_task(unsigned i, unsigned of, unsigned awaited_by) {
        at(task(i))[0] = NAMES;
        at(task(i))[1] = coroutine(of);
        at(task(i))[2] = awaited_by ? task(awaited_by) : 0;
}

/* A coroutine that runs function @i and awaits @awaited; 0 = something else. */
static void put_coroutine(unsigned i, uint8_t state, unsigned awaited) {
        uint64_t *to = at(coroutine(i));

        to[1] = COROUTINE_TYPE;
        to[2] = state;
        put_frame(coroutine(i) + 32, i, 0, 1);
        to[8] = awaited ? coroutine(30 + i) + 8 : 0;
        if (awaited)
                *at(coroutine(30 + i)) = coroutine(awaited) | 1;
}

/* The chain of put_natives(), whose frame 2 is that of task 1's coroutine, 10. */
static void put_tasks(void) {
        put_natives();
        process.tasks = (struct python_tasks){ .coroutine_type = COROUTINE_TYPE, .running = RUNNING,
                                               .name = 0, .coroutine = 8, .awaited_by = 16, .is_set = 24,
                                               .frame = 32, .state = 16, .code = 32, .position = 48,
                                               .stack = 64, .suspended = 0xfe, .suspended_for = 0xff,
                                               .awaited = 8 };
        at(THREADS + 64)[RUNNING / 8] = task(1);
        put_coroutine(10, 0, 0);
        put_frame(frame(1), 1, coroutine(10) + 32, 0);
        put_frame(coroutine(10) + 32, 10, in_native(1), 1);
        put_frame(in_native(1), 0, frame(3), PYTHON_OWNER_SHIM);
        put_frame(frame(3), 3, in_native(3), 0);
        put_frame(in_native(3), 0, 0, PYTHON_OWNER_SHIM);
        put_task(1, 10, 2);
        put_task(2, 11, 3);
        put_task(3, 14, 0);
        put_coroutine(11, 0xff, 12);
        put_coroutine(12, 0xff, 13);
        put_coroutine(13, 0xfe, 0);
        put_coroutine(14, 0xff, 0);
        memcpy(at(NAMES), "a name", 6);
}

/* Functions of Python in the stack, the innermost first. */
static void check_functions(const unsigned *functions, size_t n) {
        size_t i = 0;

        for (uint32_t word = 0; word < unwind.n_frames; word += runtime_frame_words(frames[word])) {
                if (frames[word] >> RUNTIME_KIND_SHIFT != RUNTIME_PYTHON)
                        continue;
                cr_assert_lt(i, n);
                cr_assert_eq(frames[word], word_of(functions[i]), "%zu", i);
                i++;
        }
        cr_assert_eq(i, n);
        cr_assert_eq(python.n_written, python.n_frames);
}

Test(python_walk, awaiters_follow_the_running_tasks_coroutine) {
        const unsigned functions[] = { 1, 10, 13, 12, 11, 14, 3 };

        put_tasks();
        cr_assert(walk_from(TEXT + 9, 64));
        check_functions(functions, ARRAY_SIZE(functions));
        cr_assert_eq(unwind.end, ABI_STACK_COMPLETE);
        cr_assert_eq(python.awaits.name_size, PYTHON_TASK_SIZE);
        cr_assert_eq(memcmp(python.awaits.name, "a name", 6), 0);
}

Test(python_walk, several_awaiters_are_no_chain) {
        const unsigned functions[] = { 1, 10, 3 };

        put_tasks();
        at(task(1))[3] = 1;
        cr_assert(walk_from(TEXT + 9, 64));
        check_functions(functions, ARRAY_SIZE(functions));
        cr_assert_eq(python.awaits.name_size, PYTHON_TASK_SIZE);
}

Test(python_walk, an_awaiter_that_does_not_wait_has_no_frames) {
        const unsigned functions[] = { 1, 10, 14, 3 };

        put_tasks();
        at(coroutine(11))[2] = 0;
        cr_assert(walk_from(TEXT + 9, 64));
        check_functions(functions, ARRAY_SIZE(functions));
}

Test(python_walk, a_task_that_is_not_this_chains_is_left_alone) {
        const unsigned functions[] = { 1, 10, 3 };

        put_tasks();
        at(task(1))[1] = coroutine(11);         /* its frame is not in the chain */
        cr_assert(walk_from(TEXT + 9, 64));
        check_functions(functions, ARRAY_SIZE(functions));
        cr_assert_eq(python.awaits.name_size, 0);
        at(coroutine(10))[1] = CODE_TYPE;       /* nor is this a coroutine */
        at(task(1))[1] = coroutine(10);
        cr_assert(walk_from(TEXT + 9, 64));
        cr_assert_eq(python.awaits.name_size, 0);
}

Test(python_walk, circles_of_awaiters_end) {
        put_tasks();
        at(task(3))[2] = task(2);
        cr_assert(walk_from(TEXT + 9, 1024));
        cr_assert_leq(python.n, PYTHON_MAX_CHAIN);
        cr_assert_leq(python.awaits.n_tasks, PYTHON_MAX_TASKS + 1);
        put_coroutine(13, 0xff, 11);            /* a coroutine that awaits itself */
        cr_assert(walk_from(TEXT + 9, 1024));
        cr_assert_leq(python.awaits.n, PYTHON_MAX_AWAITS);
        cr_assert_leq(python.n, PYTHON_MAX_CHAIN);
}

/* ---- the lock ---- */

TestSuite(lock, .init = setup);

Test(lock, is_where_the_interpreters_point) {
        enum { SECOND = INTERPRETER + 0x40, FIRST_LOCK = HEAP + 0x4000, SECOND_LOCK = HEAP + 0x5000 };

        *at(INTERPRETER) = SECOND;
        *at(SECOND) = 0;
        *at(INTERPRETER + 16) = FIRST_LOCK;
        *at(SECOND + 16) = SECOND_LOCK;
        cr_assert_not(python_waits_for_lock(&process, FIRST_LOCK + 32), "it is not known where");
        process.lock_pointer = 16;
        process.lock_begin = 32;
        process.lock_end = 208;
        cr_assert(python_waits_for_lock(&process, FIRST_LOCK + 32));
        cr_assert(python_waits_for_lock(&process, FIRST_LOCK + 207));
        cr_assert(python_waits_for_lock(&process, SECOND_LOCK + 80));
        cr_assert_not(python_waits_for_lock(&process, FIRST_LOCK + 31));
        cr_assert_not(python_waits_for_lock(&process, FIRST_LOCK + 208));
        cr_assert_not(python_waits_for_lock(&process, FIRST_LOCK - 8));
        cr_assert_not(python_waits_for_lock(&process, 40), "no lock lies at 0");
        *at(SECOND) = INTERPRETER;
        cr_assert_not(python_waits_for_lock(&process, STACK), "a circle of interpreters ends");
        *at(INTERPRETER) = 1;
        cr_assert_not(python_waits_for_lock(&process, SECOND_LOCK + 80), "one that cannot be read");
}

Test(lock, is_in_the_runtime_up_to_3_11) {
        process.lock = HEAP + 0x6000;
        process.lock_begin = 32;
        process.lock_end = 208;
        cr_assert(python_waits_for_lock(&process, HEAP + 0x6000 + 100));
        cr_assert_not(python_waits_for_lock(&process, HEAP + 0x6000 + 208));
}

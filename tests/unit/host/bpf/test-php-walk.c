/* SPDX-License-Identifier: Apache-2.0 */

/*
 * The lines of bpf/runtimes/php.bpf.h themselves, on frames, functions and native stacks made by hand, by the
 * layout of PHP 8.2; calls without a frame are 8.4's.
 *
 * Native frames are 64 bytes each: all text has the row CFA = rsp + 64, and the evaluator is a part of it.
 */

#include <criterion/criterion.h>

#include "shim/bpf-shim.h"
#include "shim/rows-shim.h"
#include "shim/php-shim.h"

#include "core/base/util/macro.h"
#include "host/sampling/unwind/tables/rows.h"

enum {
        STACK = 0x7ffe0000,
        N_WORDS = 2048,
        FRAME_WORDS = 8,
        TEXT = 0x55000000,
        ROOT = TEXT + 0x1000,           /* its row says that it is the outermost frame */
        EVALUATOR = TEXT + 0x800,
        COLD = TEXT + 0x400,
        SIZE = 0x100,                   /* of either */
        ROWLESS = 0x56000000,
        HEAP = 0x66000000,
        CURRENT = HEAP,
        GENERATORS = HEAP + 8,
        FRAMELESS = HEAP + 16,
        GENERATOR_CLASS = HEAP + 0x40,
        OBJECT = HEAP + 0x80,
        TABLE = HEAP + 0x200,           /* of functions that are called without a frame */
        FRAMES = HEAP + 0x1000,         /* 80 bytes each */
        FUNCTIONS = HEAP + 0x4000,      /* 256 bytes each */
        TEXTS = HEAP + 0x8000,          /* 32 bytes each */
        OPS = HEAP + 0xa000,            /* 16 ops for each function */
        GENERATION = 7,
        FILE_AT = 152,
        OPS_AT = 88,
        TOP = PHP_INFO_TOP,
        LEAF = TEXT + 9,
        CALL = TEXT + 0x40,             /* where they return to; */
        OWN_CALL = EVALUATOR + 0x20,    /* the same in the evaluator itself */
        SIGNAL = TEXT + 0x110,          /* where a handler returns to */
};

static uint64_t words[N_WORDS];
static uint64_t heap[0x20000 / 8];
static uint64_t frames[UNWIND_MAX_FRAMES];
static struct unwind unwind;
static struct rules rules;
static struct rows_cache cache;
static struct python php;
static struct php_process process;
static Rows rows;

static uint64_t *at(uint64_t address) {
        return &heap[(address - HEAP) / 8];
}

static uint64_t frame(unsigned i) {
        return i ? FRAMES + 80 * (uint64_t)i : 0;
}

static uint64_t function(unsigned i) {
        return FUNCTIONS + 256 * (uint64_t)i;
}

static uint64_t text(unsigned i) {
        return TEXTS + 32 * (uint64_t)i;
}

static uint64_t op(unsigned i, unsigned n) {
        return OPS + 512 * (uint64_t)i + 32 * n;
}

/* Function @i of PHP begins in line 100 * @i, and its op n has the line 100 * @i + n. */
static void put_function(unsigned i, uint8_t kind) {
        uint64_t *to = at(function(i));

        to[0] = kind;
        to[1] = text(i);
        at(text(i))[1] = 0x1000 + i;    /* its hash */
        if (kind == PHP_FUNCTION_INTERNAL)
                return;
        to[FILE_AT / 8] = text(50);
        to[FILE_AT / 8 + 1] = 100 * i;
        to[OPS_AT / 8 - 1] = 16;
        to[OPS_AT / 8] = op(i, 0);
        for (unsigned n = 0; n < 16; n++)
                at(op(i, n))[3] = 100 * i + n;
}

/* Frame @i, of function @i, is at op 3. */
static void put_frame(unsigned i, unsigned previous, uint32_t info) {
        uint64_t *to = at(frame(i));

        to[PHP_FRAME_OPLINE] = op(i, 3);
        to[PHP_FRAME_FUNCTION] = function(i);
        to[PHP_FRAME_INFO] = info;
        to[PHP_FRAME_PREVIOUS] = frame(previous);
}

static uint64_t word_of(unsigned i, uint64_t kind) {
        return (uint64_t)RUNTIME_PHP << RUNTIME_KIND_SHIFT |
                (kind | PHP_FUNCTION_NAMED) << PHP_FUNCTION_SHIFT | function(i);
}

/* Native frame @i, from the leaf on, returns to @caller. */
static void put_native(unsigned i, uint64_t caller) {
        words[(i + 1) * FRAME_WORDS - 1] = caller;
}

static void setup(void) {
        static struct unwind_mapping mappings[] = {
                { .start = TEXT, .n_pages = 2, .table = 3 },
                { .start = ROWLESS, .n_pages = 1, .table = UNWIND_NO_TABLE },
        };

        memset(heap, 0, sizeof(heap));
        memset(words, 0, sizeof(words));
        memset(&rules, 0, sizeof(rules));
        cr_assert_eq(rows_init(&rows, 0x1000, 0x3000, 1 << 20), 0);
        cr_assert_eq(rows_add(&rows, 0x1000, unwind_rule(UNWIND_CFA_RSP, 64, 0, 0, 0)), 0);
        cr_assert_eq(rows_add(&rows, 0x1100, unwind_rule(UNWIND_CFA_SIGNAL, 0, 0, 0, 0)), 0);
        cr_assert_eq(rows_add(&rows, 0x1120, unwind_rule(UNWIND_CFA_RSP, 64, 0, 0, 0)), 0);
        cr_assert_eq(rows_add(&rows, 0x2000, unwind_rule(UNWIND_CFA_END, 0, 0, 0, 0)), 0);
        cr_assert_eq(rows_finish(&rows, 0x3000), 0);
        shim_tables[3] = (ShimTable){ .data = rows.data, .size = (size_t)rows.n_blocks * UNWIND_BLOCK_SIZE };
        nodes_build(&shim_nodes, mappings, 2, GENERATION);
        shim_areas[0] = (ShimArea){ STACK, sizeof(words), words };
        shim_areas[1] = (ShimArea){ HEAP, sizeof(heap), heap };
        process = (struct php_process){ .generation = GENERATION,
                                        .current = CURRENT,
                                        .generators = GENERATORS,
                                        .evaluator = EVALUATOR,
                                        .evaluator_size = SIZE,
                                        .cold = COLD,
                                        .cold_size = SIZE,
                                        .file = FILE_AT,
                                        .ops = OPS_AT };
        *at(CURRENT) = frame(1);
        *at(GENERATORS) = GENERATOR_CLASS;
        at(OBJECT)[2] = GENERATOR_CLASS;
        at(text(50))[1] = 0xf11e;
        for (unsigned i = 1; i < 10; i++)
                put_function(i, PHP_FUNCTION_USER);
        /* leaf, evaluator, callback, evaluator, main */
        put_native(0, EVALUATOR + 1);
        put_native(1, TEXT + 2);
        put_native(2, COLD + 3);
        put_native(3, ROOT + 4);
        /* 1 and 2 in the inner run; 3, of C, and 4, 5 in the outer one */
        put_function(3, PHP_FUNCTION_INTERNAL);
        put_frame(1, 2, 0);
        put_frame(2, 3, TOP);
        put_frame(3, 4, 0);
        put_frame(4, 5, 0);
        put_frame(5, 0, TOP);
}

static void teardown(void) {
        rows_deinit(&rows);
        shim_python = NULL;
}

TestSuite(php_walk, .init = setup, .fini = teardown);

static bool walk_from(uint64_t pc) {
        bool has;

        memset(&php, 0xee, sizeof(php));
        memset(frames, 0xee, sizeof(frames));
        memset(&cache, 0, sizeof(cache));
        shim_begin(&unwind, &rules, 64);
        unwind.pc = pc;
        unwind.sp = STACK;
        unwind.bp = 0;
        has = shim_php_begin(&php, &process, &unwind, &rules);
        shim_python = has ? &php : NULL;
        shim_walk(&unwind, &rules, frames, &cache);
        return has;
}

/* @expected: first words of the frames, the leaf first. */
static void check(const uint64_t *expected, size_t n, uint32_t end) {
        uint32_t at_word = 0;

        for (size_t i = 0; i < n; i++) {
                cr_assert_lt(at_word, unwind.n_frames);
                cr_assert_eq(frames[at_word], expected[i], "%zu: %llx", i,
                             (unsigned long long)frames[at_word]);
                at_word += runtime_frame_words(frames[at_word]);
        }
        cr_assert_eq(unwind.n_frames, at_word);
        cr_assert_eq(unwind.end, end);
}

#define USER(i) word_of(i, PHP_FUNCTION_USER)
#define CHECK(end, ...) \
        do { \
                const uint64_t expected[] = { __VA_ARGS__ }; \
                check(expected, ARRAY_SIZE(expected), end); \
        } while (0)

Test(php_walk, frames_stand_where_runs_of_the_interpreter_stood) {
        cr_assert(walk_from(LEAF));
        CHECK(ABI_STACK_COMPLETE, LEAF, USER(1), USER(2), TEXT + 2, word_of(3, PHP_FUNCTION_INTERNAL),
              USER(4), USER(5), ROOT + 4);
        cr_assert_eq(php.n_written, php.n_frames);
        cr_assert_eq(php.is_again, 0);
        cr_assert_eq(php.is_cut, 0);
}

Test(php_walk, callers_have_their_lines_and_functions_of_c_have_none) {
        walk_from(LEAF);
        cr_assert_eq(frames[2], (uint64_t)php_cookie(0x1001, 0, 0xf11e, 100) << 32,
                     "the leaf's is not known");
        cr_assert_eq(frames[4], (uint64_t)php_cookie(0x1002, 0, 0xf11e, 200) << 32 | 203);
        cr_assert_eq(frames[7], (uint64_t)php_cookie(0x1003, 0, 0, 0) << 32);
        cr_assert_eq((uint32_t)frames[9], 403);
}

Test(php_walk, a_class_is_a_part_of_the_cookie) {
        at(function(2))[2] = OBJECT + 0x20;
        at(OBJECT + 0x20)[1] = text(60);
        at(text(60))[1] = 0xc1a55;
        walk_from(LEAF);
        cr_assert_eq(frames[4], (uint64_t)php_cookie(0x1002, 0xc1a55, 0xf11e, 200) << 32 | 203);
        cr_assert_eq(frames[4] >> 32, 0xbca0677b, "by cookie() of make-php-corpus.py");
}

Test(php_walk, the_leafs_line_is_that_of_the_interpreters_registers) {
        rules.registers[14] = frame(1);
        rules.registers[15] = op(1, 7);
        walk_from(LEAF);
        cr_assert_eq((uint32_t)frames[2], 107, "C that keeps them");
        put_native(0, TEXT + 2);
        put_native(1, COLD + 3);
        put_native(2, ROOT + 4);
        walk_from(EVALUATOR + 8);
        CHECK(ABI_STACK_COMPLETE, USER(1), USER(2), TEXT + 2, word_of(3, PHP_FUNCTION_INTERNAL), USER(4),
              USER(5), ROOT + 4);
        cr_assert_eq((uint32_t)frames[1], 107);
}

Test(php_walk, registers_that_do_not_belong_together_give_the_leaf_no_line) {
        const uint64_t wrong[][2] = { { frame(2), op(1, 7) },
                                      { frame(1), op(2, 0) },
                                      { frame(1), op(1, 7) + 8 },
                                      { frame(1), op(1, 16) },
                                      { frame(1), op(1, 0) - 32 } };

        for (size_t i = 0; i < ARRAY_SIZE(wrong); i++) {
                rules.registers[14] = wrong[i][0];
                rules.registers[15] = wrong[i][1];
                walk_from(LEAF);
                cr_assert_eq(frames[1], USER(1));
                cr_assert_eq((uint32_t)frames[2], 0, "%zu", i);
        }
}

Test(php_walk, a_run_that_begins_has_no_native_frame_yet) {
        put_native(0, TEXT + 2);
        put_native(1, COLD + 3);
        put_native(2, ROOT + 4);
        cr_assert(walk_from(LEAF));
        CHECK(ABI_STACK_COMPLETE, LEAF, TEXT + 2, word_of(3, PHP_FUNCTION_INTERNAL), USER(4), USER(5),
              ROOT + 4);
        cr_assert_lt(php.n_written, php.n_frames, "it is counted as partial");
}

Test(php_walk, a_run_that_ends_has_a_native_frame_still) {
        *at(CURRENT) = frame(3);
        cr_assert(walk_from(LEAF));
        CHECK(ABI_STACK_COMPLETE, LEAF, EVALUATOR + 1, TEXT + 2, word_of(3, PHP_FUNCTION_INTERNAL), USER(4),
              USER(5), ROOT + 4);
}

Test(php_walk, runs_that_no_native_frames_are_for_have_no_place) {
        put_native(0, ROOT + 4);
        cr_assert(walk_from(LEAF));
        CHECK(ABI_STACK_COMPLETE, LEAF, ROOT + 4);
        cr_assert_eq(php.n_written, 0);
}

Test(php_walk, behind_code_without_rows_the_chain_goes_on_alone) {
        put_native(1, ROWLESS + 2);
        cr_assert(walk_from(LEAF));
        CHECK(ABI_STACK_NO_ROWS, LEAF, USER(1), USER(2), ROWLESS + 2, word_of(3, PHP_FUNCTION_INTERNAL),
              USER(4), USER(5));
}

Test(php_walk, a_fibers_native_stack_ends_and_who_resumed_it_follows) {
        put_function(6, PHP_FUNCTION_INTERNAL);
        at(function(6))[1] = 0;         /* no name */
        put_frame(2, 6, TOP);
        put_frame(6, 3, 0);
        put_native(1, ROOT + 4);
        cr_assert(walk_from(LEAF));
        CHECK(ABI_STACK_COMPLETE, LEAF, USER(1), USER(2), ROOT + 4, word_of(3, PHP_FUNCTION_INTERNAL),
              USER(4), USER(5));
}

Test(php_walk, a_generators_stand_in_says_that_others_delegate) {
        put_frame(6, 3, PHP_TYPE_OBJECT);
        at(frame(6))[PHP_FRAME_FUNCTION] = 0;
        at(frame(6))[PHP_FRAME_THIS] = OBJECT;
        put_frame(2, 6, TOP);
        cr_assert(walk_from(LEAF));
        CHECK(ABI_STACK_COMPLETE, LEAF, USER(1), USER(2), TEXT + 2,
              (uint64_t)RUNTIME_PHP << RUNTIME_KIND_SHIFT, word_of(3, PHP_FUNCTION_INTERNAL), USER(4),
              USER(5), ROOT + 4);
        at(OBJECT)[2] = GENERATOR_CLASS + 8;
        walk_from(LEAF);
        CHECK(ABI_STACK_COMPLETE, LEAF, USER(1), USER(2), TEXT + 2, word_of(3, PHP_FUNCTION_INTERNAL),
              USER(4), USER(5), ROOT + 4);
}

Test(php_walk, code_of_a_file_has_no_name) {
        at(function(5))[1] = 0;
        walk_from(LEAF);
        cr_assert_eq(frames[unwind.n_frames - 3],
                     (uint64_t)RUNTIME_PHP << RUNTIME_KIND_SHIFT |
                             (uint64_t)PHP_FUNCTION_USER << PHP_FUNCTION_SHIFT | function(5));
}

Test(php_walk, a_chain_that_cannot_be_read_keeps_its_native_frames) {
        *at(CURRENT) = 0;
        cr_assert_not(walk_from(LEAF));
        CHECK(ABI_STACK_COMPLETE, LEAF, EVALUATOR + 1, TEXT + 2, COLD + 3, ROOT + 4);
        *at(CURRENT) = frame(1);
        *at(function(1)) = 3;           /* no kind of function */
        cr_assert_not(walk_from(LEAF));
        CHECK(ABI_STACK_COMPLETE, LEAF, EVALUATOR + 1, TEXT + 2, COLD + 3, ROOT + 4);
}

Test(php_walk, a_function_that_is_none_is_not_taken_for_one_that_is_known) {
        at(frame(1))[PHP_FRAME_FUNCTION] = 1;
        cr_assert_not(walk_from(LEAF));
        CHECK(ABI_STACK_COMPLETE, LEAF, EVALUATOR + 1, TEXT + 2, COLD + 3, ROOT + 4);
}

Test(php_walk, a_chain_in_a_ring_ends) {
        put_frame(5, 1, TOP);
        cr_assert(walk_from(LEAF));
        cr_assert_eq(php.is_cut, 1);
        cr_assert_leq(unwind.n_frames, (uint32_t)UNWIND_MAX_FRAMES);
}

Test(php_walk, of_a_deep_recursion_in_one_run_the_innermost_frames_are_kept) {
        put_frame(2, 1, 0);
        cr_assert(walk_from(LEAF));
        cr_assert_eq(php.is_cut, 1);
        cr_assert_eq(unwind.end, ABI_STACK_DEPTH);
        cr_assert_eq(php.n_written, 63);
        cr_assert_eq(frames[0], LEAF);
        for (unsigned i = 0; i < php.n_written; i++)
                cr_assert_eq(frames[1 + 2 * i], USER(1 + i % 2), "%u", i);
}

Test(php_walk, stacks_deeper_than_wanted_keep_their_innermost_frames) {
        shim_python = NULL;
        memset(&php, 0xee, sizeof(php));
        memset(&cache, 0, sizeof(cache));
        shim_begin(&unwind, &rules, 3);
        unwind.pc = LEAF;
        unwind.sp = STACK;
        unwind.bp = 0;
        cr_assert(shim_php_begin(&php, &process, &unwind, &rules));
        shim_python = &php;
        shim_walk(&unwind, &rules, frames, &cache);
        CHECK(ABI_STACK_DEPTH, LEAF, USER(1), USER(2));
}

/* ---- functions that are called without a frame ---- */

/* Op 3 of function @i calls function 9, of C; natively, by code that is called by the evaluator. */
static void call_frameless(unsigned i) {
        put_function(9, PHP_FUNCTION_INTERNAL);
        *at(FRAMELESS) = TABLE;
        at(TABLE)[5] = function(9);
        at(op(i, 3))[2] = 5ull << 32;
        at(op(i, 3))[3] |= (uint64_t)(PHP_OP_FRAMELESS + 2) << 32;
        process.frameless = FRAMELESS;
        process.calls[0] = CALL - EVALUATOR;
        process.calls[1] = OWN_CALL - EVALUATOR;
        put_native(0, CALL);
        put_native(1, EVALUATOR + 1);
        put_native(2, TEXT + 2);
        put_native(3, COLD + 3);
        put_native(4, ROOT + 4);
}

#define CALLED word_of(9, PHP_FUNCTION_INTERNAL | PHP_FUNCTION_FRAMELESS)

Test(php_walk, a_function_that_is_called_without_a_frame_stands_in_front_of_its_caller) {
        call_frameless(1);
        cr_assert(walk_from(LEAF));
        CHECK(ABI_STACK_COMPLETE, LEAF, CALL, CALLED, USER(1), USER(2), TEXT + 2,
              word_of(3, PHP_FUNCTION_INTERNAL), USER(4), USER(5), ROOT + 4);
        cr_assert_eq(frames[3], (uint64_t)php_cookie(0x1009, 0, 0, 0) << 32);
        cr_assert_eq(frames[5], (uint64_t)php_cookie(0x1001, 0, 0xf11e, 100) << 32 | 103,
                     "its line is known, since the op is");
        cr_assert_eq(php.n_written, php.n_frames);
        cr_assert_eq(php.n_left_out, 0);
}

Test(php_walk, one_that_has_returned_is_left_out) {
        static const uint64_t others[] = { CALL + 1, TEXT + 2 };

        call_frameless(1);
        rules.registers[14] = frame(1);
        rules.registers[15] = op(1, 7);
        for (size_t i = 0; i < ARRAY_SIZE(others); i++) {
                put_native(0, others[i]);
                cr_assert(walk_from(LEAF));
                CHECK(ABI_STACK_COMPLETE, LEAF, others[i], USER(1), USER(2), TEXT + 2,
                      word_of(3, PHP_FUNCTION_INTERNAL), USER(4), USER(5), ROOT + 4);
                cr_assert_eq((uint32_t)frames[3], 107, "the registers' line");
                cr_assert_eq(php.n_written + php.n_left_out, php.n_frames);
        }
}

Test(php_walk, a_leaf_at_that_place_has_returned) {
        call_frameless(1);
        put_native(0, EVALUATOR + 1);
        put_native(1, TEXT + 2);
        put_native(2, COLD + 3);
        put_native(3, ROOT + 4);
        cr_assert(walk_from(CALL));
        CHECK(ABI_STACK_COMPLETE, CALL, USER(1), USER(2), TEXT + 2, word_of(3, PHP_FUNCTION_INTERNAL),
              USER(4), USER(5), ROOT + 4);
}

Test(php_walk, the_evaluator_may_call_one_itself) {
        call_frameless(1);
        put_native(0, OWN_CALL);
        put_native(1, TEXT + 2);
        put_native(2, COLD + 3);
        put_native(3, ROOT + 4);
        cr_assert(walk_from(LEAF));
        CHECK(ABI_STACK_COMPLETE, LEAF, CALLED, USER(1), USER(2), TEXT + 2, word_of(3, PHP_FUNCTION_INTERNAL),
              USER(4), USER(5), ROOT + 4);
        put_native(0, TEXT + 2);
        put_native(1, COLD + 3);
        put_native(2, ROOT + 4);
        walk_from(OWN_CALL);
        cr_assert_eq(frames[0], USER(1), "as the leaf it has returned from it");
}

/* The leaf is a signal's handler, and has interrupted code at @pc, which callers follow. */
static void interrupt(uint64_t pc, const uint64_t *callers, size_t n) {
        enum { FRAME = 8, INTERRUPTED = 8 };

        put_native(0, SIGNAL);
        words[FRAME + 20] = STACK + INTERRUPTED * FRAME_WORDS * 8;
        words[FRAME + 21] = pc;
        for (size_t i = 0; i < n; i++)
                put_native(INTERRUPTED + (unsigned)i, callers[i]);
}

Test(php_walk, code_that_a_signal_has_interrupted_has_called_none_at_that_place) {
        static const uint64_t callers[] = { CALL, EVALUATOR + 1, TEXT + 2, COLD + 3, ROOT + 4 };

        call_frameless(1);
        interrupt(CALL, callers + 1, 4);
        cr_assert(walk_from(LEAF));
        CHECK(ABI_STACK_COMPLETE, LEAF, SIGNAL, CALL + 1, USER(1), USER(2), TEXT + 2,
              word_of(3, PHP_FUNCTION_INTERNAL), USER(4), USER(5), ROOT + 4);
        interrupt(OWN_CALL, callers + 2, 3);
        cr_assert(walk_from(LEAF));
        CHECK(ABI_STACK_COMPLETE, LEAF, SIGNAL, USER(1), USER(2), TEXT + 2, word_of(3, PHP_FUNCTION_INTERNAL),
              USER(4), USER(5), ROOT + 4);
        interrupt(LEAF, callers, 5);
        cr_assert(walk_from(LEAF));
        CHECK(ABI_STACK_COMPLETE, LEAF, SIGNAL, LEAF + 1, CALL, CALLED, USER(1), USER(2), TEXT + 2,
              word_of(3, PHP_FUNCTION_INTERNAL), USER(4), USER(5), ROOT + 4);
}

Test(php_walk, one_that_calls_back_stands_between_two_runs) {
        put_frame(1, 2, TOP);
        call_frameless(2);
        put_native(0, EVALUATOR + 1);
        put_native(1, CALL);
        put_native(2, COLD + 3);
        put_native(3, TEXT + 2);
        put_native(4, COLD + 3);
        put_native(5, ROOT + 4);
        cr_assert(walk_from(LEAF));
        CHECK(ABI_STACK_COMPLETE, LEAF, USER(1), CALL, CALLED, USER(2), TEXT + 2,
              word_of(3, PHP_FUNCTION_INTERNAL), USER(4), USER(5), ROOT + 4);
        put_native(1, CALL + 1);        /* a destructor */
        walk_from(LEAF);
        CHECK(ABI_STACK_COMPLETE, LEAF, USER(1), CALL + 1, USER(2), TEXT + 2,
              word_of(3, PHP_FUNCTION_INTERNAL), USER(4), USER(5), ROOT + 4);
}

Test(php_walk, an_op_that_calls_none_has_none_in_front) {
        for (unsigned i = 0; i < 6; i++) {
                call_frameless(1);
                at(op(1, 3))[3] = 103 | (uint64_t)(i == 0 ? 203 : i == 1 ? 208 : 206) << 32;
                if (i == 2)
                        process.frameless = 0;
                else if (i == 3)
                        at(op(1, 3))[2] = (uint64_t)PHP_MAX_FRAMELESS << 32;
                else if (i == 4)
                        put_function(9, PHP_FUNCTION_USER);
                else if (i == 5)
                        at(TABLE)[5] = HEAP - 8;
                cr_assert(walk_from(LEAF));
                CHECK(ABI_STACK_COMPLETE, LEAF, CALL, USER(1), USER(2), TEXT + 2,
                      word_of(3, PHP_FUNCTION_INTERNAL), USER(4), USER(5), ROOT + 4);
                cr_assert_eq(php.n_written, php.n_frames, "%u", i);
        }
}

Test(php_walk, behind_code_without_rows_none_is_known_to_be_called) {
        call_frameless(1);
        put_native(0, ROWLESS + 2);
        cr_assert(walk_from(LEAF));
        CHECK(ABI_STACK_NO_ROWS, LEAF, ROWLESS + 2, USER(1), USER(2), word_of(3, PHP_FUNCTION_INTERNAL),
              USER(4), USER(5));
        cr_assert_eq(php.n_written + php.n_left_out, php.n_frames);
}

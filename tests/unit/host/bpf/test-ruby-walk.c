/* SPDX-License-Identifier: Apache-2.0 */

/*
 * The lines of bpf/runtimes/ruby.bpf.h themselves, on contexts, frames and native stacks made by hand, by the
 * layout of Ruby 3.1, and what is other in 2.7 and 3.3.
 *
 * Native frames are 64 bytes each: all text has the row CFA = rsp + 64; evaluator and core are parts of it.
 */

#include <criterion/criterion.h>

#include "shim/bpf-shim.h"
#include "shim/rows-shim.h"
#include "shim/ruby-shim.h"

#include "core/base/util/macro.h"
#include "host/sampling/unwind/tables/rows.h"

enum {
        STACK = 0x7ffe0000,
        N_WORDS = 2048,
        FRAME_WORDS = 8,
        TEXT = 0x55000000,
        ROOT = TEXT + 0x1000,           /* its row says that it is the outermost frame */
        EVALUATOR = TEXT + 0x800,
        CORE = TEXT + 0x400,
        SIZE = 0x100,                   /* of either */
        ROWLESS = 0x56000000,
        HEAP = 0x66000000,
        VARIABLE = HEAP,
        MACHINE = HEAP + 0x10,
        THREAD_POINTER = HEAP + 0x100,
        VECTOR = HEAP + 0x200,          /* of threads' blocks; module 3 */
        BLOCK = HEAP + 0x300,
        CONTEXT = HEAP + 0x400,
        VALUES = HEAP + 0x1000,         /* stack of values: 0x1000 bytes */
        END = VALUES + 0x1000,
        CODES = HEAP + 0x3000,          /* 64 bytes each */
        BODIES = HEAP + 0x4000,         /* 512 bytes each */
        ENTRIES = HEAP + 0x8000,        /* 64 bytes each, then their definitions */
        SPACE = HEAP + 0xa000,
        THREAD = HEAP + 0xb000,
        RACTOR = HEAP + 0xc000,
        CLASSES = HEAP + 0xd000,        /* 256 bytes each */
        DEEP = 0x67000000,              /* another stack of values */
        N_DEEP = PYTHON_MAX_CHAIN + 100,
        DEPTH = 64,
        INSTRUCTIONS = 0x37000000,      /* 0x1000 bytes each; not read */
        GENERATION = 7,
        FRAME_SIZE = 64,
        LEAF = TEXT + 9,
};

static uint64_t words[N_WORDS];
static uint64_t heap[0x10000 / 8];
static uint64_t deep[N_DEEP * FRAME_SIZE / 8];
static uint64_t frames[UNWIND_MAX_FRAMES];
static struct unwind unwind;
static struct rules rules;
static struct rows_cache cache;
static struct python ruby;
static struct ruby_process process;
static Rows rows;

static uint64_t *at(uint64_t address) {
        return &heap[(address - HEAP) / 8];
}

static uint64_t body(unsigned i) {
        return BODIES + 512 * (uint64_t)i;
}

static void put_body(unsigned i) {
        at(CODES + 64 * i)[2] = body(i);
        at(body(i))[RUBY_BODY_SIZE] = 20ull << 32;
        at(body(i))[RUBY_BODY_CODE] = INSTRUCTIONS + 0x1000 * i;
        at(body(i))[RUBY_BODY_LABEL] = 0x1000 + i;
}

/* Frame @i counts from the innermost one, 0; its environment is in the values. */
static uint64_t *frame(unsigned i, unsigned n) {
        return at(END - FRAME_SIZE * (uint64_t)(n - i));
}

static void put_frame(uint64_t *to, unsigned i, uint64_t flags) {
        uint64_t environment = VALUES + 0x100 + 32 * i;
        uint32_t kind = flags & RUBY_KIND_MASK;

        to[RUBY_FRAME_PC] = kind == RUBY_KIND_C || kind == RUBY_KIND_DUMMY ? 0
                                                                           : INSTRUCTIONS + 0x1000 * i + 40;
        to[RUBY_FRAME_CODE] = CODES + 64 * i;
        to[RUBY_FRAME_ENVIRONMENT] = environment;
        at(environment)[-2] = ENTRIES + 64 * i;
        at(environment)[0] = flags;
}

static void put_entry(unsigned i, uint64_t id) {
        uint64_t *entry = at(ENTRIES + 64 * i);

        entry[RUBY_ENTRY_FLAGS] = RUBY_ENTRY_TYPE << 12;
        entry[RUBY_ENTRY_DEFINITION] = ENTRIES + 0x1000 + 64 * i;
        at(ENTRIES + 0x1000 + 64 * i)[RUBY_DEFINITION_ID / 8] = id;
}

/* Frames from the innermost one on, and the one that ends them. */
static void put_chain(const uint64_t *flags, unsigned n) {
        for (unsigned i = 0; i < n; i++)
                put_frame(frame(i, n + 1), i, flags[i]);
        put_frame(frame(n, n + 1), 30, RUBY_KIND_DUMMY | RUBY_FLAG_RUN | RUBY_FLAG_C);
        at(CONTEXT)[RUBY_CONTEXT_FRAME / 8] = END - FRAME_SIZE * (uint64_t)(n + 1);
}

/* Native frame @i, from the leaf on, returns to @caller. */
static void put_native(unsigned i, uint64_t caller) {
        words[(i + 1) * FRAME_WORDS - 1] = caller;
}

/* a block in a run of its own; `each`; a method and the main code in the outer run */
static const uint64_t usual[] = { RUBY_KIND_BLOCK | RUBY_FLAG_RUN, RUBY_KIND_C | RUBY_FLAG_C,
                                  RUBY_KIND_METHOD, RUBY_KIND_EVAL | RUBY_FLAG_RUN };

static void put_process(void) {
        process = (struct ruby_process){ .generation = GENERATION,
                                         .variable = VARIABLE,
                                         .machine = MACHINE,
                                         .evaluator = EVALUATOR,
                                         .evaluator_size = SIZE,
                                         .core = CORE,
                                         .core_size = SIZE,
                                         .frame_size = FRAME_SIZE,
                                         .thread = 48,
                                         .stack_start = 0x90,
                                         .stack_size = 0xa0,
                                         .space = 0x28,
                                         .space_flags = 16,
                                         .collects = 1 << 5,
                                         .ractor = 0x18,
                                         .running = 0x208,
                                         .compiled = 0x118 };
        at(VARIABLE)[0] = 3;
        at(VARIABLE)[1] = 8;
        at(MACHINE)[0] = HEAP + 0x40;
        at(HEAP + 0x40)[5] = SPACE;
        at(THREAD_POINTER)[1] = VECTOR;
        at(VECTOR)[2 * 3] = BLOCK;
        at(BLOCK)[1] = CONTEXT;
        at(CONTEXT)[0] = VALUES;
        at(CONTEXT)[1] = (END - VALUES) / 8;
        at(CONTEXT)[6] = THREAD;
        at(THREAD)[0x18 / 8] = RACTOR;
        at(RACTOR)[0x208 / 8] = CONTEXT;
        at(CONTEXT)[0x90 / 8] = STACK + sizeof(words);
        at(CONTEXT)[0xa0 / 8] = 2 * sizeof(words);
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
        cr_assert_eq(rows_add(&rows, 0x2000, unwind_rule(UNWIND_CFA_END, 0, 0, 0, 0)), 0);
        cr_assert_eq(rows_finish(&rows, 0x3000), 0);
        shim_tables[3] = (ShimTable){ .data = rows.data, .size = (size_t)rows.n_blocks * UNWIND_BLOCK_SIZE };
        nodes_build(&shim_nodes, mappings, 2, GENERATION);
        shim_areas[0] = (ShimArea){ STACK, sizeof(words), words };
        shim_areas[1] = (ShimArea){ HEAP, sizeof(heap), heap };
        shim_areas[2] = (ShimArea){ DEEP, sizeof(deep), deep };
        put_process();
        for (unsigned i = 0; i < 8; i++) {
                put_body(i);
                put_entry(i, 0x1000 + i);
        }
        put_chain(usual, ARRAY_SIZE(usual));
        /* leaf, core, evaluator, each, core, evaluator, main */
        put_native(0, CORE + 1);
        put_native(1, EVALUATOR + 1);
        put_native(2, TEXT + 2);
        put_native(3, CORE + 3);
        put_native(4, EVALUATOR + 3);
        put_native(5, ROOT + 4);
}

static void teardown(void) {
        rows_deinit(&rows);
        shim_python = NULL;
}

TestSuite(ruby_walk, .init = setup, .fini = teardown);

static bool walk_from(uint64_t pc) {
        bool has;

        memset(&ruby, 0xee, sizeof(ruby));
        memset(frames, 0xee, sizeof(frames));
        memset(&cache, 0, sizeof(cache));
        shim_begin(&unwind, &rules, DEPTH);
        unwind.pc = pc;
        unwind.sp = STACK;
        unwind.bp = 0;
        has = shim_ruby_begin(&ruby, &process, THREAD_POINTER, &unwind, &rules);
        shim_python = has ? &ruby : NULL;
        shim_walk(&unwind, &rules, frames, &cache);
        return has;
}

/* @expected: first words of the frames, the leaf first. */
static void check(const uint64_t *expected, size_t n, uint32_t end) {
        uint32_t at_word = 0;

        for (size_t i = 0; i < n; i++) {
                cr_assert_lt(at_word, unwind.n_frames, "%zu", i);
                cr_assert_eq(frames[at_word], expected[i], "%zu: %llx", i,
                             (unsigned long long)frames[at_word]);
                at_word += runtime_frame_words(frames[at_word]);
        }
        cr_assert_eq(unwind.n_frames, at_word);
        cr_assert_eq(unwind.end, end);
}

#define WORD(kind, what) \
        ((uint64_t)RUNTIME_RUBY << RUNTIME_KIND_SHIFT | (uint64_t)(kind) << RUBY_KIND_SHIFT | (what))
#define METHOD(i) WORD(RUBY_FRAME_METHOD, body(i))
#define C(i) WORD(RUBY_FRAME_C, 0x1000 + (i))
#define CHECK(end, ...) \
        do { \
                const uint64_t expected[] = { __VA_ARGS__ }; \
                check(expected, ARRAY_SIZE(expected), end); \
        } while (0)
#define NATIVE_ALONE LEAF, CORE + 1, EVALUATOR + 1, TEXT + 2, CORE + 3, EVALUATOR + 3, ROOT + 4

Test(ruby_walk, frames_stand_where_runs_of_the_interpreter_stood) {
        cr_assert(walk_from(LEAF));
        CHECK(ABI_STACK_COMPLETE, LEAF, METHOD(0), TEXT + 2, C(1), METHOD(2), METHOD(3), ROOT + 4);
        cr_assert_eq(ruby.n_written, ruby.n_frames);
        cr_assert_eq(ruby.is_again, 0);
        cr_assert_eq(ruby.is_cut, 0);
}

Test(ruby_walk, a_leaf_in_the_interpreter_is_the_methods) {
        put_native(0, EVALUATOR + 1);
        put_native(1, TEXT + 2);
        put_native(2, CORE + 3);
        put_native(3, EVALUATOR + 3);
        put_native(4, ROOT + 4);
        cr_assert(walk_from(CORE + 8));
        CHECK(ABI_STACK_COMPLETE, METHOD(0), TEXT + 2, C(1), METHOD(2), METHOD(3), ROOT + 4);
}

Test(ruby_walk, frames_have_positions_and_those_of_c_have_none) {
        walk_from(LEAF);
        cr_assert_eq(frames[2], (uint64_t)ruby_cookie(at(body(0))) << 32 | 5);
        cr_assert_eq(frames[6], 0, "`each`");
        cr_assert_eq(frames[9], (uint64_t)ruby_cookie(at(body(2))) << 32 | 5);
        cr_assert_eq(frames[3] | frames[7] | frames[10], 0, "classes are not read in 3.1");
        cr_assert_eq(frames[2] >> 32, 0x94082fb6, "by cookie() of make-ruby-corpus.py: %llx",
                     (unsigned long long)frames[2] >> 32);
}

Test(ruby_walk, where_a_jit_has_made_code_the_leaf_has_no_position) {
        at(body(0))[0x118 / 8] = 0x7f0000001000;
        at(body(2))[0x118 / 8] = 0x7f0000001000;
        walk_from(LEAF);
        cr_assert_eq((uint32_t)frames[2], PYTHON_NO_POSITION);
        cr_assert_eq((uint32_t)frames[9], 5, "a call stores it");
        at(body(0))[0x118 / 8] = 3;
        walk_from(LEAF);
        cr_assert_eq((uint32_t)frames[2], 5, "a number says that there is none");
}

Test(ruby_walk, while_the_collector_runs_a_frame_says_so) {
        at(SPACE)[2] = 1 << 5;
        walk_from(LEAF);
        CHECK(ABI_STACK_COMPLETE, LEAF, WORD(RUBY_FRAME_COLLECTOR, 0), METHOD(0), TEXT + 2, C(1), METHOD(2),
              METHOD(3), ROOT + 4);
        cr_assert_eq((uint32_t)frames[5], 5);
}

Test(ruby_walk, while_another_thread_has_the_lock_the_collector_is_that_ones) {
        at(SPACE)[2] = 1 << 5;
        at(RACTOR)[0x208 / 8] = CONTEXT + 0x400;
        walk_from(LEAF);
        CHECK(ABI_STACK_COMPLETE, LEAF, METHOD(0), TEXT + 2, C(1), METHOD(2), METHOD(3), ROOT + 4);
}

Test(ruby_walk, a_collector_that_no_method_has_called_for_has_no_frame) {
        static const uint64_t flags[] = { RUBY_KIND_C_BLOCK | RUBY_FLAG_C };

        for (unsigned n = 0; n < 2; n++) {
                setup();
                put_chain(flags, n);
                at(SPACE)[2] = 1 << 5;
                cr_assert_not(walk_from(LEAF), "%u", n);
                CHECK(ABI_STACK_COMPLETE, NATIVE_ALONE);
        }
}

Test(ruby_walk, blocks_of_c_and_frames_that_are_being_made_have_no_name) {
        static const uint64_t flags[] = { RUBY_KIND_METHOD | RUBY_FLAG_RUN, RUBY_KIND_C_BLOCK | RUBY_FLAG_C,
                                          RUBY_KIND_METHOD, RUBY_KIND_EVAL | RUBY_FLAG_RUN };

        put_chain(flags, 4);
        frame(2, 5)[RUBY_FRAME_PC] = 0;
        walk_from(LEAF);
        CHECK(ABI_STACK_COMPLETE, LEAF, METHOD(0), TEXT + 2, METHOD(3), ROOT + 4);
}

Test(ruby_walk, a_dummy_inside_of_the_stack_does_not_end_it) {
        static const uint64_t flags[] = { RUBY_KIND_METHOD | RUBY_FLAG_RUN, RUBY_KIND_C | RUBY_FLAG_C,
                                          RUBY_KIND_DUMMY, RUBY_KIND_EVAL | RUBY_FLAG_RUN };

        put_chain(flags, 4);
        walk_from(LEAF);
        CHECK(ABI_STACK_COMPLETE, LEAF, METHOD(0), TEXT + 2, C(1), METHOD(3), ROOT + 4);
        cr_assert_eq(ruby.is_cut, 0);
}

Test(ruby_walk, a_run_that_begins_has_no_native_frame_yet) {
        put_native(0, TEXT + 2);
        put_native(1, CORE + 3);
        put_native(2, EVALUATOR + 3);
        put_native(3, ROOT + 4);
        cr_assert(walk_from(LEAF));
        CHECK(ABI_STACK_COMPLETE, LEAF, TEXT + 2, C(1), METHOD(2), METHOD(3), ROOT + 4);
        cr_assert_lt(ruby.n_written, ruby.n_frames, "it is counted as partial");
}

Test(ruby_walk, a_run_that_ends_has_a_native_frame_still) {
        at(CONTEXT)[RUBY_CONTEXT_FRAME / 8] += FRAME_SIZE;
        cr_assert(walk_from(LEAF));
        CHECK(ABI_STACK_COMPLETE, LEAF, CORE + 1, EVALUATOR + 1, TEXT + 2, C(1), METHOD(2), METHOD(3),
              ROOT + 4);
}

Test(ruby_walk, runs_that_no_native_frames_are_for_have_no_place) {
        put_native(0, ROOT + 4);
        cr_assert(walk_from(LEAF));
        CHECK(ABI_STACK_COMPLETE, LEAF, ROOT + 4);
        cr_assert_eq(ruby.n_written, 0);
}

Test(ruby_walk, behind_code_without_rows_the_chain_goes_on_alone) {
        put_native(2, ROWLESS + 2);
        cr_assert(walk_from(LEAF));
        CHECK(ABI_STACK_NO_ROWS, LEAF, METHOD(0), ROWLESS + 2, C(1), METHOD(2), METHOD(3));
}

Test(ruby_walk, a_fiber_may_begin_with_methods_of_c) {
        static const uint64_t flags[] = { RUBY_KIND_METHOD | RUBY_FLAG_RUN, RUBY_KIND_C | RUBY_FLAG_C,
                                          RUBY_KIND_C | RUBY_FLAG_C };

        put_chain(flags, 3);
        put_native(2, ROOT + 4);
        cr_assert(walk_from(LEAF));
        CHECK(ABI_STACK_COMPLETE, LEAF, METHOD(0), ROOT + 4, C(1), C(2));
        cr_assert_eq(ruby.n_written, ruby.n_frames);
}

/* More frames of one method than are kept, in a run whose begin is not among those. */
static void put_recursion(void) {
        for (unsigned i = 0; i < N_DEEP; i++)
                put_frame(&deep[i * FRAME_SIZE / 8], 2, RUBY_KIND_METHOD);
        put_frame(&deep[(N_DEEP - 1) * FRAME_SIZE / 8], 30, RUBY_KIND_DUMMY | RUBY_FLAG_RUN | RUBY_FLAG_C);
        at(CONTEXT)[RUBY_CONTEXT_STACK / 8] = DEEP;
        at(CONTEXT)[RUBY_CONTEXT_SIZE_AT / 8] = ARRAY_SIZE(deep);
        at(CONTEXT)[RUBY_CONTEXT_FRAME / 8] = DEEP;
}

Test(ruby_walk, of_a_deep_recursion_the_innermost_frames_are_kept) {
        put_recursion();
        cr_assert(walk_from(LEAF));
        cr_assert_eq(ruby.is_cut, 1);
        cr_assert_eq(unwind.end, ABI_STACK_DEPTH);
        cr_assert_eq(ruby.n_written, DEPTH - 1);
        cr_assert_eq(frames[0], LEAF);
        for (unsigned i = 0; i < ruby.n_written; i++)
                cr_assert_eq(frames[1 + 3 * i], METHOD(2), "%u", i);
}

Test(ruby_walk, of_a_deep_recursion_behind_another_run_too) {
        const uint64_t begin[] = { LEAF, METHOD(0), TEXT + 2, C(1), METHOD(2) };
        uint32_t word = 0;

        put_recursion();
        put_frame(deep, 0, usual[0]);
        put_frame(deep + FRAME_SIZE / 8, 1, usual[1]);
        cr_assert(walk_from(LEAF));
        cr_assert_eq(ruby.is_cut, 1);
        cr_assert_eq(ruby.n_written, DEPTH - 2);
        for (unsigned i = 0; i < ARRAY_SIZE(begin); word += runtime_frame_words(frames[word]), i++)
                cr_assert_eq(frames[word], begin[i], "%u", i);
}

/* The layout of 3.3, of what is said of classes. */
static void put_classes(void) {
        process.class = 128;
        for (unsigned i = 0; i < 8; i++) {
                at(ENTRIES + 64 * i)[RUBY_ENTRY_OWNER] = CLASSES + 256 * i;
                at(CLASSES + 256 * i + 128)[RUBY_CLASS_PATH] = 0x2000 + 8 * i;
        }
}

static uint64_t class_word(unsigned i) {
        return ruby_class_cookie(at(CLASSES + 256 * i + 128)) << RUBY_CLASS_SHIFT | (CLASSES + 256 * i);
}

Test(ruby_walk, methods_have_their_classes_and_blocks_that_of_the_method_around_them) {
        put_classes();
        /* the block's outer environment, with a mark */
        at(VALUES + 0x100)[-1] = VALUES + 0x100 + 32 * 2 + 1;
        at(VALUES + 0x100 + 32 * 2)[0] |= RUBY_FLAG_LOCAL;
        at(VALUES + 0x100 + 32 * 3)[0] |= RUBY_FLAG_LOCAL;
        at(ENTRIES + 64 * 3)[RUBY_ENTRY_FLAGS] = 5 << 12;       /* code of a file: no method's */
        walk_from(LEAF);
        CHECK(ABI_STACK_COMPLETE, LEAF, METHOD(0), TEXT + 2, C(1), METHOD(2), METHOD(3), ROOT + 4);
        cr_assert_eq(frames[3], class_word(2));
        cr_assert_eq(frames[7], class_word(1));
        cr_assert_eq(frames[10], class_word(2));
        cr_assert_eq(frames[13], 0);
        cr_assert_eq(frames[3] >> 48, 0x83f, "by class_cookie() of make-ruby-corpus.py: %llx",
                     (unsigned long long)frames[3] >> 48);
}

Test(ruby_walk, a_method_with_variables_of_its_own_is_behind_another_entry) {
        put_classes();
        at(VALUES + 0x100 + 32 * 2)[0] |= RUBY_FLAG_LOCAL;
        at(VALUES + 0x100 + 32 * 2)[-2] = ENTRIES + 64 * 6;
        at(ENTRIES + 64 * 6)[RUBY_ENTRY_FLAGS] = RUBY_ENTRY_VARIABLES << 12;
        at(ENTRIES + 64 * 6)[RUBY_ENTRY_OTHER] = ENTRIES + 64 * 5;
        walk_from(LEAF);
        cr_assert_eq(frames[10], class_word(5));
        at(ENTRIES + 64 * 6)[RUBY_ENTRY_OTHER] = ENTRIES + 64 * 6;
        walk_from(LEAF);
        cr_assert_eq(frames[10], 0, "one is enough");
}

Test(ruby_walk, a_class_that_cannot_be_read_is_none) {
        static const uint64_t bad[] = { 0, CLASSES + 4, 1ull << 48, 0x12340000 };

        put_classes();
        for (size_t i = 0; i < ARRAY_SIZE(bad); i++) {
                at(ENTRIES + 64)[RUBY_ENTRY_OWNER] = bad[i];
                walk_from(LEAF);
                CHECK(ABI_STACK_COMPLETE, LEAF, METHOD(0), TEXT + 2, C(1), METHOD(2), METHOD(3), ROOT + 4);
                cr_assert_eq(frames[7], 0, "%zu", i);
        }
        /* environments in a ring */
        at(VALUES + 0x100)[-1] = VALUES + 0x100;
        walk_from(LEAF);
        cr_assert_eq(frames[3], 0);
}

/* 2.7: a pointer for all threads. */
static void put_only_context(void) {
        process.variable = HEAP + 0x20;
        process.owner = 72;
        process.ractor = process.running = 0;
        at(HEAP + 0x20)[0] = CONTEXT;
        at(THREAD)[72 / 8] = THREAD_POINTER;
        memset(at(VARIABLE), 0, 16);
}

Test(ruby_walk, one_context_for_all_is_of_the_thread_that_it_names) {
        put_only_context();
        cr_assert(walk_from(LEAF));
        CHECK(ABI_STACK_COMPLETE, LEAF, METHOD(0), TEXT + 2, C(1), METHOD(2), METHOD(3), ROOT + 4);
        at(SPACE)[2] = 1 << 5;
        cr_assert(walk_from(LEAF));
        cr_assert_eq(frames[1], WORD(RUBY_FRAME_COLLECTOR, 0));
        at(THREAD)[72 / 8] = THREAD_POINTER + 0x1000;
        cr_assert_not(walk_from(LEAF));
        CHECK(ABI_STACK_COMPLETE, NATIVE_ALONE);
        at(HEAP + 0x20)[0] = 0;
        cr_assert_not(walk_from(LEAF));
}

Test(ruby_walk, a_context_of_another_native_stack_is_not_this_ones) {
        at(CONTEXT)[0x90 / 8] = STACK - 0x1000;
        cr_assert_not(walk_from(LEAF));
        CHECK(ABI_STACK_COMPLETE, NATIVE_ALONE);
        at(CONTEXT)[0x90 / 8] = STACK + 0x1000000ull;
        cr_assert_not(walk_from(LEAF));
        at(CONTEXT)[0x90 / 8] = 0;
        cr_assert_not(walk_from(LEAF));
}

Test(ruby_walk, a_thread_without_a_context_keeps_its_native_frames) {
        at(BLOCK)[1] = 0;
        cr_assert_not(walk_from(LEAF));
        CHECK(ABI_STACK_COMPLETE, NATIVE_ALONE);
        at(BLOCK)[1] = CONTEXT;
        at(VARIABLE)[0] = 0;
        cr_assert_not(walk_from(LEAF));
        at(VARIABLE)[0] = RUBY_MAX_MODULES + 1;
        cr_assert_not(walk_from(LEAF));
}

Test(ruby_walk, frames_outside_of_their_stack_are_none) {
        static const uint64_t bad[] = { 0, VALUES - 64, END, END - 60 };

        for (size_t i = 0; i < ARRAY_SIZE(bad); i++) {
                at(CONTEXT)[RUBY_CONTEXT_FRAME / 8] = bad[i];
                cr_assert_not(walk_from(LEAF), "%zu", i);
        }
        setup();
        at(CONTEXT)[1] = RUBY_MAX_STACK + 1;
        cr_assert_not(walk_from(LEAF));
}

Test(ruby_walk, an_unknown_frame_ends_the_chain_and_is_counted) {
        at(VALUES + 0x100 + 32 * 2)[0] = 0x12340001;
        cr_assert(walk_from(LEAF));
        cr_assert_eq(ruby.is_cut, 1);
        cr_assert_eq(ruby.n_frames, 2);
        setup();
        frame(2, 5)[RUBY_FRAME_PC] = INSTRUCTIONS + 0x1000 * 2 + 8 * 21;
        cr_assert(walk_from(LEAF));
        cr_assert_eq(ruby.is_cut, 1, "behind its code");
        setup();
        at(ENTRIES + 64)[RUBY_ENTRY_FLAGS] = 5 << 12;
        cr_assert(walk_from(LEAF));
        cr_assert_eq(ruby.is_cut, 1, "no entry of a method");
}

Test(ruby_walk, an_end_that_is_not_at_the_stacks_end_is_counted) {
        at(CONTEXT)[1] += 8;
        cr_assert(walk_from(LEAF));
        cr_assert_eq(ruby.is_cut, 1);
}

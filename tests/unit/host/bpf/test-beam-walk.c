/* SPDX-License-Identifier: Apache-2.0 */

/*
 * The lines of bpf/runtimes/beam.bpf.h themselves, on stacks of Erlang and code made by hand: as walks by
 * rows leave them, by the layout of OTP 25.
 */

#include <criterion/criterion.h>

#include "shim/bpf-shim.h"
#include "shim/rows-shim.h"
#include "shim/beam-shim.h"

#include "core/base/util/macro.h"

enum {
        HEAP = 0x20000,                 /* of the process: its stack is the upper part */
        N_HEAP = 1024,
        STACK = HEAP + 512 * 8,
        SCHEDULERS = 0x40000,
        SCHEDULER_SIZE = 0x200,
        PROCESS = SCHEDULERS + 0x800,
        VARIABLES = SCHEDULERS + 0x1000,
        TABLE = SCHEDULERS + 0x1800,
        CODE = 0x7f0000,
        FRAGMENT = CODE + 0x400,        /* code of no module */
        BOTTOM = CODE + 0xc30,
        MODULES = CODE + 0x1000,
        END = CODE + 0x3000,
        NATIVE_STACK = 0x60000,         /* where the second scheduler calls C code from */
        CURRENT = 168,
        STOP = 88,
        HEAP_END = 136,
        PC = 256,
        REGISTERED = 48,
        INITIAL = 448,
        ENTRY = PROCESS + 0x400,        /* of the names of processes */
        DIRTY = SCHEDULERS + 0x400,     /* a dirty scheduler, whose thread has the pointer THREAD */
        THREAD = 0x7f1234560,
        DEPTH = 64,
};

static uint64_t heap[N_HEAP], other[0x2000 / 8], frames[UNWIND_MAX_FRAMES];
static uint8_t code[0x3000];
static struct unwind unwind;
static struct rules rules;
static struct beam beam;
static struct beam_process process;

static uint64_t *at(uint64_t address) {
        return &other[(address - SCHEDULERS) / 8];
}

static void setup(void) {
        memset(heap, 0, sizeof(heap));
        memset(other, 0, sizeof(other));
        memset(&rules, 0, sizeof(rules));
        for (size_t i = 0; i < sizeof(code); i++)
                code[i] = (uint8_t)(i * 7 + (i >> 8));
        shim_areas[0] = (ShimArea){ HEAP, sizeof(heap), heap };
        shim_areas[1] = (ShimArea){ SCHEDULERS, sizeof(other), other };
        shim_areas[2] = (ShimArea){ CODE, sizeof(code), code };
        process = (struct beam_process){ .generation = 7,
                                         .bottom = BOTTOM,
                                         .modules = MODULES,
                                         .active = VARIABLES,
                                         .ranges = VARIABLES + 64,
                                         .schedulers = SCHEDULERS,
                                         .scheduler_size = SCHEDULER_SIZE,
                                         .current = CURRENT,
                                         .stop = STOP,
                                         .end = HEAP_END,
                                         .pc = PC,
                                         .registered = REGISTERED,
                                         .initial = INITIAL,
                                         .n_schedulers = 2,
                                         .registers = { NATIVE_STACK - 0x8000, NATIVE_STACK } };
        *at(VARIABLES) = 1;             /* the second table is in force */
        at(VARIABLES + 64)[4] = TABLE;
        at(VARIABLES + 64)[5] = 2;
        at(TABLE)[0] = MODULES;
        at(TABLE)[1] = MODULES + 0x1000;
        at(TABLE)[2] = MODULES + 0x1100;
        at(TABLE)[3] = END;
        at(PROCESS)[STOP / 8] = STACK;
        at(PROCESS)[HEAP_END / 8] = HEAP + sizeof(heap);
        *at(SCHEDULERS + SCHEDULER_SIZE + CURRENT) = PROCESS;
        rules.registers[BEAM_REGISTER_PROCESS] = PROCESS;
        rules.registers[BEAM_REGISTER_HEAP] = HEAP + 0x100;
}

TestSuite(beam_walk, .init = setup);

/* Puts words at the stack, the innermost first, and the bottom behind them. */
#define PUT(...) put((const uint64_t[]){ __VA_ARGS__ }, sizeof((const uint64_t[]){ __VA_ARGS__ }) / 8)

static void put(const uint64_t *words, size_t n) {
        memcpy(&heap[(STACK - HEAP) / 8], words, n * 8);
        heap[(STACK - HEAP) / 8 + n] = BOTTOM;
}

/* Code behind the call that returns to @pc. */
static void put_way(uint64_t pc, const char *bytes, size_t n) {
        memset(code + (pc - CODE), 0x90, BEAM_CODE);
        memcpy(code + (pc - CODE) + 20, bytes, n);
}

static void put_by_rbp(uint64_t pc) {
        put_way(pc, "\x48\x89\xec", 3);
}

static void put_by_stop(uint64_t pc) {
        put_way(pc, "\x49\x8b\x65\x58", 4);
}

/* The walk by rows has written @n_native frames of C, and is at @pc. Return: whether that is the JIT's. */
static bool walk(unsigned n_native, uint64_t pc, uint64_t sp, uint64_t bp) {
        memset(&beam, 0xee, sizeof(beam));
        memset(frames, 0xee, sizeof(frames));
        unwind_begin(&unwind, 0, DEPTH);
        for (unsigned i = 0; i < n_native; i++)
                frames[i] = 0x5500 + i;
        frames[n_native] = pc;
        unwind.n_frames = n_native + 1;
        unwind.pc = pc;
        unwind.sp = sp;
        unwind.bp = bp;
        unwind.end = bp ? ABI_STACK_NO_ROWS : ABI_STACK_FP_END; /* as rules_find_other_cfa() */
        return shim_beam_walk(&beam, &process, &unwind, &rules, THREAD, frames);
}

/* The walk by rows has met the end of a thread's stack, behind @n_native frames of C. */
static bool walk_whole(unsigned n_native) {
        memset(&beam, 0xee, sizeof(beam));
        memset(frames, 0xee, sizeof(frames));
        unwind_begin(&unwind, 0, DEPTH);
        for (unsigned i = 0; i < n_native; i++)
                frames[i] = 0x5500 + i;
        unwind.n_frames = n_native;
        unwind.end = ABI_STACK_COMPLETE;
        return shim_beam_walk(&beam, &process, &unwind, &rules, THREAD, frames);
}

static uint64_t cookie_of(uint64_t pc) {
        uint64_t words[2];

        if (!pc)
                return 0;
        memcpy(words, code + (pc - CODE) - 16, sizeof(words));
        return (uint64_t)beam_cookie(words[0], words[1]) << 32;
}

/* @pcs: frames of Erlang, the leaf first, behind @n_native native ones. */
static void check(unsigned n_native, const uint64_t *pcs, size_t n, bool is_exact, uint32_t end) {
        cr_assert_eq(unwind.n_frames, n_native + 2 * n, "%u", unwind.n_frames);
        cr_assert_eq(unwind.end, end, "%u", unwind.end);
        for (unsigned i = 0; i < n_native; i++)
                cr_assert_eq(frames[i], 0x5500 + i);
        for (size_t i = 0; i < n; i++) {
                const uint64_t *words = frames + n_native + 2 * i;

                cr_assert_eq(words[0], (uint64_t)RUNTIME_BEAM << RUNTIME_KIND_SHIFT | pcs[i], "%zu: %llx", i,
                             (unsigned long long)words[0]);
                cr_assert_eq(words[1], cookie_of(pcs[i]) | (is_exact && !i ? BEAM_PC_EXACT : 0), "%zu", i);
        }
}

#define CHECK(n_native, is_exact, end, ...) \
        check(n_native, (const uint64_t[]){ __VA_ARGS__ }, sizeof((const uint64_t[]){ __VA_ARGS__ }) / 8, \
              is_exact, end)

enum {
        LEAF = MODULES + 0x123,
        ONE = MODULES + 0x200,
        TWO = MODULES + 0x1204,
        LOOSE = MODULES + 0x301,        /* a return address into a module that a fragment has */
        SMALL = 0x1f, LIST = HEAP + 0x11, BOXED = HEAP + 0x22, ATOM = 0x4b,
};

Test(beam_walk, words_with_low_bits_zero_are_callers_up_to_the_bottom) {
        PUT(SMALL, ONE, LIST, BOXED, TWO, ATOM, ONE);
        cr_assert(walk(0, LEAF, STACK, 0));
        CHECK(0, true, ABI_STACK_COMPLETE, LEAF, ONE, TWO, ONE);
        cr_assert_eq(beam.end, BEAM_END_WHOLE);
}

static void put_dirty(uint64_t current) {
        process.registers[2] = beam_dirty(DIRTY, THREAD);
        *at(DIRTY + BEAM_SCHEDULER_THREAD) = THREAD;
        *at(DIRTY + CURRENT) = current;
}

Test(beam_walk, the_process_of_a_dirty_scheduler_stands_behind_its_native_stack) {
        PUT(SMALL, ONE, LIST, TWO);
        put_dirty(PROCESS);
        *at(PROCESS) = 0x2903;
        cr_assert(walk_whole(3));
        CHECK(3, false, ABI_STACK_COMPLETE, ONE, TWO);
        cr_assert_eq(beam.end, BEAM_END_WHOLE);
        cr_assert_eq(beam.current, PROCESS);
        beam_find_task(&beam, &process);
        cr_assert_eq(beam.pid, 0x2903);
        put_dirty(0);
        cr_assert(walk_whole(3));
        CHECK(3, false, ABI_STACK_COMPLETE, 0);
        cr_assert_eq(beam.end, BEAM_END_WHOLE);
        cr_assert_eq(beam.current, 0);
}

Test(beam_walk, where_a_process_goes_on_stands_in_front_of_its_stack) {
        PUT(SMALL, ONE, LIST, TWO);
        put_dirty(PROCESS);
        at(PROCESS)[PC / 8] = LEAF;
        cr_assert(walk_whole(3));
        CHECK(3, true, ABI_STACK_COMPLETE, LEAF, ONE, TWO);
        at(PROCESS)[PC / 8] = FRAGMENT;
        cr_assert(walk_whole(3));
        CHECK(3, false, ABI_STACK_COMPLETE, ONE, TWO);
        at(PROCESS)[PC / 8] = HEAP;
        cr_assert(walk_whole(3));
        CHECK(3, false, ABI_STACK_COMPLETE, ONE, TWO);
}

Test(beam_walk, a_thread_that_is_no_dirty_scheduler_has_no_process) {
        PUT(SMALL, ONE, LIST, TWO);
        cr_assert_not(walk_whole(3));
        put_dirty(PROCESS);
        *at(DIRTY + BEAM_SCHEDULER_THREAD) = THREAD + 64;
        cr_assert_not(walk_whole(3), "another thread with the same bits");
        put_dirty(PROCESS);
        process.n_schedulers = 3;
        cr_assert_not(walk_whole(3), "the place of a scheduler that is not dirty");
        process.n_schedulers = 2;
        cr_assert_not(walk_whole(0), "no native frame");
        check(0, NULL, 0, false, ABI_STACK_COMPLETE);
}

Test(beam_walk, a_dirty_scheduler_whose_process_cannot_be_read_is_not_whole) {
        PUT(SMALL, ONE, LIST, TWO);
        put_dirty(PROCESS);
        at(PROCESS)[STOP / 8] = STACK + 4;
        cr_assert(walk_whole(3));
        check(3, NULL, 0, false, ABI_STACK_RUNTIME);
        cr_assert_eq(beam.end, BEAM_END_LOST);
        at(PROCESS)[STOP / 8] = 0x99990000;
        cr_assert(walk_whole(3));
        check(3, NULL, 0, false, ABI_STACK_RUNTIME);
        cr_assert_eq(beam.end, BEAM_END_CUT);
}

/* Code of a function up to the leaf's pc; in front of it there are no more instructions. */
#define BEFORE_LEAF(bytes) before_leaf(bytes, sizeof(bytes) - 1)

static void before_leaf(const char *bytes, size_t n) {
        memset(code + (LEAF - CODE) - BEAM_CODE, 0x90, BEAM_CODE);
        memcpy(code + (LEAF - CODE) - n, bytes, n);
}

Test(beam_walk, variables_of_a_leaf_may_not_be_written_yet) {
        PUT(SMALL, ONE, SMALL, TWO);
        BEFORE_LEAF("\x48\x83\xec\x18\x48\x89\x04\x24");
        cr_assert(walk(0, LEAF, STACK, 0));
        CHECK(0, true, ABI_STACK_COMPLETE, LEAF, TWO);
        BEFORE_LEAF("\x48\x81\xec\x18\x00\x00\x00");
        cr_assert(walk(0, LEAF, STACK, 0));
        CHECK(0, true, ABI_STACK_COMPLETE, LEAF, TWO);
        BEFORE_LEAF("\xe8\x00\x00\x00\x00\x48\x83\xec\x28\x48\x83\xec\x18");
        cr_assert(walk(0, LEAF, STACK, 0));
        CHECK(0, true, ABI_STACK_COMPLETE, LEAF, TWO);
        /* a header of a dead heap is no address of code */
        PUT(SMALL, 0x80, SMALL, TWO);
        cr_assert(walk(0, LEAF, STACK, 0));
        CHECK(0, true, ABI_STACK_COMPLETE, LEAF, TWO);
}

Test(beam_walk, the_first_and_the_last_bytes_that_are_looked_at_say_it) {
        static const char made[] = "\x48\x83\xec\x08";

        PUT(ONE, TWO);
        before_leaf("", 0);
        memcpy(code + (LEAF - CODE) - BEAM_CODE, made, 4);
        cr_assert(walk(0, LEAF, STACK, 0));
        CHECK(0, true, ABI_STACK_COMPLETE, LEAF, TWO);
        before_leaf(made, 4);
        cr_assert(walk(0, LEAF, STACK, 0));
        CHECK(0, true, ABI_STACK_COMPLETE, LEAF, TWO);
        before_leaf("", 0);
        memcpy(code + (LEAF - CODE) - BEAM_CODE - 1, made, 4);
        memcpy(code + (LEAF - CODE), made, 4);
        cr_assert(walk(0, LEAF, STACK, 0));
        CHECK(0, true, ABI_STACK_COMPLETE, LEAF, ONE, TWO);
}

Test(beam_walk, a_frame_that_was_given_up_or_of_other_code_is_not_skipped) {
        static const char *const ends[] = { "\x48\x83\xc4\x08\x90", "\x48\x81\xc4\x08\x01", "\xe8\x90\x90\x90\x90",
                                            "\xe9\x90\x90\x90\x90", "\xeb\x90\x90\x90\x90", "\xc3\x90\x90\x90\x90" };
        char bytes[] = "\x48\x83\xec\x08.....";

        PUT(ONE, TWO);
        for (size_t i = 0; i < ARRAY_SIZE(ends); i++) {
                memcpy(bytes + 4, ends[i], 5);
                BEFORE_LEAF(bytes);
                cr_assert(walk(0, LEAF, STACK, 0));
                CHECK(0, true, ABI_STACK_COMPLETE, LEAF, ONE, TWO);
        }
}

Test(beam_walk, room_that_no_function_makes_is_not_skipped) {
        PUT(ONE, TWO);
        BEFORE_LEAF("\x48\x81\xec\x00\x20\x00\x00");
        cr_assert(walk(0, LEAF, STACK, 0));
        CHECK(0, true, ABI_STACK_COMPLETE, LEAF, ONE, TWO);
        BEFORE_LEAF("\x48\x83\xec\x0c");
        cr_assert(walk(0, LEAF, STACK, 0));
        CHECK(0, true, ABI_STACK_COMPLETE, LEAF, ONE, TWO);
        /* code in front of the pc cannot be read */
        BEFORE_LEAF("\x48\x83\xec\x08");
        shim_areas[2] = (ShimArea){ LEAF - 16, 16 + BEAM_CODE, code + (LEAF - CODE) - 16 };
        PUT(LEAF + 5, LEAF + 9);
        cr_assert(walk(0, LEAF, STACK, 0));
        CHECK(0, true, ABI_STACK_COMPLETE, LEAF, LEAF + 5, LEAF + 9);
}

Test(beam_walk, c_code_whose_caller_keeps_the_stack_in_rbp) {
        PUT(ONE, SMALL, TWO);
        put_by_rbp(LEAF + 1);
        at(PROCESS)[STOP / 8] = 0x100;
        cr_assert(walk(3, LEAF + 1, NATIVE_STACK, STACK));
        CHECK(3, false, ABI_STACK_COMPLETE, LEAF + 1, ONE, TWO);
}

Test(beam_walk, c_code_whose_caller_has_written_the_stack_down) {
        PUT(ONE, SMALL, TWO);
        put_by_stop(LEAF + 1);
        /* rbp is an old one, which looks right */
        cr_assert(walk(3, LEAF + 1, NATIVE_STACK, STACK + 16));
        CHECK(3, false, ABI_STACK_COMPLETE, LEAF + 1, ONE, TWO);
}

/* Module 3, function 5, arity 2. */
static void put_initial(void) {
        at(PROCESS)[INITIAL / 8] = 3 << 6 | 0x0b;
        at(PROCESS)[INITIAL / 8 + 1] = 5 << 6 | 0x0b;
        at(PROCESS)[INITIAL / 8 + 2] = 0x7f02;
}

Test(beam_walk, a_process_is_told_by_its_name_or_by_what_it_began_with) {
        put_initial();
        PUT(ONE, TWO);
        cr_assert(walk(0, LEAF, STACK, 0));
        cr_assert(beam_find_task(&beam, &process));
        cr_assert_eq(beam.task, 3ull << 32 | 5 << 8 | 2);
        at(PROCESS)[REGISTERED / 8] = ENTRY;
        at(ENTRY)[4] = 7ull << 6 | 0x0b;
        cr_assert(beam_find_task(&beam, &process));
        cr_assert_eq(beam.task, BEAM_TASK_REGISTERED | 7);
        at(ENTRY)[4] = 7 << 6 | 0x0f;
        cr_assert_not(beam_find_task(&beam, &process), "an integer");
        cr_assert_eq(beam.task, 0);
        at(ENTRY)[4] = 1ull << 40 | 0x0b;
        cr_assert_not(beam_find_task(&beam, &process), "no atom has that number");
        at(PROCESS)[REGISTERED / 8] = 8;
        cr_assert_not(beam_find_task(&beam, &process), "no memory");
        at(PROCESS)[REGISTERED / 8] = 0;
        at(PROCESS)[INITIAL / 8 + 1] = 0x0f;
        cr_assert_not(beam_find_task(&beam, &process));
}

Test(beam_walk, without_a_stack_no_process_is_told) {
        put_initial();
        PUT(ONE, TWO);
        rules.registers[BEAM_REGISTER_PROCESS] = 0;
        put_by_rbp(FRAGMENT);
        cr_assert(walk(0, FRAGMENT, NATIVE_STACK, STACK));
        cr_assert_not(beam_find_task(&beam, &process), "the scheduler runs none");
        put_way(LEAF, "", 0);
        cr_assert(walk(1, LEAF, NATIVE_STACK - 8, STACK));
        cr_assert_not(beam_find_task(&beam, &process), "no scheduler's thread");
}

Test(beam_walk, a_fragment_is_left_out_and_its_caller_may_have_any_address) {
        put_by_rbp(FRAGMENT);
        PUT(FRAGMENT + 5, LOOSE, TWO);
        cr_assert(walk(1, FRAGMENT, NATIVE_STACK, STACK));
        CHECK(1, false, ABI_STACK_COMPLETE, LOOSE, TWO);
        /* a word like that is a term elsewhere: an integer */
        PUT(ONE, LOOSE, TWO);
        cr_assert(walk(1, FRAGMENT, NATIVE_STACK, STACK));
        CHECK(1, false, ABI_STACK_COMPLETE, ONE, TWO);
        /* a fragment that runs is the leaf */
        PUT(LOOSE, TWO);
        cr_assert(walk(0, FRAGMENT, STACK, 0));
        CHECK(0, true, ABI_STACK_COMPLETE, FRAGMENT, LOOSE, TWO);
}

Test(beam_walk, a_fragment_is_looked_behind_for_three_words) {
        put_by_rbp(FRAGMENT);
        PUT(SMALL, LIST, LOOSE, TWO);
        cr_assert(walk(1, FRAGMENT, NATIVE_STACK, STACK));
        CHECK(1, false, ABI_STACK_COMPLETE, LOOSE, TWO);
        /* none of the three is its caller: functions behind them may not be, either */
        PUT(SMALL, LIST, ATOM, LOOSE, TWO);
        cr_assert(walk(1, FRAGMENT, NATIVE_STACK, STACK));
        check(1, NULL, 0, false, ABI_STACK_RUNTIME);
        cr_assert_eq(beam.end, BEAM_END_LOST);
        cr_assert(walk(0, FRAGMENT, STACK, 0));
        CHECK(0, true, ABI_STACK_RUNTIME, FRAGMENT);
        cr_assert_eq(beam.end, BEAM_END_LOST);
        /* nor has the process any other function */
        PUT(SMALL);
        cr_assert(walk(1, FRAGMENT, NATIVE_STACK, STACK));
        check(1, NULL, 0, false, ABI_STACK_RUNTIME);
        cr_assert_eq(beam.end, BEAM_END_LOST);
}

/* As its signals are handled, or as it is taken from a queue. */
Test(beam_walk, between_two_processes_the_one_that_waits_stands_with_where_it_goes_on) {
        put_by_stop(FRAGMENT);
        memcpy(code + (FRAGMENT - CODE), "\x49\x89\xc5", 3);
        at(PROCESS)[PC / 8] = LEAF;
        PUT(SMALL, LIST, ATOM, ONE, TWO);
        cr_assert(walk(2, FRAGMENT, NATIVE_STACK, 0x1234));
        CHECK(2, true, ABI_STACK_COMPLETE, LEAF, ONE, TWO);
        /* a function that waits to be called has its caller at the top */
        PUT(ONE, TWO);
        cr_assert(walk(2, FRAGMENT, NATIVE_STACK, 0x1234));
        CHECK(2, true, ABI_STACK_COMPLETE, LEAF, ONE, TWO);
        /* it goes on with code of no function */
        at(PROCESS)[PC / 8] = FRAGMENT + 0x100;
        cr_assert(walk(2, FRAGMENT, NATIVE_STACK, 0x1234));
        CHECK(2, false, ABI_STACK_COMPLETE, ONE, TWO);
        /* other code has called */
        at(PROCESS)[PC / 8] = LEAF;
        code[FRAGMENT - CODE]--;
        PUT(SMALL, LIST, ATOM, ONE, TWO);
        cr_assert(walk(2, FRAGMENT, NATIVE_STACK, 0x1234));
        check(2, NULL, 0, false, ABI_STACK_RUNTIME);
}

/* With `+JPperf true` saved frame pointers lie there, which have the same low bits as addresses of code. */
Test(beam_walk, a_word_outside_of_all_modules_is_no_caller) {
        const uint64_t others[] = { STACK + 64, END, MODULES - BEAM_MAX_FRAGMENTS - 4 };

        for (size_t i = 0; i < ARRAY_SIZE(others); i++) {
                PUT(ONE, others[i], TWO);
                cr_assert(walk(0, LEAF, STACK, 0));
                CHECK(0, true, ABI_STACK_RUNTIME, LEAF, ONE);
                cr_assert_eq(beam.end, BEAM_END_CUT);
        }
}

Test(beam_walk, code_that_traces_is_no_function) {
        PUT(ONE, FRAGMENT + 0x100, TWO);
        cr_assert(walk(0, LEAF, STACK, 0));
        CHECK(0, true, ABI_STACK_COMPLETE, LEAF, ONE, TWO);
}

Test(beam_walk, a_fragment_that_runs_on_the_schedulers_stack_says_where_the_process_has_its_own) {
        PUT(LOOSE, TWO);
        put_by_rbp(FRAGMENT);
        cr_assert(walk(0, FRAGMENT, NATIVE_STACK, STACK));
        CHECK(0, true, ABI_STACK_COMPLETE, FRAGMENT, LOOSE, TWO);
        put_by_stop(FRAGMENT);
        cr_assert(walk(0, FRAGMENT, NATIVE_STACK, 0x1234));
        CHECK(0, true, ABI_STACK_COMPLETE, FRAGMENT, LOOSE, TWO);
        /* neither: no guess */
        put_way(FRAGMENT, "\x90", 1);
        cr_assert(walk(0, FRAGMENT, NATIVE_STACK, STACK));
        CHECK(0, true, ABI_STACK_RUNTIME, FRAGMENT);
        cr_assert_eq(beam.end, BEAM_END_LOST);
}

Test(beam_walk, a_scheduler_that_collects_for_a_process_has_its_stack_from_it) {
        PUT(ONE, TWO);
        put_way(LEAF + 1, "\x90", 1);
        cr_assert(walk(2, LEAF + 1, NATIVE_STACK, 0x1234));
        CHECK(2, false, ABI_STACK_COMPLETE, LEAF + 1, ONE, TWO);
}

Test(beam_walk, code_that_cannot_be_read_says_nothing_of_the_stack) {
        PUT(MODULES + 0x40, MODULES + 0x80);
        shim_areas[2].size = LEAF + 1 - CODE + BEAM_CODE;
        put_way(LEAF + 1, "\x90", 1);
        cr_assert(walk(2, LEAF + 1, NATIVE_STACK, STACK));
        CHECK(2, false, ABI_STACK_COMPLETE, LEAF + 1, MODULES + 0x40, MODULES + 0x80);
        shim_areas[2].size--;
        cr_assert(walk(2, LEAF + 1, NATIVE_STACK, STACK));
        CHECK(2, false, ABI_STACK_RUNTIME, LEAF + 1);
        cr_assert_eq(beam.end, BEAM_END_LOST);
}

Test(beam_walk, a_scheduler_without_a_process_is_called_so) {
        *at(SCHEDULERS + SCHEDULER_SIZE + CURRENT) = 0;
        put_by_stop(FRAGMENT);
        cr_assert(walk(2, FRAGMENT, NATIVE_STACK, STACK));
        CHECK(2, false, ABI_STACK_COMPLETE, 0);
}

Test(beam_walk, c_code_of_no_scheduler_shows_its_caller_alone) {
        PUT(ONE, TWO);
        put_by_rbp(LEAF + 1);
        cr_assert(walk(2, LEAF + 1, NATIVE_STACK + 8, STACK));
        CHECK(2, false, ABI_STACK_RUNTIME, LEAF + 1);
        cr_assert_eq(beam.end, BEAM_END_LOST);
}

Test(beam_walk, a_stack_that_ends_without_the_bottom_is_said_to_be_cut) {
        PUT(ONE, TWO);
        heap[(STACK - HEAP) / 8 + 2] = SMALL;
        cr_assert(walk(0, LEAF, STACK, 0));
        cr_assert_eq(unwind.end, ABI_STACK_RUNTIME);
        cr_assert_eq(beam.end, BEAM_END_CUT);
        /* no code, so no caller */
        heap[(STACK - HEAP) / 8 + 1] = 0x900000;
        cr_assert(walk(0, LEAF, STACK, 0));
        CHECK(0, true, ABI_STACK_RUNTIME, LEAF, ONE);
}

Test(beam_walk, a_deep_stack_is_cut_at_the_depth) {
        for (size_t i = 0; i < 200; i++)
                heap[(STACK - HEAP) / 8 + i] = ONE;
        heap[(STACK - HEAP) / 8 + 200] = BOTTOM;
        cr_assert(walk(0, LEAF, STACK, 0));
        cr_assert_eq(unwind.end, ABI_STACK_DEPTH);
        cr_assert_eq(unwind.n_frames, 2 * DEPTH);
        cr_assert_eq(beam.end, BEAM_END_CUT);
}

Test(beam_walk, other_ends_and_other_code_are_left_alone) {
        cr_assert_not(walk(2, 0x55001234, NATIVE_STACK, STACK));
        cr_assert_eq(unwind.n_frames, 3);
        cr_assert_eq(frames[2], 0x55001234);
        cr_assert_not(walk(2, END, NATIVE_STACK, STACK));
        cr_assert(walk(2, END - 1, NATIVE_STACK, STACK));
        cr_assert(walk(2, END - 1, NATIVE_STACK, 0));
}

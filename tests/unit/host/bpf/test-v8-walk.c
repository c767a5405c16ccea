/* SPDX-License-Identifier: Apache-2.0 */

/*
 * The lines of bpf/runtimes/v8.bpf.h themselves, on stacks, functions and code made by hand.
 *
 *     BUILTINS    a file's code without rows: the interpreter's entry, handlers, builtins
 *     MADE        code of no file: it begins at MADE + 64 and at MADE + 256
 *     ROOT        its row says that it is the outermost frame
 */

#include <criterion/criterion.h>
#include <string.h>

#include "shim/bpf-shim.h"
#include "shim/rows-shim.h"

#include "core/base/util/macro.h"
#include "host/sampling/unwind/tables/rows.h"

enum {
        STACK = 0x7ffe0000,
        N_WORDS = 512,                  /* a page: copies end with it */
        TEXT = 0x55000000,
        BUILTINS = TEXT,
        ROOT = TEXT + 0x1000,
        MADE = 0x77000000,
        OTHER = 0x78000000,             /* a file of others, without a row there */
        HEAP = 0x66000000,
        MAPS = HEAP,                    /* 64 bytes each: info, bytecode, function, code, stream */
        FUNCTIONS = HEAP + 0x1000,      /* 64 bytes each */
        INFOS = HEAP + 0x2000,          /* 128 bytes each */
        BYTECODE = HEAP + 0x4000,
        CODES = HEAP + 0x5000,          /* 64 bytes each */
        GENERATION = 7,
        INFO = 274, BYTES = 205, FUNCTION = 2066, CODE = 206, STREAM = 210,
        MARK_STUB = 17 << 1, MARK_WASM = 4 << 1,
};

static uint64_t words[N_WORDS], heap[0x8000 / 8], frames[UNWIND_MAX_FRAMES];
static uint8_t made[0x1000], text[0x1000];
static struct unwind unwind;
static struct rules rules;
static struct rows_cache cache;
static struct v8_process process;
static Rows rows;

static uint64_t *at(uint64_t address) {
        return address >= STACK ? &words[(address - STACK) / 8] : &heap[(address - HEAP) / 8];
}

static uint64_t put_map(unsigned i, uint16_t type) {
        uint64_t address = MAPS + 64 * (uint64_t)i;

        memcpy((char *)at(address) + 12, &type, sizeof(type));
        return address | 1;
}

static uint64_t function(unsigned i) {
        return (FUNCTIONS + 64 * (uint64_t)i) | 1;
}

static uint64_t info(unsigned i) {
        return INFOS + 128 * (uint64_t)i;
}

static void put_function(unsigned i) {
        uint64_t to = function(i) & ~1ull;

        at(to)[0] = put_map(2, FUNCTION);
        at(to)[4] = info(i) | 1;
        at(info(i))[0] = put_map(0, INFO);
        at(info(i))[5] = i;
        at(info(i))[7] = 1000 + i;
}

static uint64_t cookie(unsigned i) {
        return v8_cookie(at(info(i)) + 5, 1);
}

/* A frame at word @i, whose caller's is at word @next and goes on at @pc. */
static uint64_t put_frame(unsigned i, unsigned next, uint64_t pc, uint64_t context, uint64_t callee) {
        words[i] = STACK + 8 * (uint64_t)next;
        words[i + 1] = pc;
        words[i - 1] = context;
        words[i - 2] = callee;
        return STACK + 8 * (uint64_t)i;
}

static void put_bytecode(unsigned i, uint32_t offset) {
        words[i - 4] = BYTECODE | 1;
        words[i - 5] = (uint64_t)offset << 32;
}

/* Code that begins at @begin. */
static void put_code(unsigned i, uint64_t begin) {
        uint64_t code = CODES + 64 * (uint64_t)i;
        const uint64_t header[] = { put_map(4, STREAM), code | 1 };

        at(code)[0] = put_map(3, CODE);
        at(code)[5] = begin;
        memcpy(made + (begin - 32 - MADE), header, sizeof(header));
}

static void setup(void) {
        static struct unwind_mapping mappings[] = { { .start = TEXT, .n_pages = 2, .table = 3 },
                                                    { .start = MADE, .n_pages = 1, .table = UNWIND_NO_TABLE },
                                                    { .start = OTHER, .n_pages = 1, .table = 3 } };

        memset(heap, 0, sizeof(heap));
        memset(words, 0, sizeof(words));
        memset(made, 0x90, sizeof(made));
        memset(text, 0x90, sizeof(text));
        cr_assert_eq(rows_init(&rows, 0x1000, 0x3000, 1 << 20), 0);
        cr_assert_eq(rows_add(&rows, 0x1000, 0), 0);
        cr_assert_eq(rows_add(&rows, 0x1800, unwind_rule(UNWIND_CFA_RSP, 64, 0, 0, 0)), 0);
        cr_assert_eq(rows_add(&rows, 0x2000, unwind_rule(UNWIND_CFA_END, 0, 0, 0, 0)), 0);
        cr_assert_eq(rows_finish(&rows, 0x3000), 0);
        shim_tables[3] = (ShimTable){ .data = rows.data, .size = (size_t)rows.n_blocks * UNWIND_BLOCK_SIZE };
        nodes_build(&shim_nodes, mappings, ARRAY_SIZE(mappings), GENERATION);
        shim_areas[0] = (ShimArea){ STACK, sizeof(words), words };
        shim_areas[1] = (ShimArea){ HEAP, sizeof(heap), heap };
        shim_areas[2] = (ShimArea){ MADE, sizeof(made), made };
        shim_areas[3] = (ShimArea){ BUILTINS, sizeof(text), text };
        process = (struct v8_process){
                .generation = GENERATION,
                .text = TEXT,
                .text_size = 0x2000,
                .marks = 1 << 4,
                .instance_type = 12,
                .shared = 32,
                .cookie = 40,
                .has_unique_id = 1,
                .info_type = INFO,
                .bytecode_type = BYTES,
                .code_type = CODE,
                .code_header = 32,
                .code_start = 40,
        };
        at(BYTECODE)[0] = put_map(1, BYTES);
        for (unsigned i = 0; i < 8; i++)
                put_function(i);
        put_code(0, MADE + 64);
        put_code(1, MADE + 256);
        shim_v8 = &process;
        memset(&rules, 0, sizeof(rules));
}

static void teardown(void) {
        rows_deinit(&rows);
        shim_v8 = NULL;
}

TestSuite(v8_walk, .init = setup, .fini = teardown);

static void walk(uint64_t pc, uint64_t sp, uint64_t bp) {
        memset(frames, 0xee, sizeof(frames));
        memset(&cache, 0, sizeof(cache));
        shim_begin(&unwind, &rules, 64);
        unwind.pc = pc;
        unwind.sp = sp;
        unwind.bp = bp;
        shim_walk(&unwind, &rules, frames, &cache);
}

/* Frame at word @at is of function @i. Return: the next frame's word. */
static uint32_t check(uint32_t place, enum runtime_kind kind, uint64_t pc, unsigned i, uint32_t rest) {
        cr_assert_eq(frames[place], (uint64_t)kind << RUNTIME_KIND_SHIFT | pc, "%llx",
                     (unsigned long long)frames[place]);
        cr_assert_eq(frames[place + 1], info(i) | cookie(i) << V8_COOKIE_SHIFT, "%llx",
                     (unsigned long long)frames[place + 1]);
        cr_assert_eq(frames[place + 2], (cookie(i) >> 16) << 32 | rest, "%llx",
                     (unsigned long long)frames[place + 2]);
        return place + RUNTIME_V8_WORDS;
}

/* The outermost frames: @word has a stub's frame, which the root has called. */
static void put_root(unsigned word) {
        put_frame(word, 0, ROOT + 4, MARK_STUB, 0);
}

static uint32_t check_root(uint32_t place, uint64_t pc) {
        cr_assert_eq(frames[place], pc, "%llx", (unsigned long long)frames[place]);
        cr_assert_eq(frames[place + 1], ROOT + 4);
        cr_assert_eq(unwind.n_frames, place + 2);
        cr_assert_eq(unwind.end, ABI_STACK_COMPLETE);
        return place + 2;
}

Test(v8_walk, functions_stand_where_their_frames_are) {
        uint64_t bp = put_frame(20, 40, BUILTINS + 5, HEAP | 1, function(1));

        put_bytecode(20, 63 + 9);
        put_frame(40, 60, MADE + 300, HEAP | 1, function(2));
        put_bytecode(40, 63 + 12);
        put_frame(60, 80, BUILTINS + 7, HEAP | 1, function(3));
        put_root(80);
        /* the second frame's code is in a file; the third frame's, which the first word names, is in none */
        walk(MADE + 200, STACK + 80, bp);
        uint32_t n = check(0, RUNTIME_V8_COMPILED, MADE + 200, 1, (63 + 9) | V8_PC_EXACT);
        n = check(n, RUNTIME_V8_INTERPRETED, BUILTINS + 5, 2, 63 + 12);
        n = check(n, RUNTIME_V8_COMPILED, MADE + 300, 3, V8_NO_OFFSET);
        check_root(n, BUILTINS + 7);
}

Test(v8_walk, a_handler_leaves_the_interpreted_function_below_it) {
        uint64_t bp = put_frame(20, 40, BUILTINS + 5, HEAP | 1, function(1));

        put_bytecode(20, 63 + 9);
        put_root(40);
        walk(BUILTINS + 100, STACK + 64, bp);
        cr_assert_eq(frames[0], BUILTINS + 100);
        check_root(check(1, RUNTIME_V8_INTERPRETED, BUILTINS + 100, 1, 63 + 9), BUILTINS + 5);
}

Test(v8_walk, a_handlers_register_is_newer_than_the_slot) {
        uint64_t bp = put_frame(20, 40, BUILTINS + 5, HEAP | 1, function(1));

        put_bytecode(20, 63 + 9);
        put_root(40);
        rules.registers[12] = BYTECODE | 1;
        rules.registers[9] = 63 + 30;
        walk(BUILTINS + 100, STACK + 64, bp);
        check(1, RUNTIME_V8_INTERPRETED, BUILTINS + 100, 1, 63 + 30);
}

Test(v8_walk, a_stub_without_a_frame_leaves_the_code_that_has_called_it) {
        uint64_t bp = put_frame(20, 40, BUILTINS + 5, HEAP | 1, function(1));

        put_root(40);
        made[300 - 5] = 0xe8;
        words[12] = MADE + 300;
        walk(BUILTINS + 100, STACK + 80, bp);
        cr_assert_eq(frames[0], BUILTINS + 100);
        check_root(check(1, RUNTIME_V8_COMPILED, MADE + 300, 1, V8_NO_OFFSET), BUILTINS + 5);
}

Test(v8_walk, a_builtin_with_a_functions_frame_is_native) {
        uint64_t bp = put_frame(20, 40, MADE + 300, HEAP | 1, function(1));

        put_frame(40, 60, BUILTINS + 5, HEAP | 1, function(2));
        put_root(60);
        words[12] = MADE + 301;         /* no call is in front of it */
        walk(BUILTINS + 100, STACK + 80, bp);
        cr_assert_eq(frames[0], BUILTINS + 100);
        check_root(check(1, RUNTIME_V8_COMPILED, MADE + 300, 2, V8_NO_OFFSET), BUILTINS + 5);
}

/* A leaf whose frame is not there yet: its caller's is at rbp. */
static uint64_t put_caller(void) {
        uint64_t bp = put_frame(20, 40, BUILTINS + 5, HEAP | 1, function(2));

        put_root(40);
        made[300 - 5] = 0xe8;
        rules.registers[5] = function(1);
        return bp;
}

static void check_caller(uint32_t place) {
        check_root(check(place, RUNTIME_V8_COMPILED, MADE + 300, 2, V8_NO_OFFSET), BUILTINS + 5);
}

Test(v8_walk, before_its_prologue_a_function_is_in_rdi) {
        uint64_t bp = put_caller();

        memcpy(made + 64 + 10, "\x55\x48\x89\xe5", 4);
        words[10] = MADE + 300;
        walk(MADE + 64 + 10, STACK + 80, bp);
        check_caller(check(0, RUNTIME_V8_COMPILED, MADE + 64 + 10, 1, V8_NO_OFFSET | V8_PC_EXACT));
        words[11] = MADE + 300;
        words[10] = bp;
        walk(MADE + 64 + 11, STACK + 80, bp);
        check_caller(check(0, RUNTIME_V8_COMPILED, MADE + 64 + 11, 1, V8_NO_OFFSET | V8_PC_EXACT));
}

Test(v8_walk, baseline_code_has_no_frame_before_its_first_call) {
        uint64_t bp = put_caller();

        made[256 + 20] = 0xe8;
        words[10] = MADE + 300;
        walk(MADE + 256 + 10, STACK + 80, bp);
        check_caller(check(0, RUNTIME_V8_COMPILED, MADE + 256 + 10, 1, V8_NO_OFFSET | V8_PC_EXACT));
}

/* The rule as it is told, a branch for each byte: what the numbers of v8_prologue() must amount to. */
static int stage_by_bytes(const uint8_t *bytes, uint32_t offset) {
        bool has_called = false;

        for (uint32_t i = 0; i < V8_CODE_LINE - 4; i++) {
                if (!memcmp(bytes + i, "\x55\x48\x89\xe5", 4) || !memcmp(bytes + i, "\x55\x48\x8b\xec", 4))
                        return offset <= i        ? V8_STAGE_NONE
                                : offset == i + 1 ? V8_STAGE_PUSHED
                                                  : V8_STAGE_WHOLE;
                has_called |= i < offset && bytes[i] == 0xe8;
        }
        return has_called ? V8_STAGE_WHOLE : V8_STAGE_NONE;
}

Test(v8_walk, each_place_of_a_prologue_and_a_call_has_its_stage) {
        static const char *const forms[] = { "\x55\x48\x89\xe5", "\x55\x48\x8b\xec", "\x55\x48\x89\xe4" };
        uint32_t n_stages[V8_STAGE_R10 + 1] = { 0 };

        for (uint32_t form = 0; form < ARRAY_SIZE(forms); form++)
                for (uint32_t frame = 0; frame <= V8_CODE_LINE - 4; frame++)
                        for (uint32_t call = 0; call < V8_CODE_LINE; call++) {
                                struct v8_code code = { 0 };

                                code.bytes[call] = 0xe8;
                                memcpy(code.bytes + frame, forms[form], 4);
                                for (uint32_t offset = 0; offset < V8_CODE_LINE; offset++) {
                                        int stage = v8_prologue(&code, offset);

                                        cr_assert_eq(stage, stage_by_bytes(code.bytes, offset));
                                        n_stages[stage]++;
                                }
                        }
        cr_assert_gt(n_stages[V8_STAGE_WHOLE], 100000);
        cr_assert_gt(n_stages[V8_STAGE_NONE], 100000);
        cr_assert_gt(n_stages[V8_STAGE_PUSHED], 1000);
}

Test(v8_walk, behind_its_epilogue_a_function_is_known_by_its_code_alone) {
        uint64_t bp = put_caller(), words_of_none[] = { 0, (uint64_t)V8_NO_OFFSET | V8_PC_EXACT };

        memcpy(made + 512, "\x48\x8b\xe5\x5d\x90", 5);
        words[10] = MADE + 300;
        walk(MADE + 512 + 4, STACK + 80, bp);
        cr_assert_eq(frames[0], (uint64_t)RUNTIME_V8_COMPILED << RUNTIME_KIND_SHIFT | (MADE + 516));
        cr_assert_arr_eq(frames + 1, words_of_none, sizeof(words_of_none));
        check_caller(3);
        memcpy(made + 512, "\x48\x8b\xe5\x5d\x59\x90", 6);      /* pop %rcx */
        words[10] = 0;
        rules.registers[2] = MADE + 300;
        walk(MADE + 512 + 5, STACK + 80, bp);
        check_caller(3);
        memcpy(made + 512, "\x48\x8b\xe5\x5d\xc3\x90", 6);      /* what follows a ret has a frame */
        walk(MADE + 512 + 5, STACK + 80, bp);
        check_root(check(0, RUNTIME_V8_COMPILED, MADE + 517, 2, V8_NO_OFFSET | V8_PC_EXACT), BUILTINS + 5);
}

Test(v8_walk, objects_that_were_moved_are_followed) {
        uint64_t bp = put_frame(20, 40, BUILTINS + 5, HEAP | 1, function(1));

        put_root(40);
        at(function(1) & ~1ull)[0] = function(6) & ~1ull;
        at(info(6))[0] = info(7);
        walk(MADE + 200, STACK + 80, bp);
        check_root(check(0, RUNTIME_V8_COMPILED, MADE + 200, 7, V8_NO_OFFSET | V8_PC_EXACT), BUILTINS + 5);
}

/* A method has seven words, one less than a function that may be called by `new`. */
Test(v8_walk, a_function_may_be_the_last_object_of_memory_that_is_there) {
        uint64_t bp = put_frame(20, 40, BUILTINS + 5, HEAP | 1, function(1));

        put_root(40);
        at(info(1))[0] = info(7);
        /* maps and functions; infos, up to the word behind the last number */
        shim_areas[1].size = FUNCTIONS + 64 + 56 - HEAP;
        shim_areas[4] = (ShimArea){ INFOS, info(7) + 64 - INFOS, at(INFOS) };
        walk(MADE + 200, STACK + 80, bp);
        check_root(check(0, RUNTIME_V8_COMPILED, MADE + 200, 7, V8_NO_OFFSET | V8_PC_EXACT), BUILTINS + 5);
        shim_areas[4] = (ShimArea){ 0 };
}

Test(v8_walk, what_is_no_function_is_native) {
        uint64_t bp = put_frame(20, 40, BUILTINS + 5, HEAP | 1, function(1));

        put_root(40);
        at(info(1))[0] = put_map(1, BYTES);
        walk(MADE + 200, STACK + 80, bp);
        cr_assert_eq(frames[0], MADE + 200);
        check_root(1, BUILTINS + 5);
        words[18] = 0;
        walk(MADE + 200, STACK + 80, bp);
        check_root(1, BUILTINS + 5);
}

/* Frame at word @place, of code that is no function's. Return: the next frame's word. */
static uint32_t check_marked(uint32_t place, uint64_t pc, uint64_t mark, uint32_t rest) {
        cr_assert_eq(frames[place], (uint64_t)RUNTIME_V8_COMPILED << RUNTIME_KIND_SHIFT | pc);
        cr_assert_eq(frames[place + 1], mark << V8_COOKIE_SHIFT, "%llx",
                     (unsigned long long)frames[place + 1]);
        cr_assert_eq(frames[place + 2], rest);
        return place + RUNTIME_V8_WORDS;
}

Test(v8_walk, code_of_a_kind_that_has_a_name_keeps_its_mark) {
        uint64_t bp = put_frame(20, 40, MADE + 300, MARK_WASM, 0);

        put_frame(40, 60, BUILTINS + 5, MARK_WASM, 0);
        put_root(60);
        walk(MADE + 200, STACK + 80, bp);
        uint32_t n = check_marked(0, MADE + 200, MARK_WASM, V8_NO_OFFSET | V8_PC_EXACT);
        check_root(check_marked(n, MADE + 300, MARK_WASM, V8_NO_OFFSET), BUILTINS + 5);
}

Test(v8_walk, a_mark_means_nothing_for_code_of_a_file_and_for_kinds_without_a_name) {
        uint64_t bp = put_frame(20, 40, BUILTINS + 9, MARK_STUB, 0);

        put_frame(40, 60, BUILTINS + 5, MARK_WASM, 0);
        put_root(60);
        walk(MADE + 200, STACK + 80, bp);
        cr_assert_eq(frames[0], MADE + 200);
        cr_assert_eq(frames[1], BUILTINS + 9);
        check_root(2, BUILTINS + 5);
}

Test(v8_walk, frames_of_functions_count_where_no_code_is_known) {
        uint64_t bp = put_frame(20, 40, MADE + 0x5000, HEAP | 1, function(1));

        put_frame(40, 60, BUILTINS + 5, HEAP | 1, function(2));
        put_root(60);
        walk(MADE + 200, STACK + 80, bp);
        check_root(check(RUNTIME_V8_WORDS, RUNTIME_V8_COMPILED, MADE + 0x5000, 2, V8_NO_OFFSET),
                   BUILTINS + 5);
        words[39] = MARK_STUB;
        walk(MADE + 200, STACK + 80, bp);
        cr_assert_eq(unwind.n_frames, RUNTIME_V8_WORDS, "it was no return address");
        cr_assert_eq(unwind.end, ABI_STACK_NO_MAPPING);
}

Test(v8_walk, code_without_a_row_in_another_file_ends_the_stack) {
        uint64_t bp = put_frame(20, 40, OTHER + 0x20, HEAP | 1, function(1));

        put_root(40);
        walk(MADE + 200, STACK + 80, bp);
        cr_assert_eq(unwind.n_frames, RUNTIME_V8_WORDS + 1);
        cr_assert_eq(unwind.end, ABI_STACK_NO_ROWS);
}

Test(v8_walk, depth_counts_frames_not_words) {
        for (unsigned i = 0; i < 12; i++)
                put_frame(20 + 10 * i, 30 + 10 * i, MADE + 300, HEAP | 1, function(1));
        shim_begin(&unwind, &rules, 5);
        unwind.pc = MADE + 200;
        unwind.sp = STACK + 80;
        unwind.bp = STACK + 160;
        memset(&cache, 0, sizeof(cache));
        shim_walk(&unwind, &rules, frames, &cache);
        cr_assert_eq(unwind.n_frames, 5 * RUNTIME_V8_WORDS);
        cr_assert_eq(unwind.end, ABI_STACK_DEPTH);
}

/* SPDX-License-Identifier: Apache-2.0 */

/*
 * The lines of bpf/runtimes/hotspot.bpf.h themselves, on a code cache, stacks and methods made by hand.
 */

#include "hotspot-cache.h"

TestSuite(hotspot, .init = setup, .fini = teardown);

Test(hotspot, compiled_frames_lead_to_the_root) {
        put_callers(4, true);
        walk_from(code(CALLEE, 100), at(0), 1234, 0, 512);
        check_whole(code(CALLEE, 100));
}

Test(hotspot, a_prologue_is_known_by_its_bytes) {
        static const struct {
                char code[16];
                unsigned pc, cfa;       /* cfa: words above rsp */
                bool is_saved;
        } cases[] = {
                { "\x89\x84\x24\0\xc0\xfe\xff\x55\x48\x83\xec\x10", 0, 1, false },
                { "\x89\x84\x24\0\xc0\xfe\xff\x55\x48\x83\xec\x10", 7, 1, false },
                { "\x89\x84\x24\0\xc0\xfe\xff\x55\x48\x83\xec\x10", 8, 2, true },
                { "\x89\x84\x24\0\xc0\xfe\xff\x55\x48\x83\xec\x10\x90", 12, 4, true },
                { "\x89\x84\x24\0\xc0\xfe\xff\x55\x48\x8b\xec\x48\x83\xec\x10", 11, 2, true },
                { "\x55\x48\x81\xec\x10\0\0\0", 1, 2, true },
                { "\x48\x81\xec\x18\0\0\0\x48\x89\x6c\x24\x10", 0, 1, false },
                { "\x48\x81\xec\x18\0\0\0\x48\x89\x6c\x24\x10", 7, 4, false },
                { "\x48\x83\xec\x18\x48\x89\x6c\x24\x10\x90", 9, 4, true },
        };

        if (UNWIND_ARM64)
                cr_skip_test("machine: it is about x86-64");
        for (unsigned i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
                memset(words, 0, sizeof(words));
                memcpy(blob(CALLEE)->code, cases[i].code, sizeof(cases[i].code));
                blob(CALLEE)->frame_complete = 16;
                put_callers(cases[i].cfa, cases[i].is_saved);
                walk_from(code(CALLEE, cases[i].pc), at(0), 1234, 0, 512);
                cr_assert_eq(unwind.end, ABI_STACK_COMPLETE, "case %u: end %u", i, unwind.end);
                is_compiled(3, CALLER, code(CALLER, 40), 500);
        }
        memcpy(blob(CALLEE)->code, "\xcc\xcc\xcc\xcc", 4);
        walk_from(code(CALLEE, 2), at(0), 1234, 0, 512);
        cr_assert_eq(unwind.end, ABI_STACK_RUNTIME, "what is not known is not guessed");
        cr_assert_eq(unwind.n_frames, 3);
}

Test(hotspot, an_epilogue_is_known_by_its_bytes) {
        static const struct {
                const char *code;
                unsigned size, pc, cfa;
                bool is_saved;
        } cases[] = {
                { "\x48\x83\xc4\x10\x5d\xc3", 6, 0, 4, true },
                { "\x48\x83\xc4\x10\x5d\xc3", 6, 4, 2, true },
                { "\x48\x83\xc4\x10\x5d\xc3", 6, 5, 1, false },
                { "\x48\x83\xc4\x10\x5d\x49\x3b\xa7\x38\x03\0\0\x0f\x87\1\0\0\0\xc3", 19, 5, 1, false },
                { "\x48\x83\xc4\x10\x5d\x49\x3b\xa7\x38\x03\0\0\x0f\x87\1\0\0\0\xc3", 19, 12, 1, false },
                { "\x48\x81\xc4\x10\0\0\0\x5d\x4d\x8b\x97\x38\x03\0\0\x41\x85\x02\xc3", 19, 15, 1, false },
                { "\x48\x83\xc4\x10\x5d\x85\x05\1\0\0\0\xc3", 12, 5, 1, false },
                { "\x48\x83\xc4\x10\x5d\xe9\1\0\0\0", 10, 5, 1, false },
        };

        if (UNWIND_ARM64)
                cr_skip_test("machine: it is about x86-64");
        for (unsigned i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
                memset(words, 0, sizeof(words));
                memset(blob(CALLEE)->code + 60, 0x90, 100);
                memcpy(blob(CALLEE)->code + 80, cases[i].code, cases[i].size);
                put_callers(cases[i].cfa, cases[i].is_saved);
                walk_from(code(CALLEE, 80 + cases[i].pc), at(0), 1234, 0, 512);
                cr_assert_eq(unwind.end, ABI_STACK_COMPLETE, "case %u: end %u", i, unwind.end);
                is_compiled(3, CALLER, code(CALLER, 40), 500);
        }
}

Test(hotspot, a_return_address_that_is_behind_no_call_is_none) {
        put_callers(4, true);
        words[3] = code(CALLER, 41);
        walk_from(code(CALLEE, 100), at(0), 0, 0, 512);
        cr_assert_eq(unwind.end, ABI_STACK_RUNTIME);
        cr_assert_eq(unwind.n_frames, 3);
        words[3] = TEXT + 0x20;         /* native code does not call compiled code */
        walk_from(code(CALLEE, 100), at(0), 0, 0, 512);
        cr_assert_eq(unwind.end, ABI_STACK_RUNTIME);
}

Test(hotspot, a_leaf_may_have_pushed_one_word) {
        if (UNWIND_ARM64)
                cr_skip_test("machine: it is about x86-64");
        put_callers(5, true);
        walk_from(code(CALLEE, 100), at(0), 0, 0, 512);
        check_whole(code(CALLEE, 100));
        put_callers(6, true);
        walk_from(code(CALLEE, 100), at(0), 0, 0, 512);
        cr_assert_eq(unwind.end, ABI_STACK_RUNTIME, "two are not known");
}

Test(hotspot, a_frame_that_is_to_be_deoptimised_keeps_its_true_pc) {
        put_code(CALLER, 200, deopt_handler, sizeof(deopt_handler));
        put_callers(4, true);
        words[3] = code(CALLER, 200);
        words[5] = code(CALLER, 40);    /* orig_pc: rsp + 8 */
        walk_from(code(CALLEE, 100), at(0), 0, 0, 512);
        check_whole(code(CALLEE, 100));
}

Test(hotspot, memory_that_holds_no_code_ends_the_stack) {
        map[FREED] = HOTSPOT_SEGMENT_FREE;
        walk_from(HEAP + FREED * SEGMENT + 64, at(0), 0, 0, 512);
        cr_assert_eq(unwind.end, ABI_STACK_RUNTIME);
        cr_assert_eq(unwind.n_frames, 1, "the leaf is a native frame");
        cr_assert_eq(frames[0], HEAP + FREED * SEGMENT + 64);
        map[FREED] = 1;                 /* one hop each: longer than any block */
        memset(map + 1, 1, N_SEGMENTS - 1);
        walk_from(HEAP + FREED * SEGMENT + 64, at(0), 0, 0, 512);
        cr_assert_eq(unwind.end, ABI_STACK_RUNTIME);
        process.heaps[0].segment_map = 8;
        walk_from(code(CALLEE, 100), at(0), 0, 0, 512);
        cr_assert_eq(unwind.end, ABI_STACK_RUNTIME);
}

Test(hotspot, a_block_that_was_freed_or_is_another_now_is_not_taken_from_the_cache) {
        put_callers(4, true);
        walk_from(code(CALLEE, 100), at(0), 0, 0, 512);
        blob(CALLEE)->used = 0;
        unwind_begin(&unwind, 0, 512);
        rules_begin(&rules, SHIM_SPACE, GENERATION, 0);
        unwind.pc = code(CALLEE, 100);
        unwind.sp = at(0);
        shim_walk(&unwind, &rules, frames, &cache);
        cr_assert_eq(unwind.end, ABI_STACK_RUNTIME);
        blob(CALLEE)->used = 1;
        blob(CALLEE)->compile_id = 413;
        unwind_begin(&unwind, 0, 512);
        rules_begin(&rules, SHIM_SPACE, GENERATION, 0);
        unwind.pc = code(CALLEE, 100);
        unwind.sp = at(0);
        shim_walk(&unwind, &rules, frames, &cache);
        is_compiled(0, CALLEE, code(CALLEE, 100), 413);
}

Test(hotspot, interpreted_frames_have_their_bcp_in_a_register_and_then_in_a_slot) {
        const uint64_t base = DATA + CONST_METHOD + 48;

        put_interpreted(20, base + 5, 25, 40, code(INTERPRETER, 300));
        put_interpreted(40, base + 7, 45, 100, code(STUBS, 40));
        put_entry(100);
        walk_from(code(INTERPRETER, 100), at(4), at(20), base + 9, 512);
        cr_assert_eq(unwind.end, ABI_STACK_COMPLETE, "end %u", unwind.end);
        cr_assert_eq(unwind.n_frames, 10);
        cr_assert_eq(frames[0], INTERPRETED | (base + 9));
        cr_assert_eq(frames[1], DATA + CONST_METHOD);
        cr_assert_eq(frames[2], DATA + METHOD);
        cr_assert_eq(frames[3], INTERPRETED | (base + 7));
        words[20 - 1] = at(21);         /* called through a method handle */
        walk_from(code(INTERPRETER, 100), at(4), at(20), base + 9, 512);
        cr_assert_eq(unwind.end, ABI_STACK_COMPLETE, "end %u", unwind.end);
        walk_from(code(INTERPRETER, 100), at(4), at(20), 3, 512);
        cr_assert_eq(frames[0], INTERPRETED | (base + 5), "r13 is something else in a call");
        words[40 - 8] = base + CODE_SIZE;
        walk_from(code(INTERPRETER, 100), at(4), at(20), base, 512);
        cr_assert_eq(unwind.end, ABI_STACK_RUNTIME, "no bytecode is there");
        cr_assert_eq(unwind.n_frames, 6);
}

/* 74,000 classes were unloaded: a frame says so in two parts. */
Test(hotspot, interpreted_frames_have_a_stamp) {
        const uint64_t base = DATA + CONST_METHOD + 48;

        process.unloads = DATA + COUNT;
        *(uint64_t *)(void *)(data + COUNT) = 74000;
        put_interpreted(20, base + 5, 25, 100, code(STUBS, 40));
        put_entry(100);
        walk_from(code(INTERPRETER, 100), at(4), at(20), base + 9, 512);
        cr_assert_eq(frames[0], INTERPRETED | (base + 9));
        cr_assert_eq(frames[1], (DATA + CONST_METHOD) | (UINT64_C(74001) & 0xffff) << 48, "%lx", frames[1]);
        cr_assert_eq(frames[2], (DATA + METHOD) | UINT64_C(1) << 48, "%lx", frames[2]);
        process.unloads = DATA + sizeof(data) + 64;
        walk_from(code(INTERPRETER, 100), at(4), at(20), base + 9, 512);
        cr_assert_eq(frames[2], DATA + METHOD, "the count cannot be read");
}

Test(hotspot, an_entry_of_the_interpreter_has_no_frame_yet) {
        if (UNWIND_ARM64)
                cr_skip_test("machine: it is about x86-64");
        put_callers(4, true);
        words[0] = code(CALLER, 40);    /* as compiled code has called it; the adapter has kept rsp in r13 */
        memset(words + 1, 0, 24);
        words[4 + 4] = at(100);
        walk_from(code(INTERPRETER, 10), at(0), 1234, at(4), 512);
        cr_assert_eq(unwind.end, ABI_STACK_COMPLETE, "end %u", unwind.end);
        cr_assert_eq(frames[0], BLOB | code(INTERPRETER, 10));
        is_compiled(3, CALLER, code(CALLER, 40), 500);
}

Test(hotspot, a_frame_of_the_interpreter_may_be_half_made) {
        if (UNWIND_ARM64)
                cr_skip_test("machine: it is about x86-64");
        put_callers(10, true);          /* their rsp is word 10, as r13 says; the frame's rbp is word 4 */
        memset(words, 0, 80);
        words[4] = 1234;
        words[5] = code(CALLER, 40);
        for (unsigned sp = 2; sp <= 4; sp += 2) {
                walk_from(code(INTERPRETER, 20), at(sp), at(4), at(10), 512);
                cr_assert_eq(unwind.end, ABI_STACK_COMPLETE, "end %u", unwind.end);
                is_compiled(3, CALLER, code(CALLER, 40), 500);
        }
        words[3] = at(10);              /* now r13 is a bcp, and the frame has the caller's rsp */
        walk_from(code(INTERPRETER, 20), at(1), at(4), DATA, 512);
        cr_assert_eq(unwind.end, ABI_STACK_COMPLETE, "end %u", unwind.end);
        words[5] = 0;
        walk_from(code(INTERPRETER, 20), at(1), at(4), at(10), 512);
        cr_assert_eq(unwind.end, ABI_STACK_RUNTIME);
}

Test(hotspot, the_stub_that_flushes_code_is_called_by_the_machine) {
        static uint8_t text[0x40];

        if (UNWIND_ARM64)
                cr_skip_test("machine: there is no such stub");
        memcpy(text + 0x20 - sizeof(call), call, sizeof(call));
        shim_areas[4] = (ShimArea){ TEXT, sizeof(text), text };
        memcpy(data + STUB, "flush_icache_stub", 18);
        words[0] = TEXT + 0x20;
        for (unsigned bp = 0; bp <= 8; bp += 8) {       /* rbp is the machine's, and may be anything */
                walk_from(code(STUBS, 60), at(0), at(bp), 0, 512);
                cr_assert_eq(unwind.end, ABI_STACK_COMPLETE, "end %u", unwind.end);
                cr_assert_eq(unwind.n_frames, 4);
                cr_assert_eq(frames[0], BLOB | code(STUBS, 60));
                cr_assert_eq(frames[3], TEXT + 0x20);
        }
        words[0] = TEXT + 0x30;                         /* behind no call */
        walk_from(code(STUBS, 60), at(0), at(8), 0, 512);
        cr_assert_eq(unwind.end, ABI_STACK_RUNTIME);
        words[0] = TEXT + 0x20;                         /* of other stubs the word may be an old one */
        memcpy(data + STUB, "StubRoutines (1)", 17);
        walk_from(code(STUBS, 60), at(0), at(8), 0, 512);
        cr_assert_eq(unwind.end, ABI_STACK_RUNTIME);
        cr_assert_eq(unwind.n_frames, 3);
}

Test(hotspot, the_cap_counts_frames_and_cuts_none) {
        for (unsigned i = 0; i < 100; i++) {
                words[4 * i + 2] = 1;
                words[4 * i + 3] = code(CALLEE, 40);
        }
        for (uint32_t depth = 1; depth < 20; depth++) {
                walk_from(code(CALLEE, 100), at(0), 0, 0, depth);
                cr_assert_eq(unwind.end, ABI_STACK_DEPTH);
                cr_assert_eq(unwind.n_frames, 3 * depth);
        }
}

Test(hotspot, a_stack_that_leads_down_ends) {
        put_interpreted(20, DATA + CONST_METHOD + 48, 19, 20, code(INTERPRETER, 300));
        walk_from(code(INTERPRETER, 100), at(4), at(20), 0, 512);
        cr_assert_eq(unwind.end, ABI_STACK_RUNTIME);
        put_interpreted(20, DATA + CONST_METHOD + 48, 25, 20, code(INTERPRETER, 300));
        walk_from(code(INTERPRETER, 100), at(4), at(20), 0, 512);
        cr_assert_neq(unwind.end, ABI_STACK_COMPLETE);
        cr_assert_leq(unwind.n_frames, 9);
}

/* ---- frames of virtual threads in the heap ---- */

enum {
        OBJECTS = 0x69000000,           /* where references count from */
        CONTINUATION = 0x100,           /* places there */
        CHUNK = 0x200,
        OLDER = 0x600,
        TAIL = 32,                      /* fields */
        PARENT = 40,
        CHUNK_SP = 24,
        BOTTOM = 28,
        STACK_AT = 48,
        SLOT = 20,                      /* word of the stack: return address of enterSpecial */
};

static uint8_t objects[0x1000];

static uint64_t *chunk_word(unsigned chunk, unsigned i) {
        return (uint64_t *)(void *)(objects + chunk + STACK_AT + 8 * i);
}

static void put_u32(unsigned at, uint32_t value) {
        memcpy(objects + at, &value, sizeof(value));
}

/* A chunk with words [@sp, @bottom) of frames. */
static void put_chunk(unsigned chunk, uint32_t sp, uint32_t bottom, unsigned parent) {
        put_u32(chunk, 1);
        put_u32(chunk + CHUNK_SP, sp);
        put_u32(chunk + BOTTOM, bottom);
        put_u32(chunk + PARENT, parent >> 3);
}

/*
 * A leaf in CALLEE, the barrier, and the carrier: enterSpecial's return address leads to CALLER. The chunk
 * holds a frame of CALLER and one of CALLEE.
 */
static void put_virtual(void) {
        memset(words, 0, sizeof(words));
        memset(objects, 0, sizeof(objects));
        shim_areas[4] = (ShimArea){ OBJECTS, sizeof(objects), objects };
        process.oop_base = OBJECTS;
        process.oop_shift = 3;
        process.chunk_tail = TAIL;
        process.chunk_parent = PARENT;
        process.chunk_sp = CHUNK_SP;
        process.chunk_bottom = BOTTOM;
        process.chunk_stack = STACK_AT;
        put_code(STUBS, 80, barrier, sizeof(barrier));
        words[2] = at(7);
        words[3] = code(STUBS, 80);
        words[SLOT + HOTSPOT_CONTINUATION / 8] = OBJECTS + CONTINUATION;
        words[SLOT + (HOTSPOT_CONTINUATION + HOTSPOT_ENTRY_FLAGS) / 8] = 1;
        words[SLOT - 1] = at(900);
        words[SLOT] = code(CALLER, 40);
        words[SLOT + 5] = at(100);
        words[SLOT + 6] = code(STUBS, 40);
        put_entry(100);
        put_u32(CONTINUATION + TAIL, CHUNK >> 3);
        put_chunk(CHUNK, 10, 20, 0);
        *chunk_word(CHUNK, 9) = code(CALLER, 40);
        *chunk_word(CHUNK, 15) = code(CALLEE, 40);
}

static void walk_virtual(uint32_t depth) {
        walk_from(code(CALLEE, 100), at(0), 0, 0, depth);
}

static void is_barrier(unsigned i, uint64_t what) {
        cr_assert_eq(frames[i], BLOB | code(STUBS, 80), "%lx", frames[i]);
        cr_assert_eq(frames[i + 1], what | (code(STUBS, 80) - blob_address(STUBS)));
        cr_assert_eq(frames[i + 2], blob_address(STUBS));
}

/* From the frame at word @i on: enterSpecial, its caller, entry, root. */
static void is_carrier(unsigned i) {
        cr_assert_eq(unwind.end, ABI_STACK_COMPLETE, "end %u", unwind.end);
        is_barrier(i, RUNTIME_HOTSPOT_ENTRY);
        is_compiled(i + 3, CALLER, code(CALLER, 40), 500);
        cr_assert_eq(frames[i + 6], BLOB | code(STUBS, 40));
        cr_assert_eq(frames[i + 9], TEXT + 0x20);
        cr_assert_eq(unwind.n_frames, i + 10);
}

static void is_marked(void) {
        is_compiled(0, CALLEE, code(CALLEE, 100), 412);
        is_barrier(3, 0);
        is_carrier(6);
}

Test(hotspot, frames_in_the_heap_stand_between_the_thread_and_its_carrier) {
        put_virtual();
        walk_virtual(512);
        is_compiled(0, CALLEE, code(CALLEE, 100), 412);
        is_compiled(3, CALLER, code(CALLER, 40), 500);
        is_compiled(6, CALLEE, code(CALLEE, 40), 412);
        is_carrier(9);
}

Test(hotspot, older_frames_are_in_the_next_chunk) {
        put_virtual();
        put_chunk(CHUNK, 20, 20, OLDER);        /* it is empty by now */
        put_chunk(OLDER, 4, 8, 0);
        *chunk_word(OLDER, 3) = code(CALLEE, 40);
        walk_virtual(512);
        is_compiled(3, CALLEE, code(CALLEE, 40), 412);
        is_carrier(6);
        put_chunk(CHUNK, 10, 20, OLDER);
        walk_virtual(512);
        is_compiled(3, CALLER, code(CALLER, 40), 500);
        is_compiled(6, CALLEE, code(CALLEE, 40), 412);
        is_compiled(9, CALLEE, code(CALLEE, 40), 412);
        is_carrier(12);
}

Test(hotspot, links_of_interpreted_frames_in_the_heap_count_from_their_place) {
        const uint64_t base = DATA + CONST_METHOD + 48;

        put_virtual();
        put_chunk(CHUNK, 10, 40, 0);
        *chunk_word(CHUNK, 9) = code(INTERPRETER, 300);
        *chunk_word(CHUNK, 8) = 22 - 8;         /* of the first frame */
        *chunk_word(CHUNK, 22 - 8) = base + 5;
        *chunk_word(CHUNK, 22 - 3) = DATA + METHOD;
        *chunk_word(CHUNK, 22 - 1) = 4;         /* the caller's rsp: word 26 */
        *chunk_word(CHUNK, 22) = 36 - 22;
        *chunk_word(CHUNK, 23) = code(INTERPRETER, 300);
        *chunk_word(CHUNK, 36 - 8) = base + 7;
        *chunk_word(CHUNK, 36 - 3) = DATA + METHOD;
        *chunk_word(CHUNK, 36 - 1) = 4;         /* the end: no return address */
        walk_virtual(512);
        cr_assert_eq(frames[3], INTERPRETED | (base + 5));
        cr_assert_eq(frames[6], INTERPRETED | (base + 7));
        is_carrier(9);
}

Test(hotspot, one_frame_stands_for_a_heap_that_cannot_be_read) {
        put_virtual();
        process.chunk_tail = 0;
        walk_virtual(512);
        is_marked();
        put_virtual();
        put_u32(CHUNK, 3);              /* a collector moves it */
        walk_virtual(512);
        is_marked();
        put_virtual();
        put_u32(CHUNK + BOTTOM, 1 << 30);
        walk_virtual(512);
        is_marked();
        put_virtual();
        put_chunk(CHUNK, 20, 20, CHUNK);
        walk_virtual(512);
        is_marked();
}

static void is_without_carrier(void) {
        walk_virtual(512);
        cr_assert_eq(unwind.end, ABI_STACK_RUNTIME, "end %u", unwind.end);
        is_barrier(3, 0);
        cr_assert_eq(unwind.n_frames, 6);
}

Test(hotspot, an_old_return_address_on_the_carrier_is_no_frame) {
        const unsigned entry = SLOT + HOTSPOT_CONTINUATION / 8 - 2;

        put_virtual();
        words[SLOT - 2] = code(CALLEE, 40);     /* behind the ContinuationEntry */
        walk_virtual(512);
        is_carrier(9);
        put_virtual();
        for (unsigned i = 4; i < entry; i++)    /* in front of it */
                words[i] = code(CALLEE, 40);
        walk_virtual(512);
        is_carrier(9);
}

Test(hotspot, a_carrier_counts_only_with_the_entry_of_its_thread) {
        const unsigned continuation = SLOT + HOTSPOT_CONTINUATION / 8, flags = continuation + 2;

        put_virtual();
        words[flags] = 1 | 3ull << 32;          /* words of arguments */
        walk_virtual(512);
        is_carrier(9);
        words[flags] = 2;
        is_without_carrier();
        words[flags] = 1 | 256ull << 32;
        is_without_carrier();
        words[flags] = 1;
        words[continuation] = 0;
        is_without_carrier();
}

Test(hotspot, frames_of_a_chunk_count_only_if_they_end_where_it_says) {
        put_virtual();
        put_chunk(CHUNK, 10, 19, 0);
        walk_virtual(512);
        is_marked();
        put_virtual();
        put_chunk(CHUNK, 10, 24, 0);
        walk_virtual(512);
        is_marked();
        put_virtual();
        *chunk_word(CHUNK, 15) = code(CALLEE, 60);      /* behind no call */
        walk_virtual(512);
        is_marked();
}

Test(hotspot, the_cap_holds_in_the_heap) {
        put_virtual();
        for (uint32_t depth = 1; depth < 6; depth++) {
                walk_virtual(depth);
                cr_assert_eq(unwind.end, ABI_STACK_DEPTH, "depth %u: end %u", depth, unwind.end);
                cr_assert_eq(unwind.n_frames, 3 * depth);
        }
        put_virtual();
        words[SLOT] = code(CALLER, 60);         /* behind no call */
        is_without_carrier();
}

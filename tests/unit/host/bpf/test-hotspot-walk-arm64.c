/* SPDX-License-Identifier: Apache-2.0 */

/*
 * What arm64 has of its own in walks over frames of HotSpot: return addresses in x30 and with authentication
 * codes, and the instructions of prologues and epilogues. The rest is in test-hotspot-walk.c.
 */
#include <criterion/criterion.h>

#include "border/unwind_abi.h"

#if UNWIND_ARM64

#include "hotspot-cache.h"

enum {
        MAX_INSTRUCTIONS = 8,
};

#define SIGNED(_address) ((_address) | UINT64_C(0x2a5b) << 48)

static const uint32_t sub_32 = 0xd10083ff, save_16 = 0xa9017bfd, push = 0xa9bf7bfd, sub_16 = 0xd10043ff,
                      sub_x8 = 0xcb2863ff, load_16 = 0xa9417bfd, add_32 = 0x910083ff, add_16 = 0x910043ff,
                      pop = 0xa8c17bfd, ret = 0xd65f03c0, poll = 0xf9423388, compare = 0xeb2863ff,
                      higher = 0x54000108, move_frame = 0x910003fd, bang = 0xd14053e9, store = 0xf900013f;

static void setup_link(void) {
        setup();
        link = 0;
}

TestSuite(hotspot_arm64, .init = setup_link, .fini = teardown);

typedef struct Case {
        uint32_t code[MAX_INSTRUCTIONS];
        unsigned at;                    /* the interrupted instruction */
        unsigned cfa;                   /* words above sp */
        bool is_saved;                  /* x29 and x30; else the return address is in x30 alone */
} Case;

static void check_case(const Case *c, unsigned offset, unsigned n) {
        memset(words, 0, sizeof(words));
        fill(blob(CALLEE)->code + 64, 128);
        put_code(CALLEE, offset, c->code, sizeof(c->code));
        put_callers(c->cfa, c->is_saved);
        link = 0;
        if (!c->is_saved) {
                if (c->cfa)
                        words[c->cfa - 1] = 0;
                link = code(CALLER, 40);
        }
        walk_from(code(CALLEE, offset + 4 * c->at), at(0), 1234, 0, 512);
        cr_assert_eq(unwind.end, ABI_STACK_COMPLETE, "case %u: end %u", n, unwind.end);
        is_compiled(3, CALLER, code(CALLER, 40), 500);
}

/* put_callers() writes the word below @cfa, so that a frame without words begins at word 1 here. */
static void check_at_cfa(const Case *c, unsigned offset, unsigned n) {
        memset(words, 0, sizeof(words));
        fill(blob(CALLEE)->code + 64, 128);
        put_code(CALLEE, offset, c->code, sizeof(c->code));
        put_callers(1, false);
        words[0] = 0;
        link = code(CALLER, 40);
        walk_from(code(CALLEE, offset + 4 * c->at), at(1), 1234, 0, 512);
        cr_assert_eq(unwind.end, ABI_STACK_COMPLETE, "case %u: end %u", n, unwind.end);
        is_compiled(3, CALLER, code(CALLER, 40), 500);
}

Test(hotspot_arm64, a_prologue_is_known_by_its_instructions) {
        const Case cases[] = {
                { { bang, store, sub_32, save_16 }, 0, 0, false },
                { { bang, store, sub_32, save_16 }, 2, 0, false },
                { { bang, store, sub_32, save_16 }, 3, 4, false },
                { { bang, store, sub_32, save_16 }, 4, 4, true },
                { { push, sub_16 }, 0, 0, false },
                { { push, sub_16 }, 1, 2, true },
                { { push, sub_16 }, 2, 4, true },
                { { push, bang, sub_x8 }, 2, 2, true },
                { { push, bang, sub_x8 }, 3, 4, true },
        };

        blob(CALLEE)->frame_complete = 32;
        for (unsigned i = 0; i < sizeof(cases) / sizeof(*cases); i++)
                (cases[i].cfa ? check_case : check_at_cfa)(&cases[i], 0, i);
        fill(blob(CALLEE)->code, 128);
        blob(CALLEE)->frame_complete = 80;
        walk_from(code(CALLEE, 72), at(0), 1234, 0, 512);
        cr_assert_eq(unwind.end, ABI_STACK_RUNTIME, "what is not known is not guessed");
        cr_assert_eq(unwind.n_frames, 3);
}

Test(hotspot_arm64, an_epilogue_is_known_by_its_instructions) {
        const Case cases[] = {
                { { load_16, add_32, poll, compare, higher, ret }, 0, 4, true },
                { { load_16, add_32, poll, compare, higher, ret }, 1, 4, true },
                { { load_16, add_32, poll, compare, higher, ret }, 2, 0, false },
                { { load_16, add_32, poll, compare, higher, ret }, 4, 0, false },
                { { load_16, add_32, poll, compare, higher, ret }, 5, 0, false },
                { { add_16, pop, poll, compare, higher, ret }, 0, 4, true },
                { { add_16, pop, poll, compare, higher, ret }, 1, 2, true },
                { { add_16, pop, poll, compare, higher, ret }, 3, 0, false },
                /* behind `ret`, code goes on with its frame */
                { { load_16, add_32, ret, poll, ret }, 3, 4, true },
        };

        for (unsigned i = 0; i < sizeof(cases) / sizeof(*cases); i++)
                (cases[i].cfa ? check_case : check_at_cfa)(&cases[i], 80, i);
}

Test(hotspot_arm64, signed_return_addresses_are_read_without_their_code) {
        const uint64_t base = DATA + CONST_METHOD + 48;

        put_callers(4, true);
        words[3] = SIGNED(words[3]);
        words[9] = SIGNED(words[9]);
        words[101] = SIGNED(words[101]);
        walk_from(code(CALLEE, 100), at(0), 1234, 0, 512);
        check_whole(code(CALLEE, 100));
        put_interpreted(20, base + 5, 25, 40, SIGNED(code(INTERPRETER, 300)));
        put_interpreted(40, base + 7, 45, 100, SIGNED(code(STUBS, 40)));
        walk_from(code(INTERPRETER, 100), at(4), at(20), base + 9, 512);
        cr_assert_eq(unwind.end, ABI_STACK_COMPLETE, "end %u", unwind.end);
        cr_assert_eq(frames[3], INTERPRETED | (base + 7));
}

/* It has put down a word of 0 and where it is, below its frame. */
Test(hotspot_arm64, a_frame_that_has_called_native_code_may_lie_two_words_higher) {
        put_callers(6, true);
        words[10] = 0;
        words[11] = 0;
        put_callers(12, true);
        words[5] = code(CALLEE, 40);
        words[6] = 0;
        words[7] = code(CALLEE, 40);
        walk_from(code(CALLEE, 100), at(2), 1234, 0, 512);
        cr_assert_eq(unwind.end, ABI_STACK_COMPLETE, "end %u", unwind.end);
        is_compiled(3, CALLEE, code(CALLEE, 40), 412);
        is_compiled(6, CALLER, code(CALLER, 40), 500);
}

Test(hotspot_arm64, a_leaf_may_have_pushed_two_words) {
        put_callers(6, true);
        walk_from(code(CALLEE, 100), at(0), 0, 0, 512);
        check_whole(code(CALLEE, 100));
}

/* The caller's sp lies below its operands, and so below the frame that has them as its locals. */
Test(hotspot_arm64, an_interpreted_caller_may_have_its_sp_below_the_frame) {
        const uint64_t base = DATA + CONST_METHOD + 48;

        put_interpreted(20, base + 5, 12, 40, code(INTERPRETER, 300));
        put_interpreted(40, base + 7, 45, 100, code(STUBS, 40));
        put_entry(100);
        walk_from(code(INTERPRETER, 100), at(4), at(20), base + 9, 512);
        cr_assert_eq(unwind.end, ABI_STACK_COMPLETE, "end %u", unwind.end);
        cr_assert_eq(unwind.n_frames, 10);
}

Test(hotspot_arm64, an_entry_of_the_interpreter_has_its_return_address_in_a_register) {
        const uint64_t base = DATA + CONST_METHOD + 48;

        link = code(CALLER, 40);
        put_callers(4, true);
        process.keeps_sender = 1;       /* x19 is the caller's sp */
        walk_from(code(INTERPRETER, 12), at(0), 1234, at(4), 512);
        cr_assert_eq(unwind.end, ABI_STACK_COMPLETE, "end %u", unwind.end);
        cr_assert_eq(frames[0], BLOB | code(INTERPRETER, 12));
        is_compiled(3, CALLER, code(CALLER, 40), 500);
        process.keeps_sender = 0;
        walk_from(code(INTERPRETER, 12), at(0), 1234, at(4), 512);
        cr_assert_eq(unwind.end, ABI_STACK_RUNTIME, "nothing says where the caller's sp is");
        link = code(INTERPRETER, 300);  /* an interpreted caller is found by x29 */
        put_interpreted(40, base + 7, 45, 100, code(STUBS, 40));
        put_entry(100);
        words[40 - 3] = 0;              /* its slots are read as those of a caller alone */
        words[10] = at(40);
        words[11] = link;
        words[40 - 3] = DATA + METHOD;
        walk_from(code(INTERPRETER, 20), at(4), at(10), 0, 512);
        cr_assert_eq(unwind.end, ABI_STACK_COMPLETE, "end %u", unwind.end);
        cr_assert_eq(frames[3], INTERPRETED | (base + 7));
}

Test(hotspot_arm64, a_stub_has_a_frame_or_its_return_address_in_a_register) {
        const uint32_t framed[] = { push, move_frame };

        put_callers(1, false);
        words[0] = 0;
        link = code(CALLER, 40);
        walk_from(code(STUBS, 100), at(1), 1234, 0, 512);
        cr_assert_eq(unwind.end, ABI_STACK_COMPLETE, "end %u", unwind.end);
        is_compiled(3, CALLER, code(CALLER, 40), 500);
        put_code(STUBS, 120, framed, sizeof(framed));
        put_callers(6, true);
        for (unsigned sp = 2; sp <= 4; sp += 2) {       /* x29 = word 4 */
                walk_from(code(STUBS, 160), at(sp), at(4), 0, 512);
                cr_assert_eq(unwind.end, ABI_STACK_COMPLETE, "end %u", unwind.end);
                is_compiled(3, CALLER, code(CALLER, 40), 500);
        }
        walk_from(code(STUBS, 124), at(4), 1234, 0, 512);       /* x29 is not set yet */
        cr_assert_eq(unwind.end, ABI_STACK_COMPLETE, "end %u", unwind.end);
        link = 0;                       /* a call has overwritten it */
        walk_from(code(STUBS, 160), at(2), at(4), 0, 512);
        cr_assert_eq(unwind.end, ABI_STACK_COMPLETE, "end %u", unwind.end);
}

#else

Test(hotspot_arm64, is_another_processor) {
        cr_skip_test("machine: it is about arm64");
}

#endif

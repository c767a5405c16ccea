/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Code by hand, as C2 lays it out. Offsets are addresses: the code begins at CODE.
 */
#include <criterion/criterion.h>
#include <string.h>

#include "core/base/elf/machine.h"
#include "core/base/util/macro.h"
#include "host/runtime/hotspot/hotspot-flow.h"

enum { CODE = 0x1000, SIZE = 0x200 };

#define CALL 0xe8, 0, 0, 0, 0           /* its place is behind it */
#define POLL 0x41, 0x85, 0x02           /* its place is itself */
#define NOP 0x90
#define JL(_to) 0x7c, (_to)
#define JE(_to) 0x74, (_to)
#define JMP(_to) 0xeb, (_to)
#define RET 0xc3
#define UNKNOWN 0x06                    /* no instruction in 64-bit mode */

static uint8_t memory[SIZE];

static bool read_memory(void *userdata, uint64_t address, void *to, size_t size) {
        (void)userdata;
        if (address < CODE || address + size > CODE + SIZE)
                return false;
        memcpy(to, memory + (address - CODE), size);
        return true;
}

static const HotspotReader reader = { read_memory, NULL };

typedef struct Case {
        uint8_t code[64];
        uint64_t earlier, before, pc, after, beyond;    /* from CODE; after = 0: there is none */
        HotspotFlow want;
        uint64_t next;
        HotspotLoop loop;               /* from CODE */
} Case;

static void check(const Case *c) {
        const HotspotPlaces places = { .code = CODE, .code_end = CODE + SIZE,
                                       .earlier = CODE + c->earlier, .before = CODE + c->before,
                                       .after = CODE + (c->after ? c->after : SIZE),
                                       .beyond = CODE + (c->beyond ? c->beyond : SIZE) };
        HotspotLoop loop = { 0 };
        uint64_t next = 0;

        if (ELF_MACHINE != EM_X86_64)
                cr_skip_test("machine: it is about x86-64");
        memset(memory, NOP, sizeof(memory));
        memcpy(memory, c->code, sizeof(c->code));
        cr_assert_eq(hotspot_flow(&reader, &places, CODE + c->pc, CODE + c->pc, &next, &loop), c->want);
        cr_assert_eq(loop.end, c->loop.end ? CODE + c->loop.end : 0);
        cr_assert(!loop.end || loop.head == CODE + c->loop.head);
        if (c->want == HOTSPOT_FLOW_ELSEWHERE)
                cr_assert_eq(next, CODE + c->next);
}

Test(hotspot_flow, code_without_a_loop_is_of_the_place_that_follows) {
        check(&(Case){ .code = { CALL, NOP, NOP, NOP, CALL }, .before = 5, .pc = 6, .after = 13,
                       .want = HOTSPOT_FLOW_AFTER });
}

/* A jump back that begins behind the pc leads over other code. */
Test(hotspot_flow, a_loop_that_follows_is_none_around_the_pc) {
        check(&(Case){ .code = { CALL, NOP, NOP, NOP, JL(-3), CALL }, .before = 5, .pc = 5, .after = 15,
                       .want = HOTSPOT_FLOW_AFTER });
}

Test(hotspot_flow, a_loop_without_a_place_is_told) {
        check(&(Case){ .code = { CALL, NOP, NOP, NOP, JL(-4), CALL }, .before = 5, .pc = 7, .after = 15,
                       .want = HOTSPOT_FLOW_AFTER, .loop = { 6, 8 } });
}

Test(hotspot_flow, of_several_loops_the_outermost_is_told) {
        check(&(Case){ .code = { CALL, NOP, NOP, NOP, JL(-3), JL(-6), CALL }, .before = 5, .pc = 7,
                       .after = 17, .want = HOTSPOT_FLOW_AFTER, .loop = { 6, 10 } });
}

/* How C2 splits a counted loop: the outer one polls. */
Test(hotspot_flow, a_poll_has_the_loops_inside_of_its_own) {
        const Case c = { .code = { CALL, NOP, NOP, NOP, JL(-4), POLL, JL(-8), CALL }, .before = 5, .pc = 7,
                         .after = 10, .beyond = 20, .want = HOTSPOT_FLOW_LOOP };

        check(&c);
}

Test(hotspot_flow, a_poll_may_lead_into_the_middle_of_the_inner_loop) {
        check(&(Case){ .code = { CALL, NOP, NOP, NOP, JL(-4), POLL, NOP, JMP(-9), CALL }, .before = 5,
                       .pc = 6, .after = 10, .beyond = 21, .want = HOTSPOT_FLOW_LOOP });
}

/* A branch back that has a place in between leads out of code that is rarely needed. */
Test(hotspot_flow, a_poll_has_no_code_behind_another_place) {
        check(&(Case){ .code = { NOP, CALL, NOP, NOP, JL(-8), POLL, JL(-5), CALL }, .before = 6, .pc = 7,
                       .after = 10, .beyond = 20, .want = HOTSPOT_FLOW_AFTER, .loop = { 2, 8 } });
}

/* The first jump back behind the poll leads to a loop around its own. */
Test(hotspot_flow, a_poll_belongs_to_the_innermost_loop) {
        check(&(Case){ .code = { CALL, NOP, NOP, JL(-3), NOP, POLL, JL(-14), JMP(-7), CALL }, .before = 5,
                       .pc = 6, .after = 10, .beyond = 22, .want = HOTSPOT_FLOW_AFTER, .loop = { 6, 7 } });
}

/* Its jump back ends behind the loop that the pc is in: another method may be what loops there. */
Test(hotspot_flow, the_poll_of_a_loop_that_follows_says_nothing) {
        check(&(Case){ .code = { CALL, NOP, NOP, NOP, JL(-4), NOP, POLL, JL(-6), CALL }, .before = 5, .pc = 7,
                       .after = 11, .beyond = 21, .want = HOTSPOT_FLOW_AFTER, .loop = { 6, 8 } });
}

Test(hotspot_flow, a_poll_before_the_pc_has_the_rest_of_its_loop) {
        check(&(Case){ .code = { CALL, NOP, POLL, NOP, NOP, NOP, JL(-8), CALL }, .before = 6, .pc = 10,
                       .after = 19, .want = HOTSPOT_FLOW_BEFORE });
}

/* With another place in it, it may be the poll of a loop inside, which has ended. */
Test(hotspot_flow, a_poll_before_the_pc_is_alone_in_its_loop) {
        check(&(Case){ .code = { NOP, CALL, POLL, NOP, NOP, NOP, JL(-13), CALL }, .earlier = 6, .before = 6,
                       .pc = 10, .after = 19, .want = HOTSPOT_FLOW_AFTER, .loop = { 1, 12 } });
}

/* A call in a loop is no poll: what was inlined may end before the loop does. */
Test(hotspot_flow, a_call_before_the_pc_says_nothing_alone) {
        check(&(Case){ .code = { NOP, CALL, NOP, NOP, NOP, JL(-10), CALL }, .before = 6, .pc = 8,
                       .after = 16, .want = HOTSPOT_FLOW_AFTER, .loop = { 1, 9 } });
}

Test(hotspot_flow, jumps_forth_are_followed) {
        check(&(Case){ .code = { CALL, NOP, NOP, JMP(20), CALL }, .before = 5, .pc = 6, .after = 14,
                       .want = HOTSPOT_FLOW_ELSEWHERE, .next = 29 });
}

Test(hotspot_flow, a_branch_need_not_be_taken) {
        check(&(Case){ .code = { CALL, NOP, NOP, JE(1), NOP, NOP, CALL }, .before = 5, .pc = 6, .after = 16,
                       .want = HOTSPOT_FLOW_AFTER });
}

/* As the slow path of a barrier does, which stands behind all else. */
Test(hotspot_flow, a_jump_back_behind_the_pc_is_followed) {
        const uint8_t code[] = { CALL, NOP, JE(20), NOP, CALL, RET, [28] = JMP(-22) };
        const HotspotPlaces places = { .code = CODE, .code_end = CODE + SIZE, .before = CODE + 5,
                                       .after = CODE + SIZE, .beyond = CODE + SIZE };
        HotspotLoop loop = { 0 };
        uint64_t next = 0;

        if (ELF_MACHINE != EM_X86_64)
                cr_skip_test("machine: it is about x86-64");
        memset(memory, NOP, sizeof(memory));
        memcpy(memory, code, sizeof(code));
        cr_assert_eq(hotspot_flow(&reader, &places, CODE + 6, CODE + 28, &next, &loop),
                     HOTSPOT_FLOW_ELSEWHERE);
        cr_assert_eq(next, CODE + 8);
}

/* The last loop of several, whose test stands in its middle: a branch leaves it. */
Test(hotspot_flow, a_loop_behind_the_pc_is_left_by_its_branch) {
        check(&(Case){ .code = { CALL, NOP, NOP, JE(3), NOP, JMP(-5), NOP, CALL }, .before = 5, .pc = 6,
                       .after = 18, .want = HOTSPOT_FLOW_ELSEWHERE, .next = 12 });
        check(&(Case){ .code = { CALL, NOP, NOP, NOP, NOP, JMP(-4), NOP, CALL }, .before = 5, .pc = 6,
                       .after = 17, .want = HOTSPOT_FLOW_ROOT });
}

/* Whether a loop without a place is around @pc; then its head and end, and what is behind it. */
static bool loop_at(const uint8_t *code, size_t size, uint64_t pc, uint64_t after, HotspotLoop *loop,
                    uint64_t *nextp) {
        const HotspotPlaces places = { .code = CODE, .code_end = CODE + SIZE, .earlier = CODE,
                                       .before = CODE + 5, .after = CODE + after, .beyond = CODE + SIZE };

        if (ELF_MACHINE != EM_X86_64)
                cr_skip_test("machine: it is about x86-64");
        memset(memory, NOP, sizeof(memory));
        memcpy(memory, code, size);
        return hotspot_flow_loop(&reader, &places, CODE + pc, loop, nextp);
}

Test(hotspot_flow, the_innermost_loop_is_found) {
        static const uint8_t code[] = { CALL, NOP, NOP, NOP, JL(-3), NOP, JL(-7), CALL };
        HotspotLoop loop;
        uint64_t next;

        cr_assert(loop_at(code, sizeof(code), 7, 18, &loop, &next));
        cr_assert_eq(loop.head, CODE + 7);
        cr_assert_eq(loop.end, CODE + 8);
        cr_assert_eq(next, CODE + 10);
        cr_assert_not(loop_at(code, sizeof(code), 6, 18, &loop, &next), "another one is in it");
        cr_assert_not(loop_at(code, sizeof(code), 14, 18, &loop, &next), "it is behind both");
}

Test(hotspot_flow, a_loop_whose_test_is_in_its_middle_is_left_by_it) {
        static const uint8_t code[] = { CALL, NOP, NOP, JE(3), NOP, JMP(-6), NOP, CALL };
        HotspotLoop loop;
        uint64_t next;

        cr_assert(loop_at(code, sizeof(code), 9, 18, &loop, &next));
        cr_assert_eq(loop.head, CODE + 6);
        cr_assert_eq(next, CODE + 12);
}

Test(hotspot_flow, a_loop_that_calls_is_no_loop_without_a_place) {
        static const uint8_t code[] = { CALL, NOP, CALL, NOP, JL(-8), CALL };
        HotspotLoop loop;
        uint64_t next;

        cr_assert_not(loop_at(code, sizeof(code), 11, 19, &loop, &next));
}

/* C2 may put what leads to a loop behind it. */
Test(hotspot_flow, a_jump_to_a_loop_is_found) {
        static const uint8_t code[] = { CALL, RET, NOP, NOP, JL(-4), RET, NOP, JMP(-8) };
        const HotspotPlaces places = { .code = CODE, .code_end = CODE + sizeof(code), .before = CODE + 5 };
        const HotspotLoop loop = { CODE + 6, CODE + 8 };
        uint64_t source;

        if (ELF_MACHINE != EM_X86_64)
                cr_skip_test("machine: it is about x86-64");
        memcpy(memory, code, sizeof(code));
        cr_assert(hotspot_flow_source(&reader, &places, &loop, &source));
        cr_assert_eq(source, CODE + 12);
}

Test(hotspot_flow, a_place_leads_to_what_follows_it) {
        const HotspotPlaces places = { .code = CODE, .code_end = CODE + SIZE, .before = CODE + 5 };
        const uint8_t straight[] = { CALL, NOP, JE(1), NOP, NOP }, jumps[] = { CALL, JMP(20), NOP, NOP },
                      into[] = { CALL, JMP(1), NOP, NOP, NOP, JL(-4) };
        const HotspotLoop none = { 0 }, loop = { CODE + 8, CODE + 10 };

        if (ELF_MACHINE != EM_X86_64)
                cr_skip_test("machine: it is about x86-64");
        memset(memory, NOP, sizeof(memory));
        memcpy(memory, straight, sizeof(straight));
        cr_assert(hotspot_flow_leads(&reader, places.before, CODE + 9, &none));
        memcpy(memory, jumps, sizeof(jumps));
        cr_assert(!hotspot_flow_leads(&reader, places.before, CODE + 8, &none));
        memcpy(memory, into, sizeof(into));
        cr_assert(!hotspot_flow_leads(&reader, places.before, CODE + 7, &none));
        cr_assert(hotspot_flow_leads(&reader, places.before, CODE + 7, &loop));
}

/* C2 puts code between two places that comes from elsewhere. */
Test(hotspot_flow, a_branch_over_code_does_not_lead_into_it) {
        const uint8_t over[] = { CALL, JE(6), JMP(60), NOP, NOP, NOP, NOP, NOP };
        const HotspotLoop none = { 0 };

        if (ELF_MACHINE != EM_X86_64)
                cr_skip_test("machine: it is about x86-64");
        memset(memory, NOP, sizeof(memory));
        memcpy(memory, over, sizeof(over));
        cr_assert(hotspot_flow_leads(&reader, CODE + 5, CODE + 14, &none));
        cr_assert(hotspot_flow_leads(&reader, CODE + 5, CODE + 13, &none));
        cr_assert(!hotspot_flow_leads(&reader, CODE + 5, CODE + 11, &none));
}

Test(hotspot_flow, a_return_is_the_compiled_method_s) {
        check(&(Case){ .code = { CALL, NOP, NOP, RET, CALL }, .before = 5, .pc = 6, .after = 13,
                       .want = HOTSPOT_FLOW_RETURN });
}

Test(hotspot_flow, what_is_no_code_is_not_guessed) {
        check(&(Case){ .code = { CALL, NOP, NOP, UNKNOWN, CALL }, .before = 5, .pc = 6, .after = 13,
                       .want = HOTSPOT_FLOW_ROOT });
}

/* ---- arm64 ---- */

/* Instructions: a call, a poll, branches from their own place on, a return. */
#define A64_NOP 0xd503201f
#define A64_BL 0x94000001
#define A64_POLL 0xb940011f
#define A64_LT(_words) (0x5400000b | ((uint32_t)(_words) & 0x7ffff) << 5)
#define A64_CBNZ(_words) (0xb5000000 | ((uint32_t)(_words) & 0x7ffff) << 5)
#define A64_TBZ(_words) (0x36000000 | ((uint32_t)(_words) & 0x3fff) << 5)
#define A64_B(_words) (0x14000000 | ((uint32_t)(_words) & 0x3ffffff))
#define A64_RET 0xd65f03c0
#define A64_UDF 0

/* As Case, in instructions. */
typedef struct Arm64Case {
        uint32_t code[16];
        unsigned before, pc, after, beyond;
        HotspotFlow want;
        unsigned next;
} Arm64Case;

static void check_arm64(const Arm64Case *c) {
        const unsigned size = SIZE / 4;
        const HotspotPlaces places = { .code = CODE, .code_end = CODE + SIZE, .before = CODE + 4 * c->before,
                                       .after = CODE + 4 * (c->after ? c->after : size),
                                       .beyond = CODE + 4 * (c->beyond ? c->beyond : size) };
        const uint32_t nop = A64_NOP;
        HotspotLoop loop = { 0 };
        uint64_t next = 0, pc = CODE + 4 * c->pc;

        for (unsigned i = 0; i < size; i++)
                memcpy(memory + 4 * i, i < ARRAY_SIZE(c->code) ? &c->code[i] : &nop, sizeof(nop));
        cr_assert_eq(hotspot_flow(&reader, &places, pc, pc, &next, &loop), c->want);
        if (c->want == HOTSPOT_FLOW_ELSEWHERE)
                cr_assert_eq(next, CODE + 4 * c->next);
}

Test(hotspot_flow, arm64_is_followed_by_its_own_instructions) {
        const Arm64Case cases[] = {
                { { A64_BL, A64_NOP, A64_NOP, A64_BL }, 1, 1, 4, 0, HOTSPOT_FLOW_AFTER, 0 },
                { { A64_BL, A64_NOP, A64_NOP, A64_LT(-2), A64_BL }, 1, 2, 5, 0, HOTSPOT_FLOW_AFTER, 0 },
                { { A64_BL, A64_NOP, A64_NOP, A64_CBNZ(-2), A64_BL }, 1, 2, 5, 0, HOTSPOT_FLOW_AFTER, 0 },
                { { A64_BL, A64_NOP, A64_NOP, A64_TBZ(-2), A64_BL }, 1, 2, 5, 0, HOTSPOT_FLOW_AFTER, 0 },
                { { A64_BL, A64_NOP, A64_NOP, A64_LT(-1), A64_POLL, A64_LT(-3), A64_BL }, 1, 2, 4, 7,
                  HOTSPOT_FLOW_LOOP, 0 },
                { { A64_BL, A64_POLL, A64_NOP, A64_NOP, A64_LT(-3), A64_BL }, 1, 2, 6, 0,
                  HOTSPOT_FLOW_BEFORE, 0 },
                { { A64_BL, A64_NOP, A64_B(8), A64_BL }, 1, 1, 4, 0, HOTSPOT_FLOW_ELSEWHERE, 10 },
                { { A64_BL, A64_NOP, A64_RET, A64_BL }, 1, 1, 4, 0, HOTSPOT_FLOW_RETURN, 0 },
                { { A64_BL, A64_NOP, A64_UDF, A64_BL }, 1, 1, 4, 0, HOTSPOT_FLOW_ROOT, 0 },
        };

        if (ELF_MACHINE != EM_AARCH64)
                cr_skip_test("machine: it is about arm64");
        for (size_t i = 0; i < ARRAY_SIZE(cases); i++)
                check_arm64(&cases[i]);
}

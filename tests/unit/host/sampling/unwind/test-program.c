/* SPDX-License-Identifier: Apache-2.0 */

/* Each call frame instruction by its bytes (DWARF 5, 6.4.2 and 7.24; LSB Core 10.5). */

#include <criterion/criterion.h>

#include "border/unwind_abi.h"
#include "cfi-maker.h"
#include "host/sampling/unwind/cfi/program.h"

enum {
        START = 0x1000,
        SIZE = 0x100,
};

static Row rows[PROGRAM_MAX_ROWS];
static RowList list = { .rows = rows };
static CfiCounts counts;

/* The CIE of put_cie(), already run. */
static Cie make_cie(void) {
        Cie cie = { .code_align = 1, .data_align = -8, .encoding = PE_UDATA4 };
        const uint8_t code[] = { 0x0c, 7, 8, 0x90, 1 };
        Cursor cursor = cursor_make(code, sizeof(code));
        Encoded where = { 0 };

        cr_assert_eq(program_run_initial(&cie, &cursor, &where, &counts), 0);
        return cie;
}

static int run_with(const Cie *cie, const uint8_t *code, size_t size) {
        Fde fde = { .cie = cie, .start = START, .end = START + SIZE, .code = code, .code_size = size,
                    .code_address = MAKER_FRAME };

        counts = (CfiCounts){ 0 };
        return program_run(&fde, &list, &counts);
}

static int run(const uint8_t *code, size_t size) {
        Cie cie = make_cie();

        return run_with(&cie, code, size);
}

#define RUN(...) run((const uint8_t[]){ __VA_ARGS__ }, sizeof((const uint8_t[]){ __VA_ARGS__ }))
#define RUN_WITH(_cie, ...) \
        run_with(_cie, (const uint8_t[]){ __VA_ARGS__ }, sizeof((const uint8_t[]){ __VA_ARGS__ }))

/* Row @i begins at START + @at with this rule. */
static void expect(uint32_t i, uint64_t at, uint32_t cfa, int32_t offset, uint32_t rbp, int16_t rbp_offset,
                   uint32_t rbx) {
        cr_assert_lt(i, list.n);
        cr_expect_eq(rows[i].address, START + at, "row %u at %#lx", i, rows[i].address - START);
        cr_expect_eq(unwind_rule_cfa(rows[i].rule), cfa, "row %u: CFA kind %u", i,
                     unwind_rule_cfa(rows[i].rule));
        cr_expect_eq(unwind_rule_offset(rows[i].rule), offset, "row %u: %d", i,
                     unwind_rule_offset(rows[i].rule));
        cr_expect_eq(unwind_rule_rbp(rows[i].rule), rbp, "row %u: rbp %u", i, unwind_rule_rbp(rows[i].rule));
        cr_expect_eq(unwind_rule_rbp_offset(rows[i].rule), rbp_offset);
        cr_expect_eq(unwind_rule_rbx(rows[i].rule), rbx, "row %u: rbx %u", i, unwind_rule_rbx(rows[i].rule));
}

static void expect_cfa(uint32_t cfa, int32_t offset) {
        cr_assert_gt(list.n, 0);
        expect(list.n - 1, rows[list.n - 1].address - START, cfa, offset, 0, 0, 0);
}

Test(program, without_instructions_is_the_row_of_its_cie) {
        cr_assert_eq(run(NULL, 0), 0);
        cr_assert_eq(list.n, 1);
        expect(0, 0, UNWIND_CFA_RSP, 8, 0, 0, 0);
}

/* The example at the top of program.c, with rbx pushed before. */
Test(program, follows_a_prologue) {
        cr_assert_eq(RUN(0x41, 0x0e, 16, 0x83, 2, 0x41, 0x0e, 24, 0x86, 3, 0x43, 0x0d, 6), 0);
        cr_assert_eq(list.n, 4);
        expect(0, 0, UNWIND_CFA_RSP, 8, UNWIND_RBP_SAME, 0, 0);
        expect(1, 1, UNWIND_CFA_RSP, 16, UNWIND_RBP_SAME, 0, 2);
        expect(2, 2, UNWIND_CFA_RSP, 24, UNWIND_RBP_AT_CFA, -24, 2);
        expect(3, 5, UNWIND_CFA_RBP, 24, UNWIND_RBP_AT_CFA, -24, 2);
}

Test(program, advances_in_every_width) {
        cr_assert_eq(RUN(0x42, 0x0e, 16, 0x02, 3, 0x0e, 24, 0x03, 4, 0, 0x0e, 32, 0x04, 5, 0, 0, 0, 0x0e, 40,
                         0x1d, 6, 0, 0, 0, 0, 0, 0, 0, 0x0e, 48), 0);
        cr_assert_eq(list.n, 6);
        expect(1, 2, UNWIND_CFA_RSP, 16, 0, 0, 0);
        expect(2, 5, UNWIND_CFA_RSP, 24, 0, 0, 0);
        expect(3, 9, UNWIND_CFA_RSP, 32, 0, 0, 0);
        expect(4, 14, UNWIND_CFA_RSP, 40, 0, 0, 0);
        expect(5, 20, UNWIND_CFA_RSP, 48, 0, 0, 0);
}

Test(program, multiplies_by_the_code_alignment) {
        Cie cie = make_cie();

        cie.code_align = 4;
        cr_assert_eq(RUN_WITH(&cie, 0x42, 0x0e, 16), 0);
        expect(1, 8, UNWIND_CFA_RSP, 16, 0, 0, 0);
}

Test(program, sets_the_location_by_an_encoded_pointer) {
        cr_assert_eq(RUN(0x01, 0x40, 0x10, 0, 0, 0x0e, 16), 0);
        expect(1, 0x40, UNWIND_CFA_RSP, 16, 0, 0, 0);
}

Test(program, sets_the_location_relative_to_the_function) {
        Cie cie = make_cie();

        cie.encoding = PE_FUNCREL | PE_UDATA2;
        cr_assert_eq(RUN_WITH(&cie, 0x01, 0x20, 0, 0x0e, 16), 0);
        expect(1, 0x20, UNWIND_CFA_RSP, 16, 0, 0, 0);
}

Test(program, defines_the_cfa_in_every_way) {
        cr_assert_eq(RUN(0x0c, 6, 16), 0);
        expect_cfa(UNWIND_CFA_RBP, 16);
        cr_assert_eq(RUN(0x0d, 3), 0);
        expect_cfa(UNWIND_CFA_RBX, 8);
        cr_assert_eq(RUN(0x0e, 0x80, 1), 0);
        expect_cfa(UNWIND_CFA_RSP, 128);
        cr_assert_eq(RUN(0x12, 6, 0x7e), 0);
        expect_cfa(UNWIND_CFA_RBP, 16);         /* def_cfa_sf: -2 × -8 */
        cr_assert_eq(RUN(0x13, 0x7d), 0);
        expect_cfa(UNWIND_CFA_RSP, 24);
        cr_assert_eq(RUN(0x0c, 10, 0), 0);
        expect_cfa(UNWIND_CFA_REGISTER + 10, 0);
}

Test(program, saves_registers_in_every_way) {
        cr_assert_eq(RUN(0x05, 6, 2), 0);
        expect(0, 0, UNWIND_CFA_RSP, 8, UNWIND_RBP_AT_CFA, -16, 0);
        cr_assert_eq(RUN(0x11, 6, 0x7f), 0);
        expect(0, 0, UNWIND_CFA_RSP, 8, UNWIND_RBP_AT_CFA, 8, 0);       /* offset_extended_sf: -1 × -8 */
        cr_assert_eq(RUN(0x2f, 6, 2), 0);
        expect(0, 0, UNWIND_CFA_RSP, 8, UNWIND_RBP_AT_CFA, 16, 0);      /* the GNU one is negated */
        cr_assert_eq(RUN(0x86, 2, 0x08, 6), 0);
        expect(0, 0, UNWIND_CFA_RSP, 8, UNWIND_RBP_SAME, 0, 0);
        cr_assert_eq(counts.unsupported[CFI_UNSUPPORTED_FRAME_POINTER], 0);
}

Test(program, knows_what_it_cannot_say_of_a_register) {
        cr_assert_eq(RUN(0x07, 6), 0);
        expect(0, 0, UNWIND_CFA_RSP, 8, UNWIND_RBP_LOST, 0, 0);
        cr_assert_eq(RUN(0x09, 6, 12), 0);
        expect(0, 0, UNWIND_CFA_RSP, 8, UNWIND_RBP_LOST, 0, 0);
        cr_assert_eq(RUN(0x14, 6, 2), 0);
        expect(0, 0, UNWIND_CFA_RSP, 8, UNWIND_RBP_LOST, 0, 0);
        cr_assert_eq(RUN(0x15, 3, 0x7e), 0);
        expect(0, 0, UNWIND_CFA_RSP, 8, 0, 0, UNWIND_RBX_LOST);
        cr_assert_eq(RUN(0x16, 3, 2, 0x77, 0), 0);
        expect(0, 0, UNWIND_CFA_RSP, 8, 0, 0, UNWIND_RBX_LOST);
        cr_assert_eq(counts.unsupported[CFI_UNSUPPORTED_BASE_REGISTER], 1);
        cr_assert_eq(RUN(0x83, 63), 0);
        expect(0, 0, UNWIND_CFA_RSP, 8, 0, 0, UNWIND_RBX_LOST);
        cr_assert_eq(RUN(0x83, 62), 0);
        expect(0, 0, UNWIND_CFA_RSP, 8, 0, 0, 62);
        cr_assert_eq(RUN(0x05, 6, 0x81, 0x20), 0);
        expect(0, 0, UNWIND_CFA_RSP, 8, UNWIND_RBP_LOST, 0, 0);         /* -8 × 4097 is beyond 16 bits */
        cr_assert_eq(RUN(0x05, 6, 0x80, 0x20), 0);
        expect(0, 0, UNWIND_CFA_RSP, 8, UNWIND_RBP_AT_CFA, -32768, 0);
}

Test(program, restores_what_the_cie_said) {
        Cie cie = make_cie();

        cie.initial.saved[1] = (Saved){ .kind = SAVED_AT_CFA, .offset = -16 };
        cr_assert_eq(RUN_WITH(&cie, 0x08, 6, 0x41, 0xc6, 0x83, 4, 0x41, 0x06, 3), 0);
        cr_assert_eq(list.n, 3);
        expect(0, 0, UNWIND_CFA_RSP, 8, UNWIND_RBP_SAME, 0, 0);
        expect(1, 1, UNWIND_CFA_RSP, 8, UNWIND_RBP_AT_CFA, -16, 4);
        expect(2, 2, UNWIND_CFA_RSP, 8, UNWIND_RBP_AT_CFA, -16, 0);
}

Test(program, remembers_states_one_in_another) {
        cr_assert_eq(RUN(0x0a, 0x0e, 16, 0x41, 0x0a, 0x0e, 24, 0x86, 3, 0x41, 0x0b, 0x41, 0x0b), 0);
        cr_assert_eq(list.n, 4);
        expect(0, 0, UNWIND_CFA_RSP, 16, 0, 0, 0);
        expect(1, 1, UNWIND_CFA_RSP, 24, UNWIND_RBP_AT_CFA, -24, 0);
        expect(2, 2, UNWIND_CFA_RSP, 16, 0, 0, 0);
        expect(3, 3, UNWIND_CFA_RSP, 8, 0, 0, 0);
}

Test(program, refuses_states_that_do_not_nest) {
        uint8_t deep[PROGRAM_MAX_NESTING + 1];

        cr_assert_eq(RUN(0x0b), CFI_PROBLEM_NESTING);
        memset(deep, 0x0a, sizeof(deep));
        cr_assert_eq(run(deep, sizeof(deep) - 1), 0);
        cr_assert_eq(run(deep, sizeof(deep)), CFI_PROBLEM_NESTING);
}

Test(program, ends_the_stack_where_the_return_address_is_undefined) {
        cr_assert_eq(RUN(0x07, 16), 0);
        expect_cfa(UNWIND_CFA_END, 0);
}

Test(program, gives_up_a_row_whose_return_address_is_elsewhere) {
        cr_assert_eq(RUN(0x90, 2), 0);
        expect_cfa(UNWIND_CFA_BAD, 0);
        cr_assert_eq(counts.unsupported[CFI_UNSUPPORTED_RETURN_ADDRESS], 1);
        cr_assert_eq(RUN(0x90, 0), 0);          /* at the CFA itself */
        expect_cfa(UNWIND_CFA_BAD, 0);
        cr_assert_gt(counts.unsupported[CFI_UNSUPPORTED_RETURN_ADDRESS], 0);
}

/* vfork(): pop %rdi; …; jmp *%rdi, as glibc says it: DW_CFA_register rip in rdi, CFA = rsp + 0. */
Test(program, knows_a_return_address_in_a_register) {
        cr_assert_eq(RUN(0x0e, 0, 0x09, 16, 5), 0);
        expect_cfa(UNWIND_CFA_RETURN + 5, 0);
        cr_assert_eq(counts.unsupported[CFI_UNSUPPORTED_RETURN_ADDRESS], 0);
        cr_assert_eq(RUN(0x09, 16, 3), 0);
        expect_cfa(UNWIND_CFA_BAD, 0);          /* rbx is not among those that are kept for the leaf */
        cr_assert_eq(RUN(0x09, 16, 17), 0);
        expect_cfa(UNWIND_CFA_BAD, 0);
        cr_assert_eq(RUN(0x09, 16, 0x80, 4), 0);
        expect_cfa(UNWIND_CFA_BAD, 0);          /* register 512 */
        cr_assert_eq(RUN(0x0d, 6, 0x09, 16, 5), 0);
        expect_cfa(UNWIND_CFA_BAD, 0);          /* CFA by rbp */
        cr_assert_eq(RUN(0x86, 2, 0x09, 16, 5), 0);
        expect_cfa(UNWIND_CFA_BAD, 0);          /* rbp still to be restored */
}

/* The expression that GNU ld and gold write for the stubs of the PLT (binutils, elf_x86_64_eh_frame_plt). */
Test(program, recognises_the_stubs_of_the_linkage_table) {
        cr_assert_eq(RUN(0x0f, 11, 0x77, 8, 0x80, 0, 0x3f, 0x1a, 0x3b, 0x2a, 0x33, 0x24, 0x22), 0);
        expect_cfa(UNWIND_CFA_PLT, 11);
        cr_assert_eq(RUN(0x0f, 11, 0x77, 8, 0x80, 0, 0x3f, 0x1a, 0x40, 0x2a, 0x33, 0x24, 0x22), 0);
        expect_cfa(UNWIND_CFA_BAD, 0);
}

Test(program, recognises_memory_at_rsp_or_rbp) {
        cr_assert_eq(RUN(0x0f, 3, 0x76, 0x78, 0x06), 0);
        expect_cfa(UNWIND_CFA_DEREF_RBP, (int32_t)((uint32_t)-8 << 8));
        cr_assert_eq(RUN(0x0f, 5, 0x77, 16, 0x06, 0x23, 8), 0);
        expect_cfa(UNWIND_CFA_DEREF_RSP, 16 << 8 | 8);
        cr_assert_eq(RUN(0x0f, 5, 0x77, 16, 0x06, 0x38, 0x22), 0);
        expect_cfa(UNWIND_CFA_DEREF_RSP, 16 << 8 | 8);          /* lit8 plus */
        cr_assert_eq(RUN(0x10, 6, 2, 0x76, 0x78), 0);
        expect(0, 0, UNWIND_CFA_RSP, 8, UNWIND_RBP_AT_RBP, -8, 0);
}

/* OCaml 5's caml_runstack: breg7 56; deref; plus_uconst 0; deref; plus_uconst 8. */
Test(program, recognises_memory_that_memory_leads_to) {
        cr_assert_eq(RUN(0x0f, 8, 0x77, 56, 0x06, 0x23, 0, 0x06, 0x23, 8), 0);
        expect_cfa(UNWIND_CFA_DEREF_TWICE, 56 << 16 | 8);
        cr_assert_eq(RUN(0x0f, 8, 0x77, 0x78, 0x06, 0x23, 24, 0x06, 0x23, 16), 0);
        expect_cfa(UNWIND_CFA_DEREF_TWICE, (int32_t)((uint32_t)-8 << 16 | 24 << 8 | 16));
        cr_assert_eq(RUN(0x0f, 4, 0x77, 8, 0x06, 0x06), 0);
        expect_cfa(UNWIND_CFA_DEREF_TWICE, 8 << 16);
        cr_assert_eq(RUN(0x0f, 8, 0x76, 8, 0x06, 0x23, 0, 0x06, 0x23, 8), 0);
        expect_cfa(UNWIND_CFA_BAD, 0);          /* by rbp */
        cr_assert_eq(RUN(0x0f, 9, 0x77, 8, 0x06, 0x23, 0x80, 1, 0x06, 0x23, 8), 0);
        expect_cfa(UNWIND_CFA_BAD, 0);          /* 128 in between */
        cr_assert_eq(RUN(0x0f, 5, 0x77, 8, 0x06, 0x06, 0x06), 0);
        expect_cfa(UNWIND_CFA_BAD, 0);          /* three times */
}

/* OpenSSL's bn_mul_mont: breg7 8; breg9 0; lit8; mul; plus; deref; plus_uconst 8. */
Test(program, recognises_an_array_on_the_stack) {
        cr_assert_eq(RUN(0x0f, 10, 0x77, 8, 0x79, 0, 0x38, 0x1e, 0x22, 0x06, 0x23, 8), 0);
        expect_cfa(UNWIND_CFA_INDEXED + 9, 8 << 8 | 8);
        cr_assert_eq(RUN(0x0f, 10, 0x77, 8, 0x79, 0, 0x34, 0x1e, 0x22, 0x06, 0x23, 8), 0);
        expect_cfa(UNWIND_CFA_BAD, 0);          /* times 4 */
        cr_assert_eq(RUN(0x0f, 10, 0x77, 8, 0x73, 0, 0x38, 0x1e, 0x22, 0x06, 0x23, 8), 0);
        expect_cfa(UNWIND_CFA_BAD, 0);          /* rbx */
        cr_assert_eq(RUN(0x0f, 7, 0x77, 8, 0x79, 0, 0x38, 0x1e, 0x22), 0);
        expect_cfa(UNWIND_CFA_BAD, 0);          /* no deref */
}

Test(program, counts_an_expression_of_no_known_pattern) {
        cr_assert_eq(RUN(0x0f, 3, 0x72, 0x78, 0x06), 0);
        expect_cfa(UNWIND_CFA_BAD, 0);
        cr_assert_eq(RUN(0x0f, 6, 0x77, 16, 0x06, 0x23, 0x80, 1), 0);
        expect_cfa(UNWIND_CFA_BAD, 0);          /* 128 does not fit the addend */
        cr_assert_eq(RUN(0x0f, 0), 0);
        expect_cfa(UNWIND_CFA_BAD, 0);
        cr_assert_eq(counts.unsupported[CFI_UNSUPPORTED_CFA_EXPRESSION], 1);
        cr_assert_eq(RUN(0x10, 6, 2, 0x77, 0), 0);
        expect(0, 0, UNWIND_CFA_RSP, 8, UNWIND_RBP_LOST, 0, 0);
}

/* glibc's __restore_rt: rsp at 160(%rsp), rip at 168(%rsp), and 'S' in its CIE. */
Test(program, recognises_a_signal_frame) {
        const uint8_t code[] = { 0x0f, 4, 0x77, 0xa0, 1, 0x06, 0x10, 16, 3, 0x77, 0xa8, 1 };
        Cie cie = make_cie();

        cr_assert_eq(run_with(&cie, code, sizeof(code)), 0);
        expect_cfa(UNWIND_CFA_BAD, 0);
        cie.is_signal = true;
        cr_assert_eq(run_with(&cie, code, sizeof(code)), 0);
        expect_cfa(UNWIND_CFA_SIGNAL, 0);
        cr_assert_eq(RUN_WITH(&cie, 0x0e, 16), 0);
        expect_cfa(UNWIND_CFA_RSP, 16);         /* 'S' alone changes nothing */
}

Test(program, ignores_what_no_walk_needs) {
        cr_assert_eq(RUN(0x00, 0x8c, 2, 0x2e, 0x10, 0x10, 12, 2, 0x77, 0, 0x05, 40, 1, 0x08, 99), 0);
        cr_assert_eq(list.n, 1);
        expect(0, 0, UNWIND_CFA_RSP, 8, 0, 0, 0);
}

Test(program, stops_at_the_end_of_the_function) {
        cr_assert_eq(RUN(0x03, 0x00, 0x01, 0x0e, 16), 0);
        cr_assert_eq(list.n, 1);
}

Test(program, refuses_instructions_outside_the_function) {
        cr_assert_eq(RUN(0x03, 0x01, 0x01), CFI_PROBLEM_ADVANCE);
        cr_assert_eq(RUN(0x1d, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff), CFI_PROBLEM_ADVANCE);
        cr_assert_eq(RUN(0x48, 0x01, 0x00, 0x10, 0, 0), CFI_PROBLEM_ADVANCE);
}

Test(program, refuses_operands_that_are_cut_off) {
        cr_assert_eq(RUN(0x0e), CFI_PROBLEM_TRUNCATED);
        cr_assert_eq(RUN(0x0e, 0x80), CFI_PROBLEM_TRUNCATED);
        cr_assert_eq(RUN(0x04, 1, 0, 0), CFI_PROBLEM_TRUNCATED);
        cr_assert_eq(RUN(0x0f, 4, 0x77, 8), CFI_PROBLEM_TRUNCATED);
        cr_assert_eq(RUN(0x10, 6, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x01),
                     CFI_PROBLEM_TRUNCATED);
}

Test(program, refuses_an_unknown_instruction) {
        cr_assert_eq(RUN(0x3f, 0), CFI_PROBLEM_OPCODE);
        cr_assert_eq(RUN(0x17, 0), CFI_PROBLEM_OPCODE);
}

Test(program, keeps_offsets_that_overflow_out_of_rules) {
        cr_assert_eq(RUN(0x0e, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x01), 0);
        expect_cfa(UNWIND_CFA_BAD, 0);
        cr_assert_eq(counts.unsupported[CFI_UNSUPPORTED_CFA_OFFSET], 1);
        cr_assert_eq(RUN(0x0c, 99, 8), 0);
        expect_cfa(UNWIND_CFA_BAD, 0);
        cr_assert_eq(counts.unsupported[CFI_UNSUPPORTED_CFA_REGISTER], 1);
        cr_assert_eq(RUN(0x86, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x7f), 0);
        expect(0, 0, UNWIND_CFA_RSP, 8, UNWIND_RBP_LOST, 0, 0);
}

Test(program, has_a_cap_of_rows) {
        static uint8_t code[3 * (PROGRAM_MAX_ROWS + 1)];
        Cie cie = make_cie();
        Fde fde = {
                .cie = &cie, .start = START, .end = START + (1 << 20), .code = code, .code_size = sizeof(code)
        };

        for (size_t i = 0; i < sizeof(code); i += 3)
                memcpy(code + i, (uint8_t[]){ 0x41, 0x0e, (uint8_t)(i % 2) }, 3);
        cr_assert_eq(program_run(&fde, &list, &counts), CFI_PROBLEM_ROWS);
        fde.code_size = 3 * (PROGRAM_MAX_ROWS - 1);
        cr_assert_eq(program_run(&fde, &list, &counts), 0);
        cr_assert_eq(list.n, PROGRAM_MAX_ROWS);
}

Test(program, refuses_a_location_in_a_cie) {
        Cie cie = { .code_align = 1, .data_align = -8 };
        const uint8_t code[] = { 0x0c, 7, 8, 0x41 };
        Cursor cursor = cursor_make(code, sizeof(code));
        Encoded where = { 0 };

        cr_assert_eq(program_run_initial(&cie, &cursor, &where, &counts), CFI_PROBLEM_ADVANCE);
}

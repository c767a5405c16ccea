/* SPDX-License-Identifier: Apache-2.0 */

/* The end of libgcc's _Unwind_Resume by its bytes, as `objdump -d` shows them. */

#include <criterion/criterion.h>

#include "border/unwind_abi.h"
#include "host/sampling/unwind/cfi/eh-return.h"

enum {
        TEXT = 0x5000,
        FILE_AT = 0x100,                /* of TEXT in the file */
        N_BYTES = 0x200,
        RCX_ROW = 0x80,                 /* from TEXT: mov %rcx,%rsp */
        STORE_END = 0x54,
        LEA_END = 0x60,
};

static uint8_t file[FILE_AT + N_BYTES];
static Row rows[PROGRAM_MAX_ROWS];
static RowList list;
static Layout layout;
static Reader reader;

static const uint64_t rbp_rule = 0x0002000000000010;    /* CFA = rbp + 16 */
static const uint64_t rcx_rule = 0x0012000000000008;    /* CFA = rcx + 8 */

static void add(uint64_t at, uint64_t rule) {
        rows[list.n++] = (Row){ .address = TEXT + at, .rule = rule };
}

static void setup(void) {
        /* lea 8(%rbp,%rcx,1),%rcx */
        static const uint8_t lea[] = { 0x48, 0x8d, 0x4c, 0x0d, 0x08 };

        memset(file, 0x90, sizeof(file));
        memcpy(file + FILE_AT + LEA_END - sizeof(lea), lea, sizeof(lea));
        layout = (Layout){ .n_segments = 1,
                           .segments = { { .address = TEXT, .offset = FILE_AT, .size = N_BYTES } } };
        list = (RowList){ .rows = rows };
        reader_init_memory(&reader, file, sizeof(file));
        add(0x00, rbp_rule);
        add(RCX_ROW, rcx_rule);
        add(RCX_ROW + 3, 0x0001000000000008);
}

TestSuite(landing, .init = setup);

Test(landing, begins_where_the_pads_stack_is_known) {
        landing_amend(&list, &layout, &reader);
        cr_assert_eq(list.n, 4);
        cr_assert_eq(rows[0].rule, rbp_rule);
        cr_assert_eq(rows[1].address, TEXT + LEA_END);
        cr_assert_eq(unwind_rule_cfa(rows[1].rule), UNWIND_CFA_LANDING + UNWIND_CFA_REGISTER + 2);
        cr_assert_eq(unwind_rule_offset(rows[1].rule), 8);
        cr_assert_eq(unwind_rule_rbp(rows[1].rule), UNWIND_RBP_AT_RBP, "the frame holds the pad's rbp");
        cr_assert_eq(unwind_rule_rbp_offset(rows[1].rule), 0);
        cr_assert_eq(rows[2].address, TEXT + RCX_ROW);
        cr_assert_eq(rows[2].rule, rcx_rule | 0x80ULL << 48, "nobody has called from the pad");
        cr_assert_eq(rows[3].address, TEXT + RCX_ROW + 3);
        cr_assert_eq(rows[3].rule, 0x0081000000000008);
}

Test(landing, begins_with_the_pads_address_in_its_place) {
        /* mov %rdx,%rcx; mov %rsi,8(%rbp,%rdx,1), or by rax */
        static const uint8_t by_rdx[] = { 0x48, 0x89, 0xd1, 0x48, 0x89, 0x74, 0x15, 0x08 };
        static const uint8_t by_rax[] = { 0x48, 0x89, 0xc1, 0x48, 0x89, 0x74, 0x05, 0x08 };

        for (int i = 0; i < 2; i++) {
                setup();
                memcpy(file + FILE_AT + STORE_END - 8, i ? by_rax : by_rdx, 8);
                landing_amend(&list, &layout, &reader);
                cr_assert_eq(list.n, 5);
                cr_assert_eq(rows[1].address, TEXT + STORE_END);
                cr_assert_eq(unwind_rule_cfa(rows[1].rule), UNWIND_CFA_LANDING + UNWIND_CFA_SUM + 2);
                cr_assert_eq(unwind_rule_offset(rows[1].rule), 16);
                cr_assert_eq(unwind_rule_rbp(rows[1].rule), UNWIND_RBP_AT_RBP);
                cr_assert_eq(rows[2].address, TEXT + LEA_END);
                cr_assert_eq(rows[3].rule, rcx_rule | 0x80ULL << 48);
        }
}

Test(landing, ends_with_its_last_instruction) {
        add(RCX_ROW + 4, 0x0022000000000000);           /* rsp, return address in rcx */
        add(RCX_ROW + 6, 0x0001000000000008);           /* other code */
        rows[1].rule |= 7ULL << 58;                     /* gcc goes on saying that rbx lies in the frame */
        landing_amend(&list, &layout, &reader);
        cr_assert_eq(list.n, 6);
        cr_assert_eq(rows[2].rule, rcx_rule | 0x80ULL << 48);
        cr_assert_eq(rows[4].rule, 0x00a2000000000000);
        cr_assert_eq(rows[5].rule, 0x0001000000000008);
}

static void expect_nothing(void) {
        landing_amend(&list, &layout, &reader);
        cr_expect_eq(list.n, 3);
}

Test(landing, is_left_alone_without_its_code) {
        file[FILE_AT + LEA_END - 1] = 0x10;
        expect_nothing();
}

Test(landing, is_looked_for_in_the_last_bytes_alone) {
        rows[1].address = TEXT + LEA_END + 60;          /* the lea begins 65 bytes in front of it */
        rows[2].address = rows[1].address + 3;
        expect_nothing();
        rows[1].address = TEXT + LEA_END + 59;
        landing_amend(&list, &layout, &reader);
        cr_expect_eq(list.n, 4);
}

Test(landing, is_looked_for_behind_the_row_before) {
        rows[0].address = TEXT + LEA_END - 4;
        expect_nothing();
}

Test(landing, needs_no_row_where_one_begins) {
        rows[1].address = TEXT + LEA_END;
        expect_nothing();
}

Test(landing, of_another_register_is_left_alone) {
        rows[1].rule = 0x0011000000000008;              /* rdx */
        expect_nothing();
        rows[1].rule = 0x0012000000000010;              /* rcx + 16 */
        expect_nothing();
}

Test(landing, survives_text_that_is_not_in_the_file) {
        layout.segments[0].size = RCX_ROW - 1;
        expect_nothing();
        layout.segments[0].size = N_BYTES;
        layout.segments[0].offset = sizeof(file);
        expect_nothing();
        layout.n_segments = 0;
        expect_nothing();
}

Test(landing, has_the_cap_of_rows) {
        while (list.n < PROGRAM_MAX_ROWS)
                add(0x90 + list.n, rbp_rule);
        landing_amend(&list, &layout, &reader);
        cr_assert_eq(list.n, (uint32_t)PROGRAM_MAX_ROWS);
        cr_assert_eq(rows[1].rule, rcx_rule);
}

/* SPDX-License-Identifier: Apache-2.0 */

/* Rows from code by hand: what is understood, and what ends a walk instead of a guess. */
#include <criterion/criterion.h>
#include <elf.h>
#include <stdbool.h>
#include <string.h>

#include "border/unwind_abi.h"
#include "host/sampling/unwind/scan/scan.h"

enum { SIZE = 0x1000, CODE_AT = 0x100, CODE = 0x10100, MAX_CODE = 256, ENTRY = 16, TOP = -1 };

static _Alignas(8) uint8_t file[SIZE];
static int depths[MAX_CODE];

typedef enum How { CALLED, ENTERED, NAMED, PASSED } How;

/*
 * The file's entry, behind the code: `call` of its first byte, or `lea @named(%rip),%rax`, which says nothing
 * of the code there; then `hlt`. Or, as C libraries begin a program, `lea @named(%rip),%rdi; call *%rax`.
 */
static uint64_t put_entry(size_t size, How how, size_t named) {
        const uint8_t call[] = { 0xe8 }, load[] = { 0x48, 0x8d, how == PASSED ? 0x3d : 0x05 };
        const uint8_t pass[] = { 0xff, 0xd0, 0xf4 };
        size_t n = how == CALLED ? sizeof(call) : sizeof(load);
        const int32_t to = (int32_t)named - (int32_t)(size + n + 4);

        memcpy(file + CODE_AT + size, how == CALLED ? call : load, n);
        memcpy(file + CODE_AT + size + n, &to, sizeof(to));
        file[CODE_AT + size + n + 4] = 0xf4;
        if (how == PASSED)
                memcpy(file + CODE_AT + size + n + 4, pass, sizeof(pass));
        return CODE + size;
}

/* CFA - rsp before each byte of code that is called, or that the kernel enters; 0 = no row. */
static const int *scan(const char *code, size_t size, How how, size_t named) {
        Elf64_Ehdr header = { .e_ident = { 0x7f, 'E', 'L', 'F', ELFCLASS64, ELFDATA2LSB, EV_CURRENT },
                                    .e_type = ET_EXEC, .e_machine = EM_X86_64, .e_version = EV_CURRENT,
                                    .e_phoff = sizeof(Elf64_Ehdr),
                                    .e_ehsize = sizeof(Elf64_Ehdr), .e_phentsize = sizeof(Elf64_Phdr),
                                    .e_phnum = 1 };
        const Elf64_Phdr segment = { .p_type = PT_LOAD, .p_flags = PF_R | PF_X, .p_vaddr = CODE - CODE_AT,
                                     .p_filesz = SIZE, .p_memsz = SIZE };
        CfiFunction piece;
        Scan *made;

        memset(file, 0xcc, sizeof(file));
        memset(depths, 0, sizeof(depths));
        header.e_entry = how == ENTERED ? CODE : put_entry(size, how, named);
        memcpy(file, &header, sizeof(header));
        memcpy(file + sizeof(header), &segment, sizeof(segment));
        memcpy(file + CODE_AT, code, size);
        cr_assert_eq(scan_new_memory(&made, file, sizeof(file)), 0);
        cr_assert_eq(scan_gap(made, CODE, CODE + size + ENTRY), 0);
        while (scan_next(made, &piece) == 0)
                for (uint32_t i = 0; i < piece.n_rows; i++) {
                        uint64_t end = i + 1 < piece.n_rows ? piece.rows[i + 1].address : piece.end,
                                 rule = piece.rows[i].rule;

                        for (uint64_t at = piece.rows[i].address; at < end; at++)
                                depths[at - CODE] = !rule ? 0
                                        : unwind_rule_cfa(rule) == UNWIND_CFA_END ? TOP
                                                                                  : unwind_rule_offset(rule);
                }
        scan_free(made);
        return depths;
}

#define SCAN(code) scan(code, sizeof(code) - 1, CALLED, 0)
#define SCAN_ENTERED(code) scan(code, sizeof(code) - 1, ENTERED, 0)
#define SCAN_NAMED(code, at) scan(code, sizeof(code) - 1, NAMED, at)
#define SCAN_PASSED(code, at) scan(code, sizeof(code) - 1, PASSED, at)

Test(scan, follows_the_stack) {
        const int *at = SCAN("\x53\x48\x83\xec\x10\x48\x83\xc4\x10\x5b\xc3");

        cr_expect_eq(at[0], 8);
        cr_expect_eq(at[1], 16);
        cr_expect_eq(at[5], 32);
        cr_expect_eq(at[9], 16);
        cr_expect_eq(at[10], 8);
}

/* push %rbx; movabs %rax,0x53c35b0000000053; pop %rbx; ret: as fpc stores variables. */
Test(scan, knows_addresses_of_eight_bytes) {
        const int *at = SCAN("\x53\x48\xa3\x53\x00\x00\x00\x00\x5b\xc3\x53\x5b\xc3");

        cr_expect_eq(at[0], 8);
        for (int i = 1; i < 12; i++)
                cr_expect_eq(at[i], 16, "byte %d", i);
        cr_expect_eq(at[12], 8);
}

Test(scan, refuses_a_return_from_elsewhere) {
        const int *at = SCAN("\x53\xc3");

        cr_expect_eq(at[0], 0);
        cr_expect_eq(at[1], 0);
}

Test(scan, refuses_paths_that_disagree) {
        const int *at = SCAN("\x85\xff\x74\x01\x50\xc3");       /* test; je 1f; push; 1: ret */

        for (int i = 0; i < 6; i++)
                cr_expect_eq(at[i], 0, "byte %d", i);
}

/*
 * As V8's PushAllRegistersAndIterateStack: push %rbp; mov %rsp,%rbp; push %rbx; call *%r8; add $8,%rsp;
 * pop %rbp; ret. That the call returns is not known, so nothing proves the code before it but where it
 * stands.
 */
Test(scan, a_frame_where_described_code_ends_begins_a_function) {
        const int *at = SCAN_NAMED("\x55\x48\x89\xe5\x53\x41\xff\xd0\x48\x83\xc4\x08\x5d\xc3", 0);

        cr_expect_eq(at[0], 8);
        cr_expect_eq(at[1], 16);
        cr_expect_eq(at[5], 24);
        cr_expect_eq(at[7], 24, "where the return address is looked up");
        at = SCAN_NAMED("\xcc\x55\x48\x89\xe5\x53\x41\xff\xd0\x48\x83\xc4\x08\x5d\xc3", 1);
        cr_expect_eq(at[1], 0, "elsewhere it may be a label");
        at = SCAN_NAMED("\x55\x90\x53\x41\xff\xd0\x5b\x5d\xc3", 0);
        cr_expect_eq(at[0], 0, "no frame is made");
}

/* It never returns, so nothing but who loads it proves that it is a function: push %rbx; 1: jmp 1b. */
Test(scan, knows_main_by_what_the_entry_hands_on) {
        const int *at = SCAN_NAMED("\x53\xeb\xfe", 0);

        cr_expect_eq(at[0], 0);
        at = SCAN_PASSED("\x53\xeb\xfe", 0);
        cr_expect_eq(at[0], 8);
        cr_expect_eq(at[1], 16);
}

/*
 * As musl makes threads: lea start(%rip),%rdi; call clone; ret
 * clone: syscall; test %eax,%eax; jne 1f; xor %ebp,%ebp; pop %rdi; call *%r9; hlt; 1: ret
 * start: push %rbx; call *(%rdi); hlt
 */
#define MAKE_THREAD "\x48\x8d\x3d\x14\x00\x00\x00\xe8\x01\x00\x00\x00\xc3"
#define CLONE(clear) "\x0f\x05\x85\xc0\x75\x07" clear "\x5f\x41\xff\xd1\xf4\xc3"
#define START "\x53\xff\x17\xf4"

Test(scan, knows_the_first_function_of_a_thread_by_who_makes_threads) {
        const int *at = SCAN(MAKE_THREAD CLONE("\x31\xed") START);

        cr_expect_eq(at[24], TOP, "where the return address of start is looked up");
        cr_expect_eq(at[26], 8, "the old thread returns");
        cr_expect_eq(at[27], 8);
        cr_expect_eq(at[28], 16);
        cr_expect_eq(at[29], 16, "where the return address of what it calls is looked up");
        at = SCAN(MAKE_THREAD CLONE("\x90\x90") START);       /* no top */
        cr_expect_eq(at[27], 0);
        cr_expect_eq(at[28], 0);
        at = SCAN(MAKE_THREAD "\x85\xc0\x85\xc0\x75\x07\x31\xed\x5f\x41\xff\xd1\xf4\xc3" START);        /* no system call */
        cr_expect_eq(at[27], 0);
        /* the address is loaded after that call: nop …; call clone; lea start(%rip),%rdi; ret */
        at = SCAN("\xe8\x08\x00\x00\x00\x48\x8d\x3d\x0f\x00\x00\x00\xc3" CLONE("\x31\xed") START);
        cr_expect_eq(at[27], 0);
}

/* push %rbx; call f; pop %rbx; ret; f: ret */
Test(scan, goes_on_behind_a_call_that_returns) {
        const int *at = SCAN("\x53\xe8\x02\x00\x00\x00\x5b\xc3\xc3");

        cr_expect_eq(at[1], 16);
        cr_expect_eq(at[6], 16);
        cr_expect_eq(at[7], 8);
        cr_expect_eq(at[8], 8);
}

/* push %rbx; call f; push %rax; call *%rbx; f: ud2 */
Test(scan, believes_nothing_behind_a_call_that_may_not_return) {
        const int *at = SCAN("\x53\xe8\x03\x00\x00\x00\x50\xff\xd3\x0f\x0b");

        cr_expect_eq(at[1], 16);
        cr_expect_eq(at[6], 0);
        cr_expect_eq(at[7], 0);
}

/* push %rbp; lea f(%rip),%rax; pop %rbp; jmp *%rax; int3; f: push %rbx; call *%rdi */
Test(scan, follows_an_address_to_which_it_jumps) {
        const int *at = SCAN("\x55\x48\x8d\x05\x04\x00\x00\x00\x5d\xff\xe0\xcc\x53\xff\xd7");

        cr_expect_eq(at[12], 8);
        cr_expect_eq(at[13], 16);
}

/* push %rbx; mov %rsp,%rbx; and $-64,%rsp; nop; mov %rbx,%rsp; pop %rbx; ret */
Test(scan, follows_a_stack_pointer_that_was_put_by) {
        const int *at = SCAN("\x53\x48\x89\xe3\x48\x83\xe4\xc0\x90\x48\x89\xdc\x5b\xc3");

        cr_expect_eq(at[4], 16);
        cr_expect_eq(at[8], 16, "from rbx");
        cr_expect_eq(at[9], 16);
        cr_expect_eq(at[12], 16);
        cr_expect_eq(at[13], 8);
        at = SCAN("\x53\x48\x89\xe3\x48\x83\xe4\xc0\xb3\x01\x90\x48\x89\xdc\x5b\xc3");      /* … mov $1,%bl */
        cr_expect_eq(at[8], 16);
        cr_expect_eq(at[10], 0, "rbx is something else");
        cr_expect_eq(at[15], 0);
}

/* lea f(%rip),%rax; ret; int3; f: jmp *%rdx */
Test(scan, believes_a_label_that_hands_on_what_it_was_given) {
        const int *at = SCAN("\x48\x8d\x05\x02\x00\x00\x00\xc3\xcc\xff\xe2");

        cr_expect_eq(at[9], 8);
        at = SCAN("\x48\x8d\x05\x02\x00\x00\x00\xc3\xcc\x48\x89\xc2\xff\xe2");   /* f: mov %rax,%rdx; … */
        cr_expect_eq(at[9], 0, "a part of another function may have made that");
}

/* xor %rbp,%rbp; and $-16,%rsp; call f; nop; f: ret */
Test(scan, ends_where_the_kernel_has_begun) {
        const int *at = SCAN_ENTERED("\x48\x31\xed\x48\x83\xe4\xf0\xe8\x01\x00\x00\x00\x90\xc3");

        cr_expect_eq(at[0], TOP, "the number of arguments is no return address");
        cr_expect_eq(at[3], TOP);
        cr_expect_eq(at[7], TOP);
        cr_expect_eq(at[13], 8);
}

/* or $12,%ah is no change of rsp, whose number it has */
Test(scan, knows_registers_of_bytes) {
        const int *at = SCAN("\x53\x80\xcc\x0c\x5b\xc3");

        cr_expect_eq(at[1], 16);
        cr_expect_eq(at[4], 16);
        cr_expect_eq(at[5], 8);
}

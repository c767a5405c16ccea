/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Rows of Go's table by hand: each kind of function, and what a damaged table costs. Real
 * programs: test-go.py.
 *
 *     0x000  header, program headers at 0x40        0x600  .gopclntab
 *     0x400  data: runtime.firstmoduledata          0xc00  section names, section headers
 *     0xe00  code, which lies at 0x10000
 */
#include <criterion/criterion.h>
#include <elf.h>
#include <stdio.h>
#include <string.h>

#include "core/base/elf/go-values.h"
#include "host/runtime/go/go-idle.h"
#include "host/runtime/go/go-list.h"
#include "host/sampling/unwind/go/go-arch.h"
#include "host/sampling/unwind/go/go-rows.h"
#include "host/sampling/unwind/tables/table.h"

enum { SEGMENTS = 0x40, DATA = 0x400, TABLE = 0x600, SECTIONS = 0xc00, IN_FILE = 0xe00, SIZE = 0x1e00 };
enum { NAMES = 0x48, UNITS = 0x148, VALUES = 0x150, FUNCTIONS = 0x200, TABLE_SIZE = 0x600 };
enum { CODE = 0x10000, MAX = 8, RECORDS = FUNCTIONS + 8 * MAX + 8, RECORD = 44 };

static _Alignas(8) char file[SIZE];
static unsigned n, n_names, n_values;

static void put32(unsigned at, uint32_t value) {
        memcpy(file + at, &value, sizeof(value));
}

static void put64(unsigned at, uint64_t value) {
        memcpy(file + at, &value, sizeof(value));
}

static void add(const char *name, uint32_t start, uint8_t flags, const char *stream, const char *code) {
        unsigned record = RECORDS + n * RECORD, values = 1 + n_values, at = TABLE + FUNCTIONS + 8 * n++;

        put32(at, start);
        put32(at + 4, record - FUNCTIONS);
        put32(TABLE + record, start);
        put32(TABLE + record + 4, n_names);
        put32(TABLE + record + 16, stream ? values : 0);
        file[TABLE + record + 41] = (char)flags;
        strcpy(file + TABLE + NAMES + n_names, name);
        n_names += (unsigned)strlen(name) + 1;
        if (stream) {
                strcpy(file + TABLE + VALUES + values, stream);
                n_values += (unsigned)strlen(stream) + 1;
        }
        memcpy(file + IN_FILE + start, code, strlen(code));
        put32(TABLE + FUNCTIONS + 8 * n, start + 0x40);
}

/* Writes what the number of functions decides. */
static void finish(void) {
        static const uint64_t parts[] = { NAMES, UNITS, UNITS, VALUES, FUNCTIONS };
        Elf64_Shdr *sections = (Elf64_Shdr *)(file + SECTIONS + 0x40);
        uint32_t first;

        memcpy(&first, file + TABLE + FUNCTIONS, sizeof(first));
        memcpy(file + TABLE, "\xf1\xff\xff\xff\0\0\1\x8", 8);
        put64(TABLE + 8, n);
        put64(DATA, TABLE);
        for (unsigned i = 0; i < GO_N_PARTS; i++) {
                put64(TABLE + 32 + 8 * i, parts[i]);
                put64(DATA + 8 * (1 + 3 * i), TABLE + parts[i]);
        }
        put64(DATA + 17 * 8, n + 1);
        put64(DATA + 20 * 8, CODE + first);
        put64(DATA + 22 * 8, CODE);
        strcpy(file + SECTIONS + 1, ".gopclntab");
        sections[1] = (Elf64_Shdr){ .sh_name = 1, .sh_type = SHT_PROGBITS, .sh_addr = TABLE,
                                    .sh_offset = TABLE, .sh_size = TABLE_SIZE };
        sections[2] = (Elf64_Shdr){ .sh_type = SHT_STRTAB, .sh_offset = SECTIONS, .sh_size = 0x40 };
}

static void init(void) {
        const Elf64_Ehdr header = { .e_ident = { 0x7f, 'E', 'L', 'F', ELFCLASS64, ELFDATA2LSB, EV_CURRENT },
                                    .e_type = ET_EXEC,
                                    .e_machine = EM_X86_64,
                                    .e_phoff = SEGMENTS,
                                    .e_phnum = 3,
                                    .e_phentsize = sizeof(Elf64_Phdr),
                                    .e_shoff = SECTIONS + 0x40,
                                    .e_shnum = 3,
                                    .e_shentsize = sizeof(Elf64_Shdr),
                                    .e_shstrndx = 2 };
        const Elf64_Phdr segments[] = {
                { .p_type = PT_LOAD, .p_flags = PF_R, .p_filesz = SECTIONS, .p_memsz = SECTIONS },
                { .p_type = PT_LOAD, .p_flags = PF_R | PF_W, .p_vaddr = DATA, .p_offset = DATA,
                  .p_filesz = 0x200, .p_memsz = 0x200 },
                { .p_type = PT_LOAD, .p_flags = PF_R | PF_X, .p_vaddr = CODE, .p_offset = IN_FILE,
                  .p_filesz = 0x1000, .p_memsz = 0x1000 },
        };

        memset(file, 0, sizeof(file));
        n = n_names = n_values = 0;
        memcpy(file, &header, sizeof(header));
        memcpy(file + SEGMENTS, segments, sizeof(segments));
        memset(file + IN_FILE, 0xcc, 0x1000);
}

static Table table;

/* Makes the table; 0 or TABLE_E_*. */
static int make(void) {
        TableBuilder *builder;
        int r;

        finish();
        r = table_builder_new_memory(&builder, file, sizeof(file), &TABLE_LIMITS_DEFAULT);
        if (r)
                return r;
        while ((r = table_builder_step(builder, 100, &table)) == TABLE_E_AGAIN)
                ;
        table_builder_free(builder);
        return r;
}

static void fini(void) {
        table_deinit(&table);
}

static void expect(uint32_t at, uint64_t rule) {
        cr_assert_eq(table_find(&table, CODE + at), rule, "%#x: %#lx", at, table_find(&table, CODE + at));
}

#define ENTRY go_arch_rule(GO_ARCH_ENTRY, 0)
#define SAVED(_size) go_arch_rule(GO_ARCH_SAVED, _size)

TestSuite(go_rows, .init = init, .fini = fini);

Test(go_rows, follow_the_stream_of_sizes) {
        add("main.main", 0, 0, "\x02\x01\x10\x08\x20\x10\x2f\x01", "");
        add("main.next", 0x40, 0, "\x02\x10", "");
        cr_assert_eq(make(), 0);
        expect(0, ENTRY);
        expect(1, SAVED(8));
        expect(8, SAVED(8));
        expect(9, SAVED(24));
        expect(0x18, SAVED(24));
        expect(0x19, ENTRY);
        expect(0x1a, 0);                        /* padding */
        expect(0x3f, 0);
        expect(0x40, ENTRY);
        expect(0x50, 0);
        cr_assert_eq(table.counts.n_entries, 2);
        cr_assert_eq(table.counts.problems[CFI_PROBLEM_GO_SIZES], 0);
}

Test(go_rows, know_the_older_prologue) {
        add("main.main", 0, 0, "\x02\x04\x30\x20", "");         /* sub $24,%rsp; mov %rbp,16(%rsp) */
        cr_assert_eq(make(), 0);
        expect(4, go_arch_rule(GO_ARCH_ENTRY, 24));
        expect(8, go_arch_rule(GO_ARCH_ENTRY, 24));
        expect(9, SAVED(24));
}

Test(go_rows, believe_of_assembly_what_its_code_says) {
        add("a", 0, GO_FLAG_ASSEMBLY, "\x02\x01\x10\x08", "\x55\x48\x89\xe5");
        add("b", 0x40, GO_FLAG_ASSEMBLY, "\x02\x01\x10\x08", "\x53\x48\x89\xe5");
        add("c", 0x80, GO_FLAG_ASSEMBLY, "\x02\x04\x30\x20", "\x48\x83\xec\x18\x48\x89\x6c\x24\x10");
        cr_assert_eq(make(), 0);
        expect(1, SAVED(8));
        expect(0x41, go_arch_rule(GO_ARCH_LOST, 8));
        expect(0x89, SAVED(24));
}

Test(go_rows, end_where_nobody_has_called) {
        add("runtime.goexit", 0, GO_FLAG_TOP, "\x02\x10", "");
        add("runtime.sigtramp", 0x40, GO_FLAG_TOP | GO_FLAG_ASSEMBLY, "\x02\x04\x30\x20", "");
        add("runtime.sigreturn__sigaction", 0x80, GO_FLAG_ASSEMBLY, "\x02\x09",
            "\x48\xc7\xc0\x0f");
        memcpy(file + IN_FILE + 0x80, "\x48\xc7\xc0\x0f\0\0\0\x0f\x05", 9);
        cr_assert_eq(make(), 0);
        expect(0, go_arch_end());
        expect(0x44, go_arch_rule(GO_ARCH_LOST, 24));
        expect(0x7e, 0);
        expect(0x7f, go_arch_signal());
        expect(0x88, go_arch_signal());
}

Test(go_rows, follow_a_change_of_the_stack_where_the_frame_pointer_tells) {
        add("runtime.systemstack", 0, GO_FLAG_SP_WRITE | GO_FLAG_ASSEMBLY, "\x02\x01\x10\x10\x0f\x01",
            "\x55\x48\x89\xe5");
        add("gogo", 0x40, GO_FLAG_SP_WRITE | GO_FLAG_ASSEMBLY, "\x02\x10", "");
        add("runtime.morestack", 0x80, GO_FLAG_SP_WRITE | GO_FLAG_ASSEMBLY, "\x02\x10", "");
        add("runtime.mcall", 0xc0, GO_FLAG_SP_WRITE | GO_FLAG_ASSEMBLY, "\x02\x01\x10\x08\x10\x08",
            "\x55\x48\x89\xe5");
        cr_assert_eq(make(), 0);
        expect(0, ENTRY);
        expect(1, SAVED(8));
        expect(4, go_arch_rule(GO_ARCH_SWITCH, 8));
        expect(0x10, go_arch_rule(GO_ARCH_SWITCH, 8));
        expect(0x11, ENTRY);
        expect(0x48, go_arch_bad());
        expect(0x88, go_arch_goroutine());
        expect(0xc8, go_arch_rule(GO_ARCH_SWITCH, 8));
        expect(0xc9, go_arch_end());
        cr_assert_eq(table.counts.unsupported[CFI_UNSUPPORTED_GO_STACK], 1);
}

Test(go_rows, take_no_call_for_what_a_signal_handler_puts_in) {
        add("runtime.asyncPreempt", 0, GO_FLAG_ASSEMBLY, "\x02\x01\x10\x08", "\x55\x48\x89\xe5");
        add("runtime.sigpanic", 0x40, 0, "\x02\x10", "");
        add("runtime.asyncPreempt2", 0x80, 0, "\x02\x10", "");
        cr_assert_eq(make(), 0);
        expect(0, go_arch_injected(ENTRY));
        expect(1, go_arch_injected(SAVED(8)));
        expect(0x40, go_arch_injected(ENTRY));
        expect(0x80, ENTRY);
        cr_assert_eq(unwind_rule_cfa(go_arch_injected(SAVED(8))), UNWIND_CFA_RSP + UNWIND_CFA_LANDING);
}

Test(go_rows, cost_one_function_where_one_is_damaged) {
        static const char *const streams[] = { "\x02\x41", "\x03\x10", "\x02\x01\xff\xff\xff\xff\xff\x01",
                                               "\x02\x01\xfe\xff\xff\xff\x0f\x10" };

        for (size_t i = 0; i < ARRAY_SIZE(streams); i++) {
                init();
                add("main.bad", 0, 0, streams[i], "");
                add("main.good", 0x40, 0, "\x02\x10", "");
                cr_assert_eq(make(), 0);
                expect(0x48, ENTRY);
                if (i != 2)                     /* there the first range is sound */
                        expect(0, 0);
                table_deinit(&table);
        }
}

Test(go_rows, leave_out_what_lies_elsewhere) {
        add("main.main", 0, 0, "\x02\x10", "");
        add("main.none", 0x40, 0, NULL, "");
        add("main.far", 0x80, 0, "\x02\x10", "");
        put32(TABLE + RECORDS + 2 * RECORD + 16, TABLE_SIZE);
        cr_assert_eq(make(), 0);
        expect(0, ENTRY);
        expect(0x40, 0);
        expect(0x80, 0);
        put32(TABLE + FUNCTIONS + 8 + 4, TABLE_SIZE - FUNCTIONS - RECORD + 1);
        table_deinit(&table);
        cr_assert_eq(make(), 0);
        cr_assert_eq(table.counts.problems[CFI_PROBLEM_GO_SIZES], 1);
        n = 0;
        table_deinit(&table);
        cr_assert_eq(make(), TABLE_E_NO_CFI);
}

Test(go_rows, have_a_cap) {
        TableLimits limits = TABLE_LIMITS_DEFAULT;
        TableBuilder *builder;

        limits.max_functions = 1;
        add("main.main", 0, 0, "\x02\x10", "");
        add("main.next", 0x40, 0, "\x02\x10", "");
        finish();
        cr_assert_eq(table_builder_new_memory(&builder, file, sizeof(file), &limits), 0);
        cr_assert_eq(table_builder_step(builder, UINT64_MAX, &table), 0);
        table_builder_free(builder);
        expect(0, ENTRY);
        expect(0x40, 0);
        cr_assert_eq(table.counts.problems[CFI_PROBLEM_OVER_CAP], 1);
}

/* ---- the list of goroutines, by the code that adds to it ---- */

enum { LIST = DATA + 0x1e0, LENGTH = DATA + 0x1f0 };

/* An instruction of seven bytes at @at of the code that names @address. */
static unsigned name_address(unsigned at, const char *opcode, uint32_t address) {
        memcpy(file + IN_FILE + at, opcode, 3);
        put32(IN_FILE + at + 3, address - (CODE + at + 7));
        return at + 7;
}

static unsigned exchange(unsigned at, const char *code) {
        memcpy(file + IN_FILE + at, code, 3);
        return at + 3;
}

static void add_adder(uint32_t list, uint32_t length) {
        unsigned at;

        init();
        add("main.main", 0, 0, "\x02\x10", "");
        add("runtime.allgadd", 0x40, 0, "\x02\x10", "");
        at = name_address(0x44, "\x48\x39\x1d", list);
        at = exchange(name_address(at, "\x48\x8d\x0d", list), "\x48\x87\x19");
        exchange(name_address(at, "\x48\x8d\x15", length), "\x48\x87\x0a");
        finish();
}

static bool finds(void) {
        const GoInput input = { .fd = -1, .data = file, .size = sizeof(file) };
        uint64_t list = 0, length = 0;
        bool is_found = go_list_find(&input, &list, &length);

        cr_assert_eq(list, is_found ? LIST : 0);
        cr_assert_eq(length, is_found ? LENGTH : 0);
        return is_found;
}

Test(go_list, lies_where_the_code_writes_it) {
        add_adder(LIST, LENGTH);
        cr_assert(finds());
}

Test(go_list, is_none_where_anything_is_other_than_known) {
        static const unsigned changed[] = { 0x46, 0x4d, 0x52, 0x54, 0x57, 0x5c };

        for (size_t i = 0; i < ARRAY_SIZE(changed); i++) {
                add_adder(LIST, LENGTH);
                file[IN_FILE + changed[i]] ^= 0x40;
                cr_expect_not(finds(), "%#x", changed[i]);
        }
        add_adder(LIST + 1, LENGTH);
        cr_expect_not(finds(), "no word lies there");
        add_adder(LIST, LIST);
        cr_expect_not(finds(), "both in one place");
        add_adder(0x10, LENGTH);
        cr_expect_not(finds(), "nothing is written there");
        add_adder(LIST, DATA + 0x1000);
        cr_expect_not(finds(), "outside");
}

/* ---- threads that have nothing to do ---- */

enum { BIAS = 0x550000000000, STOP = 0x40, SLEEP = 0x80, FIND = 0xc0, POLL = 0x100, MAIN = 0x140 };

static GoIdle find_idle(void) {
        const GoInput input = { .fd = -1, .data = file, .size = sizeof(file) };
        GoIdle idle;

        init();
        add("runtime.futex", 0, 0, "\x02\x10", "");
        add("runtime.stopm", STOP, 0, "\x02\x10", "");
        add("runtime.notesleep", SLEEP, 0, "\x02\x10", "");
        add("runtime.findRunnable", FIND, 0, "\x02\x10", "");
        add("runtime.netpoll", POLL, 0, "\x02\x10", "");
        add("main.runtime.stopm", MAIN, 0, "\x02\x10", "");
        finish();
        cr_assert(go_idle_find(&input, &idle));
        return idle;
}

/* A thread in the function @inner that the one at @outer has called. */
static bool is_idle(const GoIdle *idle, bool polls, uint64_t inner, uint64_t outer) {
        const uint64_t words[] = { BIAS + CODE + 4, BIAS + CODE + inner + 9, BIAS + CODE + outer + 0x40 };

        return go_idle_is(idle, BIAS, polls, words, 3);
}

Test(go_idle, a_thread_that_sleeps_until_there_is_work) {
        GoIdle idle = find_idle();
        const uint64_t at_begin[] = { BIAS + CODE + SLEEP, BIAS + CODE + STOP + 1 };

        cr_assert(is_idle(&idle, false, SLEEP, STOP), "the call is its last instruction");
        cr_assert(go_idle_is(&idle, BIAS, false, at_begin, 2));
        cr_assert_not(go_idle_is(&idle, 0, false, at_begin, 2), "another program");
        cr_assert_not(is_idle(&idle, true, SLEEP, STOP));
        cr_assert(is_idle(&idle, true, POLL, FIND));
        cr_assert_not(is_idle(&idle, false, POLL, FIND));
}

Test(go_idle, others_wait_for_something) {
        GoIdle idle = find_idle();

        cr_assert_not(is_idle(&idle, false, MAIN, STOP), "a lock of the runtime");
        cr_assert_not(is_idle(&idle, false, SLEEP, FIND), "no stopm");
        cr_assert_not(is_idle(&idle, false, SLEEP, MAIN), "its name is longer");
        cr_assert_not(is_idle(&idle, true, POLL, MAIN));
        cr_assert_not(go_idle_is(&idle, BIAS, false, NULL, 0));
}

Test(go_idle, a_program_without_such_functions_tells_nothing) {
        const GoInput input = { .fd = -1, .data = file, .size = sizeof(file) };
        GoIdle idle;

        init();
        add("main.main", 0, 0, "\x02\x10", "");
        finish();
        cr_assert_not(go_idle_find(&input, &idle));
        cr_assert_not(is_idle(&idle, false, SLEEP, STOP));
        file[TABLE] = 0;
        cr_assert_not(go_idle_find(&input, &idle), "damaged");
}

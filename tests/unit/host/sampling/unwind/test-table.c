/* SPDX-License-Identifier: Apache-2.0 */

/* Whole files: what the table says of a made program, and what hostile files cost. */

#include <criterion/criterion.h>
#include <stdio.h>
#include <sys/mman.h>
#include <unistd.h>

#include "cfi-maker.h"
#include "core/base/file/file.h"
#include "host/sampling/unwind/cfi/reader.h"
#include "host/sampling/unwind/tables/table.h"

static Bytes frame, debug, elf;
static Table table;

static int finish(TableBuilder *builder, uint64_t budget, unsigned *n_stepsp) {
        int r;

        *n_stepsp = 0;
        do {
                r = table_builder_step(builder, budget, &table);
                (*n_stepsp)++;
        } while (r == TABLE_E_AGAIN);
        table_builder_free(builder);
        return r;
}

static int build_with(const TableLimits *limits, uint64_t budget, unsigned *n_stepsp) {
        TableBuilder *builder;
        int r;

        table_deinit(&table);
        r = table_builder_new_memory(&builder, elf.data, elf.size, limits);
        return r ? r : finish(builder, budget, n_stepsp);
}

static int build(void) {
        unsigned n_steps;

        make_elf(&elf, &frame, ".eh_frame");
        return build_with(&TABLE_LIMITS_DEFAULT, 1 << 20, &n_steps);
}

static void expect_rsp(uint64_t address, int32_t offset) {
        uint64_t rule = table_find(&table, address);

        cr_expect_eq(unwind_rule_cfa(rule), UNWIND_CFA_RSP, "%#lx: kind %u", address, unwind_rule_cfa(rule));
        cr_expect_eq(unwind_rule_offset(rule), offset, "%#lx: %d", address, unwind_rule_offset(rule));
}

static void expect_none(uint64_t address) {
        cr_expect_eq(table_find(&table, address), 0, "%#lx", address);
}

static void setup(void) {
        frame.size = 0;
}

static void teardown(void) {
        table_deinit(&table);
}

TestSuite(table, .init = setup, .fini = teardown);

Test(table, holds_functions_in_any_order) {
        size_t cie = put_cie(&frame);

        put_fde(&frame, cie, MAKER_TEXT + 0x2000, 0x1800, 32);
        put_fde(&frame, cie, MAKER_TEXT + 0x100, 0x40, 16);
        put_fde(&frame, cie, MAKER_TEXT + 0x150, 0x40, 24);
        cr_assert_eq(build(), 0);
        cr_assert_eq(table.text_low, MAKER_TEXT);
        cr_assert_eq(table.text_high, MAKER_TEXT + MAKER_TEXT_SIZE);
        cr_assert_eq(table.counts.n_entries, 3);
        expect_none(MAKER_TEXT - 1);
        expect_none(MAKER_TEXT + 0xff);
        expect_rsp(MAKER_TEXT + 0x100, 16);
        expect_rsp(MAKER_TEXT + 0x13f, 16);
        expect_none(MAKER_TEXT + 0x140);
        expect_rsp(MAKER_TEXT + 0x150, 24);
        expect_none(MAKER_TEXT + 0x190);
        expect_rsp(MAKER_TEXT + 0x2000, 32);
        expect_rsp(MAKER_TEXT + 0x37ff, 32);
        expect_none(MAKER_TEXT + 0x3800);
        expect_none(MAKER_TEXT + MAKER_TEXT_SIZE);
}

/* Rows of .debug_frame are for code of which .eh_frame says nothing, and for no part of what it describes. */
Test(table, takes_from_debug_frame_what_eh_frame_lacks) {
        size_t cie = put_cie(&frame);
        unsigned n_steps;

        put_fde(&frame, cie, MAKER_TEXT + 0x100, 0x100, 16);
        put_fde(&frame, cie, MAKER_TEXT + 0x400, 0x100, 24);
        put_fde(&frame, cie, MAKER_TEXT + 0x700, 0x100, 80);
        debug.size = 0;
        put_debug_cie(&debug);
        put_debug_fde(&debug, MAKER_TEXT, 0x80, 32);
        put_debug_fde(&debug, MAKER_TEXT + 0x100, 0x100, 40);   /* both describe it */
        put_debug_fde(&debug, MAKER_TEXT + 0x180, 0x100, 48);   /* it begins in another */
        put_debug_fde(&debug, MAKER_TEXT + 0x380, 0x100, 56);   /* it ends in another */
        put_debug_fde(&debug, MAKER_TEXT + 0x600, 0x40, 64);
        put_debug_fde(&debug, 0, 0x40, 72);                     /* the linker has dropped it */
        put_debug_fde(&debug, MAKER_TEXT + 0x900, 0x40, 88);
        make_elf_beside(&elf, &frame, &debug);
        cr_assert_eq(build_with(&TABLE_LIMITS_DEFAULT, 1 << 20, &n_steps), 0);
        expect_rsp(MAKER_TEXT, 32);
        expect_none(MAKER_TEXT + 0x80);
        expect_rsp(MAKER_TEXT + 0x100, 16);
        expect_rsp(MAKER_TEXT + 0x1ff, 16);
        expect_none(MAKER_TEXT + 0x200);
        expect_rsp(MAKER_TEXT + 0x380, 56);
        expect_rsp(MAKER_TEXT + 0x3ff, 56);
        expect_rsp(MAKER_TEXT + 0x400, 24);
        expect_rsp(MAKER_TEXT + 0x4ff, 24);
        expect_none(MAKER_TEXT + 0x500);
        expect_rsp(MAKER_TEXT + 0x63f, 64);
        expect_rsp(MAKER_TEXT + 0x700, 80);
        expect_rsp(MAKER_TEXT + 0x900, 88);
        expect_none(MAKER_TEXT + 0x940);
        cr_expect_eq(table.counts.n_entries, 9);
        cr_expect_eq(table.counts.problems[CFI_PROBLEM_RANGE], 0);
        cr_expect_eq(build_with(&TABLE_LIMITS_DEFAULT, 200, &n_steps), 0, "the same in small steps");
        expect_rsp(MAKER_TEXT + 0x3ff, 56);
        expect_rsp(MAKER_TEXT + 0x900, 88);
}

/* Dropped functions begin at 0, which is a part of this text: they would reach into code that has no rows. */
Test(table, takes_from_debug_frame_no_function_that_was_dropped) {
        size_t cie = put_cie(&frame);
        Elf64_Phdr text;
        unsigned n_steps;

        put_fde(&frame, cie, MAKER_TEXT + 0x100, 0x100, 16);
        debug.size = 0;
        put_debug_cie(&debug);
        put_debug_fde(&debug, 0, MAKER_TEXT + 0x80, 72);
        put_debug_fde(&debug, MAKER_TEXT + 0x400, 0x40, 88);
        make_elf_beside(&elf, &frame, &debug);
        memcpy(&text, elf.data + sizeof(Elf64_Ehdr), sizeof(text));
        text.p_vaddr = 0;
        text.p_memsz = MAKER_TEXT + MAKER_TEXT_SIZE;
        memcpy(elf.data + sizeof(Elf64_Ehdr), &text, sizeof(text));
        cr_assert_eq(build_with(&TABLE_LIMITS_DEFAULT, 1 << 20, &n_steps), 0);
        cr_expect_eq(table.text_low, 0);
        expect_none(0);
        expect_none(MAKER_TEXT);
        expect_rsp(MAKER_TEXT + 0x100, 16);
        expect_rsp(MAKER_TEXT + 0x400, 88);
        cr_expect_eq(table.counts.problems[CFI_PROBLEM_RANGE], 0);
}

Test(table, does_not_mark_padding_between_functions) {
        size_t cie = put_cie(&frame);

        put_fde(&frame, cie, MAKER_TEXT, 0x31, 16);
        put_fde(&frame, cie, MAKER_TEXT + 0x40, 0x30, 24);
        put_fde(&frame, cie, MAKER_TEXT + 0x80, 0x30, 24);
        cr_assert_eq(build(), 0);
        expect_rsp(MAKER_TEXT + 0x3f, 16);
        expect_rsp(MAKER_TEXT + 0x40, 24);
        expect_none(MAKER_TEXT + 0x70);
        expect_rsp(MAKER_TEXT + 0x80, 24);
}

Test(table, loses_one_function_to_one_bad_entry) {
        size_t cie = put_cie(&frame), at;

        put_fde(&frame, cie, MAKER_TEXT, 0x100, 16);
        at = begin_fde(&frame, cie, MAKER_TEXT + 0x100, 0x100);
        PUT_CODE(&frame, 0x41, 0x0e, 24, 0x3f);
        end_entry(&frame, at);
        put_fde(&frame, cie, MAKER_TEXT + 0x200, 0x100, 32);
        put_fde(&frame, cie + 1, MAKER_TEXT + 0x300, 0x100, 40);
        put_fde(&frame, cie, MAKER_FRAME, 0x100, 40);
        put_fde(&frame, cie, MAKER_TEXT + 0x400, 0x100, 48);
        cr_assert_eq(build(), 0);
        expect_rsp(MAKER_TEXT + 0xff, 16);
        expect_none(MAKER_TEXT + 0x100);
        expect_none(MAKER_TEXT + 0x180);
        expect_rsp(MAKER_TEXT + 0x200, 32);
        expect_none(MAKER_TEXT + 0x300);
        expect_rsp(MAKER_TEXT + 0x400, 48);
        cr_expect_eq(table.counts.n_entries, 6);
        cr_expect_eq(table.counts.problems[CFI_PROBLEM_OPCODE], 1);
        cr_expect_eq(table.counts.problems[CFI_PROBLEM_CIE], 1);
        cr_expect_eq(table.counts.problems[CFI_PROBLEM_RANGE], 1);
}

Test(table, cuts_a_function_where_the_next_one_begins) {
        size_t cie = put_cie(&frame);

        put_fde(&frame, cie, MAKER_TEXT, MAKER_TEXT_SIZE, 16);
        put_fde(&frame, cie, MAKER_TEXT + 0x100, 0x100, 24);
        put_fde(&frame, cie, MAKER_TEXT + 0x100, 0x100, 32);
        put_fde(&frame, cie, MAKER_TEXT + 0x180, 0x100, 40);
        cr_assert_eq(build(), 0);
        expect_rsp(MAKER_TEXT + 0xff, 16);
        expect_rsp(MAKER_TEXT + 0x100, 32);
        expect_rsp(MAKER_TEXT + 0x17f, 32);
        expect_rsp(MAKER_TEXT + 0x180, 40);
        expect_none(MAKER_TEXT + 0x280);
        cr_expect_eq(table.counts.n_overlaps, 3);
}

Test(table, ends_where_an_entry_leads_out_of_the_section) {
        size_t cie = put_cie(&frame);

        put_fde(&frame, cie, MAKER_TEXT, 0x100, 16);
        put_u32(&frame, 0x7fffffff);
        put_u64(&frame, 1);
        cr_assert_eq(build(), 0);
        expect_rsp(MAKER_TEXT, 16);
        cr_expect_eq(table.counts.problems[CFI_PROBLEM_LENGTH], 1);
}

Test(table, is_built_in_steps_of_the_budget) {
        unsigned n_steps;
        Table whole;
        size_t cie = put_cie(&frame);

        /* Backwards, so that the sort is sliced as well. */
        for (int i = 999; i >= 0; i--)
                put_fde(&frame, cie, MAKER_TEXT + 0x40 * (uint64_t)i, 0x40, (uint8_t)(8 + 8 * (i % 9)));
        cr_assert_eq(build(), 0);
        whole = table;
        table = (Table){ 0 };
        cr_assert_eq(build_with(&TABLE_LIMITS_DEFAULT, 200, &n_steps), 0);
        cr_assert_geq(n_steps, 500, "%u", n_steps);
        cr_assert_eq(table.size, whole.size);
        cr_assert_arr_eq(table.data, whole.data, whole.size);
        table_deinit(&whole);
}

Test(table, has_a_cap_of_functions_and_of_bytes) {
        TableLimits few = { .max_functions = 10, .max_bytes = 1 << 20 };
        TableLimits small = { .max_functions = 1000, .max_bytes = UNWIND_BLOCK_SIZE };
        unsigned n_steps;
        size_t cie = put_cie(&frame);

        for (uint64_t i = 0; i < 30; i++)
                put_fde(&frame, cie, MAKER_TEXT + 0x40 * i, 0x40, (uint8_t)(8 + 8 * (i % 9)));
        make_elf(&elf, &frame, ".eh_frame");
        cr_assert_eq(build_with(&few, 1 << 20, &n_steps), 0);
        cr_expect_eq(table.counts.problems[CFI_PROBLEM_OVER_CAP], 20);
        expect_rsp(MAKER_TEXT + 9 * 0x40, 8);
        expect_none(MAKER_TEXT + 10 * 0x40);
        cr_assert_eq(build_with(&small, 1 << 20, &n_steps), TABLE_E_TOO_LARGE);
}

Test(table, refuses_what_is_no_program) {
        Elf64_Ehdr *ehdr = (Elf64_Ehdr *)elf.data;
        Elf64_Phdr *phdr = (Elf64_Phdr *)(elf.data + sizeof(*ehdr));
        TableBuilder *builder;

        put_cie(&frame);
        cr_assert_eq(table_builder_new_memory(&builder, "", 0, &TABLE_LIMITS_DEFAULT), TABLE_E_NOT_ELF);
        make_elf(&elf, &frame, ".eh_frame");
        ehdr->e_machine = EM_AARCH64;
        cr_assert_eq(table_builder_new_memory(&builder, elf.data, elf.size, &TABLE_LIMITS_DEFAULT),
                     TABLE_E_NOT_ELF);
        make_elf(&elf, &frame, ".eh_frame");
        ehdr->e_phoff = UINT64_MAX - 8;
        cr_assert_eq(table_builder_new_memory(&builder, elf.data, elf.size, &TABLE_LIMITS_DEFAULT),
                     TABLE_E_NOT_ELF);
        make_elf(&elf, &frame, ".eh_frame");
        phdr->p_flags = PF_R;
        cr_assert_eq(table_builder_new_memory(&builder, elf.data, elf.size, &TABLE_LIMITS_DEFAULT),
                     TABLE_E_NO_TEXT);
        phdr->p_flags = PF_X;
        phdr->p_memsz = UINT64_C(5) << 30;
        cr_assert_eq(table_builder_new_memory(&builder, elf.data, elf.size, &TABLE_LIMITS_DEFAULT),
                     TABLE_E_NO_TEXT);
        phdr->p_memsz = UINT64_MAX;
        cr_assert_eq(table_builder_new_memory(&builder, elf.data, elf.size, &TABLE_LIMITS_DEFAULT),
                     TABLE_E_NO_TEXT);
        make_elf(&elf, &frame, ".eh_other");
        cr_assert_eq(table_builder_new_memory(&builder, elf.data, elf.size, &TABLE_LIMITS_DEFAULT),
                     TABLE_E_NO_CFI);
        make_elf(&elf, &frame, ".eh_frame");
        ehdr->e_shoff = INT64_MAX;
        cr_assert_eq(table_builder_new_memory(&builder, elf.data, elf.size, &TABLE_LIMITS_DEFAULT),
                     TABLE_E_NO_CFI);
        make_elf(&elf, &frame, ".eh_frame");
        ehdr->e_shstrndx = 77;
        cr_assert_eq(table_builder_new_memory(&builder, elf.data, elf.size, &TABLE_LIMITS_DEFAULT),
                     TABLE_E_NO_CFI);
}

/* .eh_frame_hdr behind .eh_frame, with a table of @n pairs (start, place of the FDE). */
static void put_hdr(const uint64_t (*pairs)[2], uint32_t n) {
        Elf64_Ehdr *ehdr = (Elf64_Ehdr *)elf.data;
        Elf64_Phdr *phdr = (Elf64_Phdr *)(elf.data + sizeof(*ehdr));
        uint64_t at = MAKER_FRAME + frame.size;

        PUT_CODE(&frame, 1, 0x1b, 0x03, 0x3b);
        put_u32(&frame, (uint32_t)(MAKER_FRAME - (at + 4)));
        put_u32(&frame, n);
        for (uint32_t i = 0; i < n; i++) {
                put_u32(&frame, (uint32_t)(pairs[i][0] - at));
                put_u32(&frame, (uint32_t)(MAKER_FRAME + pairs[i][1] - at));
        }
        make_elf(&elf, &frame, ".eh_frame");
        phdr[0].p_filesz = 0;
        phdr[2] = (Elf64_Phdr){ .p_type = PT_GNU_EH_FRAME, .p_vaddr = at };
        ehdr->e_phnum = 3;
        ehdr->e_shnum = 0;
}

Test(table, follows_the_linkers_table) {
        size_t cie = put_cie(&frame);
        uint64_t pairs[2][2] = { { MAKER_TEXT }, { MAKER_TEXT + 0x1000 } };
        unsigned n_steps;

        pairs[1][1] = put_fde(&frame, cie, MAKER_TEXT + 0x1000, 0x100, 24);
        pairs[0][1] = put_fde(&frame, cie, MAKER_TEXT, 0x100, 16);
        put_u32(&frame, 0);
        put_hdr(pairs, 2);
        cr_assert_eq(build_with(&TABLE_LIMITS_DEFAULT, 1 << 20, &n_steps), 0);
        expect_rsp(MAKER_TEXT, 16);
        expect_rsp(MAKER_TEXT + 0x1000, 24);
        cr_expect_eq(table.counts.n_entries, 2);
}

Test(table, reads_the_section_when_the_linkers_table_is_not_sorted) {
        size_t cie = put_cie(&frame);
        uint64_t pairs[2][2] = { { MAKER_TEXT + 0x1000 }, { MAKER_TEXT } };
        unsigned n_steps;

        pairs[0][1] = put_fde(&frame, cie, MAKER_TEXT + 0x1000, 0x100, 24);
        pairs[1][1] = put_fde(&frame, cie, MAKER_TEXT, 0x100, 16);
        put_fde(&frame, cie, MAKER_TEXT + 0x2000, 0x100, 32);
        put_u32(&frame, 0);
        put_hdr(pairs, 2);
        cr_assert_eq(build_with(&TABLE_LIMITS_DEFAULT, 1 << 20, &n_steps), 0);
        expect_rsp(MAKER_TEXT, 16);
        expect_rsp(MAKER_TEXT + 0x1000, 24);
        expect_rsp(MAKER_TEXT + 0x2000, 32);
}

Test(table, loses_pairs_that_name_no_function_or_another) {
        size_t cie = put_cie(&frame);
        uint64_t pairs[4][2] = { { MAKER_TEXT, cie },
                                 { MAKER_TEXT + 0x100, 0 },
                                 { MAKER_TEXT + 0x200, 1 << 20 },
                                 { MAKER_TEXT + 0x300, 0 } };
        unsigned n_steps;

        pairs[1][1] = put_fde(&frame, cie, MAKER_TEXT + 0x180, 0x20, 16);
        pairs[3][1] = put_fde(&frame, cie, MAKER_TEXT + 0x300, 0x20, 24);
        put_u32(&frame, 0);
        put_hdr(pairs, 4);
        cr_assert_eq(build_with(&TABLE_LIMITS_DEFAULT, 1 << 20, &n_steps), 0);
        cr_expect_eq(table.counts.problems[CFI_PROBLEM_MISMATCH], 3);
        expect_none(MAKER_TEXT + 0x180);
        expect_rsp(MAKER_TEXT + 0x300, 24);
}

static int build_fd(int fd, uint64_t budget, unsigned *n_stepsp) {
        TableBuilder *builder;
        int r = table_builder_new(&builder, fd, &TABLE_LIMITS_DEFAULT);

        table_deinit(&table);
        return r ? r : finish(builder, budget, n_stepsp);
}

static int make_file(void) {
        int fd = memfd_create("elf", MFD_CLOEXEC);

        cr_assert_geq(fd, 0);
        cr_assert_eq(file_write(fd, elf.data, elf.size), 0);
        return fd;
}

Test(table, is_the_same_from_a_file) {
        unsigned n_steps;
        Table from_memory;
        size_t cie = put_cie(&frame);
        int fd;

        for (uint64_t i = 0; i < 2000; i++)
                put_fde(&frame, cie, MAKER_TEXT + 0x20 * i, 0x20, (uint8_t)(8 + 8 * (i % 7)));
        cr_assert_eq(build(), 0);
        from_memory = table;
        table = (Table){ 0 };
        fd = make_file();
        cr_assert_eq(build_fd(fd, 1 << 20, &n_steps), 0);
        cr_assert_eq(table.size, from_memory.size);
        cr_assert_arr_eq(table.data, from_memory.data, table.size);
        table_deinit(&from_memory);
        close(fd);
}

Test(table, survives_a_file_that_shrinks_while_it_is_read) {
        unsigned n_steps = 0;
        TableBuilder *builder;
        size_t cie = put_cie(&frame);
        int fd, r;

        for (uint64_t i = 0; i < 3000; i++)
                put_fde(&frame, cie, MAKER_TEXT + 0x20 * i, 0x20, (uint8_t)(8 + 8 * (i % 7)));
        make_elf(&elf, &frame, ".eh_frame");
        fd = make_file();
        cr_assert_eq(table_builder_new(&builder, fd, &TABLE_LIMITS_DEFAULT), 0);
        while ((r = table_builder_step(builder, 2000, &table)) == TABLE_E_AGAIN)
                if (++n_steps == 60)
                        cr_assert_eq(ftruncate(fd, 0x1800), 0);
        cr_assert_eq(r, 0);
        cr_assert_gt(n_steps, 60, "the file was read before it shrank");
        expect_rsp(MAKER_TEXT, 8);
        expect_none(MAKER_TEXT + 0x20 * 2999);
        table_builder_free(builder);
        close(fd);
}

/*
 * 4 GiB of zeros, of which the headers say that all is .eh_frame: the terminator is the first thing that is
 * read.
 */
Test(table, costs_nothing_for_a_sparse_file) {
        Elf64_Ehdr *ehdr = (Elf64_Ehdr *)elf.data;
        Elf64_Shdr *section = (Elf64_Shdr *)(elf.data + sizeof(*ehdr) + 2 * sizeof(Elf64_Phdr));
        unsigned n_steps;
        int fd;

        put_u32(&frame, 0);
        make_elf(&elf, &frame, ".eh_frame");
        section[2].sh_size = UINT64_C(4) << 30;
        fd = make_file();
        cr_assert_eq(ftruncate(fd, INT64_C(5) << 30), 0);
        cr_assert_eq(build_fd(fd, 100000, &n_steps), 0);
        cr_assert_eq(n_steps, 1);
        cr_assert_eq(table.n_rows, 0);
        close(fd);
}

/* The worst that a sparse section can be made to do: entries of 4 GiB less a bit are refused, not read. */
Test(table, does_not_read_an_entry_as_large_as_the_file) {
        Elf64_Ehdr *ehdr = (Elf64_Ehdr *)elf.data;
        Elf64_Shdr *section = (Elf64_Shdr *)(elf.data + sizeof(*ehdr) + 2 * sizeof(Elf64_Phdr));
        unsigned n_steps;
        int fd;

        put_u32(&frame, 0xffffff00U - 4);
        put_u32(&frame, 4);
        make_elf(&elf, &frame, ".eh_frame");
        section[2].sh_size = UINT64_C(4) << 30;
        fd = make_file();
        cr_assert_eq(ftruncate(fd, INT64_C(5) << 30), 0);
        cr_assert_eq(build_fd(fd, 100000, &n_steps), 0);
        cr_assert_eq(table.counts.problems[CFI_PROBLEM_CIE], 1);
        close(fd);
}

/*
 * 1.2 million functions in 38 MiB: those over the cap are counted, and no step works for much longer than its
 * budget.
 */
Test(table, ends_with_the_cap_of_a_file_with_millions_of_functions) {
        enum { N = 1200000, SIZE = 32, BUDGET = 256 << 10 };
        Elf64_Ehdr *ehdr = (Elf64_Ehdr *)elf.data;
        Elf64_Phdr *segment = (Elf64_Phdr *)(elf.data + sizeof(*ehdr)) + 1;
        Elf64_Shdr *section = (Elf64_Shdr *)(elf.data + sizeof(*ehdr) + 2 * sizeof(Elf64_Phdr));
        size_t cie = put_cie(&frame), size;
        unsigned n_steps;
        FILE *file;
        int fd;

        make_elf(&elf, &frame, ".eh_frame");
        size = frame.size + (size_t)N * SIZE;
        segment->p_filesz = segment->p_memsz = section[2].sh_size = size;
        fd = make_file();
        file = fdopen(dup(fd), "w");
        cr_assert(file);
        cr_assert_eq(fseek(file, (long)elf.size, SEEK_SET), 0);
        for (uint32_t i = 0; i < N; i++) {
                uint8_t entry[SIZE] = { SIZE - 4 };
                uint32_t back = (uint32_t)(frame.size + (size_t)i * SIZE + 4 - cie);
                uint64_t start = MAKER_TEXT + i % MAKER_TEXT_SIZE, length = 1;

                memcpy(entry + 4, &back, 4);
                memcpy(entry + 8, &start, 8);
                memcpy(entry + 16, &length, 8);
                cr_assert_eq(fwrite(entry, SIZE, 1, file), 1);
        }
        cr_assert_eq(fclose(file), 0);
        cr_assert_eq(build_fd(fd, BUDGET, &n_steps), 0);
        cr_expect_eq(table.counts.problems[CFI_PROBLEM_OVER_CAP], N - TABLE_LIMITS_DEFAULT.max_functions);
        cr_expect_eq(table.counts.n_overlaps, TABLE_LIMITS_DEFAULT.max_functions - MAKER_TEXT_SIZE);
        cr_expect_gt(n_steps, (unsigned)(N * SIZE / BUDGET / 8), "it was read in %u steps", n_steps);
        cr_expect_lt(table.size, 1 << 20);
        expect_rsp(MAKER_TEXT, 8);
        close(fd);
}

Test(table, reads_in_windows_that_grow_with_sequence_and_shrink_with_jumps) {
        int fd = memfd_create("window", MFD_CLOEXEC);
        Reader reader;

        cr_assert_eq(ftruncate(fd, 64 << 20), 0);
        cr_assert_eq(reader_init_file(&reader, fd), 0);
        for (uint64_t i = 0; i < 1 << 20; i += 64)
                cr_assert_not_null(reader_bytes(&reader, i, 64));
        cr_expect_leq(reader.n_reads, 22, "%lu", reader.n_reads);
        for (uint64_t i = 0; i < 10; i++) {
                cr_assert_not_null(reader_bytes(&reader, (i % 2 ? 10 << 20 : 40 << 20), 64));
                cr_expect_eq(reader.size, READER_WINDOW_MIN);
        }
        cr_assert_null(reader_bytes(&reader, 64 << 20, 1));
        cr_assert_null(reader_bytes(&reader, (64 << 20) - 4, 8));
        cr_assert_null(reader_bytes(&reader, UINT64_MAX, 8));
        cr_assert_null(reader_bytes(&reader, 0, READER_WINDOW_MAX + 1));
        reader_deinit(&reader);
        close(fd);
}

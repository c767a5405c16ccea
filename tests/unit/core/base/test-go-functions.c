/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Tables of Go by hand, in ELF files by hand: what is found, and what is refused. Real programs: test-go.py.
 *
 *     0x000  header, 0x40 program headers           0x800  .gopclntab: names at 0x48, functions at 0xc0
 *     0x200  dynamic section                        0xa00  data: runtime.firstmoduledata at 0xa40
 *     0x300  relocations                            0xc00  section names, section headers
 *     code: 0x10000–0x11000, not in the file; all else lies where its offset says
 */
#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>

#include "core/base/elf/go-functions.h"
#include "core/symbol/function/symbols.h"
#include "symbol-table.h"

enum {
        SEGMENTS = 0x40,
        DYNAMIC = 0x200,
        RELA = 0x300,
        TABLE = 0x800,
        DATA = 0xa00,
        MODULE = 0xa40,
        SECTIONS = 0xc00,
        SIZE = 0xe00
};
enum { NAMES = 0x48, UNITS = 0x80, FILES = 0x88, VALUES = 0x90, FUNCTIONS = 0xc0, N = 3, TABLE_SIZE = 0x120 };
enum { CODE = 0x10000, CODE_SIZE = 0x1000, TEXT = 0x10100 };

static _Alignas(8) char file[SIZE];

static void put32(unsigned at, uint32_t value) {
        memcpy(file + at, &value, sizeof(value));
}

static void put64(unsigned at, uint64_t value) {
        memcpy(file + at, &value, sizeof(value));
}

static void make_table(void) {
        static const char names[] = "main.main\0main.(*T).f\0runtime.goexit";
        static const uint32_t name_at[N] = { 0, 10, 22 }, start[N + 1] = { 0, 0x40, 0x80, 0xa0 };
        static const uint64_t header[8] = { N, 1, 0, NAMES, UNITS, FILES, VALUES, FUNCTIONS };

        memcpy(file + TABLE, "\xf1\xff\xff\xff\0\0\1\x8", 8);
        memcpy(file + TABLE + 8, header, sizeof(header));
        memcpy(file + TABLE + NAMES, names, sizeof(names));
        for (unsigned i = 0; i <= N; i++)
                put32(TABLE + FUNCTIONS + i * 8, start[i]);
        for (unsigned i = 0; i < N; i++) {
                put32(TABLE + FUNCTIONS + i * 8 + 4, 0x20 + i * 8);
                put32(TABLE + FUNCTIONS + 0x20 + i * 8, start[i]);
                put32(TABLE + FUNCTIONS + 0x24 + i * 8, name_at[i]);
        }
}

static void each_module_word(void (*put)(unsigned word, uint64_t value)) {
        static const uint32_t parts[GO_N_PARTS] = { NAMES, UNITS, FILES, VALUES, FUNCTIONS };

        put(0, TABLE);
        for (unsigned i = 0; i < GO_N_PARTS; i++)
                put(1 + 3 * i, TABLE + parts[i]);
        put(20, TEXT);
        put(22, TEXT);
        put64(MODULE + 17 * 8, N + 1);          /* no address */
}

static void put_word(unsigned word, uint64_t value) {
        put64(MODULE + word * 8, value);
}

static unsigned n_relocations;

static void put_relocation(unsigned word, uint64_t value) {
        const Elf64_Rela rela = { .r_offset = MODULE + word * 8,
                                  .r_info = R_X86_64_RELATIVE,
                                  .r_addend = (int64_t)value };

        put_word(word, 0);
        memcpy(file + RELA + n_relocations++ * sizeof(rela), &rela, sizeof(rela));
}

static void make_sections(const char *name) {
        Elf64_Shdr *sections = (Elf64_Shdr *)(file + SECTIONS + 0x40);

        snprintf(file + SECTIONS + 1, 0x3f, "%s", name);
        sections[1] = (Elf64_Shdr){ .sh_name = 1,
                                    .sh_type = SHT_PROGBITS,
                                    .sh_addr = TABLE,
                                    .sh_offset = TABLE,
                                    .sh_size = TABLE_SIZE };
        sections[2] = (Elf64_Shdr){ .sh_type = SHT_STRTAB, .sh_offset = SECTIONS, .sh_size = 0x40 };
}

static void init(void) {
        const Elf64_Ehdr header = { .e_ident = { 0x7f, 'E', 'L', 'F', ELFCLASS64, ELFDATA2LSB, EV_CURRENT },
                                    .e_type = ET_DYN,
                                    .e_phoff = SEGMENTS,
                                    .e_phnum = 4,
                                    .e_phentsize = sizeof(Elf64_Phdr),
                                    .e_shoff = SECTIONS + 0x40,
                                    .e_shnum = 3,
                                    .e_shentsize = sizeof(Elf64_Shdr),
                                    .e_shstrndx = 2 };
        const Elf64_Phdr segments[] = {
                { .p_type = PT_LOAD, .p_flags = PF_R, .p_filesz = DATA, .p_memsz = DATA },
                { .p_type = PT_LOAD,
                  .p_flags = PF_R | PF_W,
                  .p_vaddr = DATA,
                  .p_offset = DATA,
                  .p_filesz = 0x200,
                  .p_memsz = 0x200 },
                { .p_type = PT_LOAD, .p_flags = PF_R | PF_X, .p_vaddr = CODE, .p_memsz = CODE_SIZE },
                { .p_type = PT_DYNAMIC,
                  .p_vaddr = DYNAMIC,
                  .p_offset = DYNAMIC,
                  .p_filesz = 3 * sizeof(Elf64_Dyn) },
        };

        memset(file, 0, sizeof(file));
        n_relocations = 0;
        memcpy(file, &header, sizeof(header));
        memcpy(file + SEGMENTS, segments, sizeof(segments));
        make_table();
        each_module_word(put_word);
        make_sections(".gopclntab");
}

static uint64_t max_bytes = 1 << 20;

static int read_file(GoFunctions *functions, uint32_t n_known) {
        ElfImage image;
        int r;

        cr_assert_eq(elf_image_init_memory(&image, (const uint8_t *)file, sizeof(file)), 0);
        r = go_functions_init(functions, &image, n_known, max_bytes, false);
        elf_image_deinit(&image);
        return r;
}

static int outcome(void) {
        GoFunctions functions = { 0 };
        int r = read_file(&functions, 0);

        go_functions_deinit(&functions);
        return r;
}

static void expect_all(void) {
        static const char *const names[N] = { "main.main", "main.(*T).f", "runtime.goexit" };
        static const uint32_t sizes[N] = { 0x40, 0x40, 0x20 };
        GoFunctions functions;
        GoFunction function;

        cr_assert_eq(read_file(&functions, 0), 0);
        cr_assert_eq(functions.text, TEXT, "%#lx", functions.text);
        cr_assert_eq(functions.table.n, N);
        for (uint32_t i = 0; i < N; i++) {
                cr_assert(go_table_function(&functions.table, i, &function));
                cr_assert_eq(function.n_name, strlen(names[i]));
                cr_assert_eq(memcmp(function.name, names[i], function.n_name), 0);
                cr_assert_eq(function.start, i * 0x40);
                cr_assert_eq(function.size, sizes[i]);
        }
        go_functions_deinit(&functions);
}

/* What a function of the list is called; "" = it has no name. */
static const char *name_of(uint32_t index) {
        static char name[SYMBOL_MAX_NAME + 1];
        GoFunctions functions;
        GoFunction function = { 0 };

        cr_assert_eq(read_file(&functions, 0), 0);
        cr_assert_eq(go_table_function(&functions.table, index, &function), function.name != NULL);
        snprintf(name, sizeof(name), "%.*s", function.n_name, function.name ?: "");
        go_functions_deinit(&functions);
        return name;
}

TestSuite(go_functions, .init = init);

Test(go_functions, reads_every_place_where_a_linker_puts_the_table) {
        expect_all();
        make_sections(".data.rel.ro.gopclntab");
        expect_all();
        file[TABLE] = (char)GO_TABLE_MAGIC_118;
        expect_all();
        make_sections(".go.buildinfo");         /* the table is in there with other data */
        expect_all();
}

Test(go_functions, reads_addresses_that_are_relocations) {
        const Elf64_Dyn dynamic[] = { { .d_tag = DT_RELA, .d_un.d_ptr = RELA },
                                      { .d_tag = DT_RELASZ, .d_un.d_val = 9 * sizeof(Elf64_Rela) } };

        put_relocation(100, TABLE);             /* somebody else's pointer to the table */
        each_module_word(put_relocation);
        cr_assert_eq(n_relocations, 9);
        cr_assert_eq(outcome(), GO_FUNCTIONS_E_REFUSED, "nobody says where they are");
        memcpy(file + DYNAMIC, dynamic, sizeof(dynamic));
        expect_all();
        put64(DYNAMIC + 24, UINT64_MAX);
        cr_assert_eq(outcome(), GO_FUNCTIONS_E_REFUSED, "more than the file has");
        put64(DYNAMIC + 24, 8 * sizeof(Elf64_Rela));
        cr_assert_eq(outcome(), GO_FUNCTIONS_E_REFUSED, "the last one is missing");
}

Test(go_functions, believes_the_header_where_nothing_else_is_known) {
        put_word(0, 0);
        cr_assert_eq(outcome(), GO_FUNCTIONS_E_REFUSED);
        put64(TABLE + 24, TEXT);
        expect_all();
        put64(TABLE + 24, CODE + CODE_SIZE - 0x9f);
        cr_assert_eq(outcome(), GO_FUNCTIONS_E_REFUSED, "the last function is no code");
        put64(TABLE + 24, UINT64_MAX - 0x10);
        cr_assert_eq(outcome(), GO_FUNCTIONS_E_REFUSED);
}

Test(go_functions, holds_each_word_of_the_module_against_the_table) {
        static const unsigned words[] = { 0, 1, 4, 7, 10, 13, 17, 20, 22 };

        for (size_t i = 0; i < ARRAY_SIZE(words); i++) {
                init();
                file[MODULE + words[i] * 8]++;
                cr_assert_eq(outcome(), GO_FUNCTIONS_E_REFUSED, "%u", words[i]);
        }
        init();
        put_word(20, DATA);
        put_word(22, DATA);
        cr_assert_eq(outcome(), GO_FUNCTIONS_E_REFUSED, "its code is data");
}

/* It is seen by other means that there should be one. */
Test(go_functions, refuses_what_is_no_table) {
        static const struct {
                unsigned at;
                uint64_t value;
        } lies[] = {
                { 0, UINT64_C(0x08010000fffffffa) },
                { 0, UINT64_C(0x08010000fffffff2) },
                { 0, UINT64_C(0x08020000fffffff1) },
                { 0, UINT64_C(0x08000000fffffff1) },
                { 0, UINT64_C(0x04010000fffffff1) },
                { 0, UINT64_C(0x08010100fffffff1) },
                { 8, 0 },
                { 8, 13 },
                { 8, UINT32_MAX },
                { 8, UINT64_C(1) << 32 | N },
                { 8, UINT64_MAX },
                { 32, 0 },
                { 32, NAMES - 1 },
                { 32, UNITS + 1 },
                { 40, UINT64_MAX },
                { 48, VALUES + 1 },
                { 56, FUNCTIONS + 1 },
                { 64, TABLE_SIZE },
                { 64, TABLE_SIZE + 1 },
                { 64, UINT64_MAX },
        };

        for (size_t i = 0; i < ARRAY_SIZE(lies); i++) {
                init();
                put64(TABLE + lies[i].at, lies[i].value);
                cr_assert_eq(outcome(), GO_FUNCTIONS_E_REFUSED, "%zu", i);
                make_sections(".go.buildinfo");
                cr_assert_eq(outcome(), GO_FUNCTIONS_E_REFUSED, "%zu, looked for", i);
        }
}

Test(go_functions, refuses_a_section_that_is_not_in_the_file) {
        Elf64_Shdr *section = (Elf64_Shdr *)(file + SECTIONS + 0x40) + 1;

        section->sh_size = GO_TABLE_HEADER - 1;
        cr_assert_eq(outcome(), GO_FUNCTIONS_E_REFUSED);
        section->sh_size = SIZE;
        cr_assert_eq(outcome(), GO_FUNCTIONS_E_REFUSED);
        section->sh_size = UINT64_MAX;
        cr_assert_eq(outcome(), GO_FUNCTIONS_E_REFUSED);
        section->sh_size = TABLE_SIZE;
        section->sh_type = SHT_NOBITS;
        cr_assert_eq(outcome(), GO_FUNCTIONS_E_NONE, "a debug file");
}

/* Segments may be a thousand, and all the same large piece of the file. */
Test(go_functions, searches_so_many_bytes_and_no_more) {
        Elf64_Phdr *segments = (Elf64_Phdr *)(file + SEGMENTS);

        max_bytes = DATA;
        make_sections(".go.buildinfo");
        expect_all();
        for (unsigned i = 4; i < 7; i++)
                segments[i] = (Elf64_Phdr){
                        .p_type = PT_LOAD, .p_flags = PF_R | PF_W, .p_filesz = DATA, .p_memsz = DATA
                };
        ((Elf64_Ehdr *)file)->e_phnum = 7;
        expect_all();
        segments[1] = segments[0];
        segments[1].p_flags |= PF_W;
        segments[6] = (Elf64_Phdr){ .p_type = PT_LOAD,
                                    .p_flags = PF_R | PF_W,
                                    .p_vaddr = DATA,
                                    .p_offset = DATA,
                                    .p_filesz = 0x200,
                                    .p_memsz = 0x200 };
        cr_assert_eq(outcome(), GO_FUNCTIONS_E_REFUSED, "what says where code begins is behind too much");
        max_bytes *= 2;
        expect_all();
        max_bytes = TABLE_SIZE - 1;
        make_sections(".gopclntab");
        cr_assert_eq(outcome(), GO_FUNCTIONS_E_REFUSED, "larger than any");
}

Test(go_functions, says_nothing_of_other_programs) {
        make_sections(".text");
        cr_assert_eq(outcome(), GO_FUNCTIONS_E_NONE, "what looks like a table is nothing to it");
}

Test(go_functions, leaves_out_a_function_that_makes_no_sense) {
        put32(TABLE + FUNCTIONS + 8 + 4, UINT32_MAX);
        cr_assert_str_eq(name_of(1), "");
        cr_assert_str_eq(name_of(2), "runtime.goexit");
        put32(TABLE + FUNCTIONS + 8 + 4, TABLE_SIZE - FUNCTIONS - 7);
        cr_assert_str_eq(name_of(1), "", "its name is behind the table");
        put32(TABLE + FUNCTIONS + 8 + 4, 0x28);
        put32(TABLE + FUNCTIONS + 0x2c, UNITS - NAMES);
        cr_assert_str_eq(name_of(1), "", "no name, but what is behind the names");
        put32(TABLE + FUNCTIONS + 0x2c, 9);
        cr_assert_str_eq(name_of(1), "", "an empty one");
        memset(file + TABLE + NAMES, 'x', UNITS - NAMES);
        cr_assert_str_eq(name_of(1), "", "one without an end");
}

/* Starts that go backwards, or are the same: the list puts them in order, and one of an address stays. */
Test(go_functions, puts_functions_in_order) {
        SymbolTable *table = NULL;
        uint64_t offset;
        ElfImage image;

        put32(TABLE + FUNCTIONS + 8, 0x80);
        put32(TABLE + FUNCTIONS + 16, 0x40);
        cr_assert_eq(elf_image_init_memory(&image, (const uint8_t *)file, sizeof(file)), 0);
        cr_assert_eq(read_symbol_table(&table, &image, NULL, NULL), 0);
        cr_assert_eq(symbol_table_n_symbols(table), N);
        cr_assert(symbol_table_is_full(table));
        cr_assert_str_eq(symbol_table_find(table, TEXT + 0x3f, &offset), "main.main");
        cr_assert_str_eq(symbol_table_find(table, TEXT + 0x9f, &offset), "runtime.goexit",
                         "it ends where it said");
        cr_assert_str_eq(symbol_table_find(table, TEXT + 0x80, &offset), "main.(*T).f");
        cr_assert_null(symbol_table_find(table, TEXT - 1, &offset));
        symbol_table_free(table);
        elf_image_deinit(&image);
}

/* As with ELF's symbols: such a name would be read as one of another language. */
Test(go_functions, leave_out_a_name_that_begins_with_a_mark) {
        ElfImage image;
        SymbolTable *table;
        uint64_t offset;

        file[TABLE + NAMES] = 1;
        cr_assert_eq(elf_image_init_memory(&image, (const uint8_t *)file, sizeof(file)), 0);
        cr_assert_eq(read_symbol_table(&table, &image, NULL, NULL), 0);
        cr_assert_eq(symbol_table_n_symbols(table), N - 1);
        cr_assert_null(symbol_table_find(table, TEXT, &offset));
        cr_assert_str_eq(symbol_table_find(table, TEXT + 0x40, &offset), "main.(*T).f");
        symbol_table_free(table);
        elf_image_deinit(&image);
}

Test(go_functions, is_of_no_use_beside_as_many_symbols) {
        GoFunctions functions;

        cr_assert_eq(read_file(&functions, N), GO_FUNCTIONS_E_NONE);
        cr_assert_eq(read_file(&functions, N - 1), 0);
        go_functions_deinit(&functions);
        put64(TABLE + 64, UINT64_MAX);
        cr_assert_eq(read_file(&functions, N - 1), GO_FUNCTIONS_E_REFUSED);
        file[TABLE + 4] = 1;
        cr_assert_eq(read_file(&functions, N - 1), GO_FUNCTIONS_E_NONE,
                     "there are symbols, so it is missed by nobody");
}

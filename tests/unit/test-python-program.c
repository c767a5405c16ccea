/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Small ELF files with sections and symbols made by hand: an interpreter that only its symbol table, or only
 * its section, tells. Programs with exports are in the integration tests.
 */

#include <criterion/criterion.h>
#include <string.h>

#include "base/elf/machine.h"
#include "base/util/macro.h"
#include "runtime/python/python-program.h"

enum { RUNTIME = 0x400, CODE = 0x600, BASE = 0x10000, N_SECTIONS = 5 };

typedef struct File {
        Elf64_Ehdr header;
        Elf64_Phdr segment;
        Elf64_Shdr sections[N_SECTIONS];        /* none, .PyRuntime, .symtab, .strtab, .shstrtab */
        Elf64_Sym symbols[8];
        char strings[128];
        char names[64];
        uint64_t runtime[16];
        uint64_t version;
} File;

static File file;

static const char names[] = "\0.PyRuntime\0.symtab\0.strtab\0.shstrtab";
static const char strings[] = "\0_PyRuntime\0Py_Version\0_PyEval_EvalFrameDefault\0PyCode_Type\0PyIter_Send";

static uint32_t at(const char *all, size_t size, const char *name) {
        const char *found = memmem(all, size, name, strlen(name) + 1);

        cr_assert_not_null(found);
        return (uint32_t)(found - all);
}

static void put_section(unsigned i, const char *name, uint32_t type, size_t offset, size_t size) {
        file.sections[i] = (Elf64_Shdr){ .sh_name = at(names, sizeof(names), name), .sh_type = type,
                                         .sh_offset = offset, .sh_size = size };
}

static void put_symbol(unsigned i, const char *name, uint64_t offset, uint64_t size) {
        file.symbols[i] = (Elf64_Sym){ .st_name = at(strings, sizeof(strings), name), .st_shndx = 1,
                                       .st_value = BASE + offset, .st_size = size };
}

static void setup(void) {
        memset(&file, 0, sizeof(file));
        file.header = (Elf64_Ehdr){ .e_ident = { ELFMAG0, ELFMAG1, ELFMAG2, ELFMAG3, ELFCLASS64, ELFDATA2LSB,
                                                 EV_CURRENT },
                                    .e_type = ET_EXEC, .e_machine = ELF_MACHINE, .e_version = EV_CURRENT,
                                    .e_phoff = offsetof(File, segment), .e_shoff = offsetof(File, sections),
                                    .e_ehsize = sizeof(Elf64_Ehdr), .e_phentsize = sizeof(Elf64_Phdr),
                                    .e_phnum = 1, .e_shentsize = sizeof(Elf64_Shdr), .e_shnum = N_SECTIONS,
                                    .e_shstrndx = 4 };
        file.segment = (Elf64_Phdr){ .p_type = PT_LOAD, .p_flags = PF_R, .p_vaddr = BASE,
                                     .p_filesz = sizeof(file), .p_memsz = sizeof(file) };
        put_section(1, ".PyRuntime", SHT_PROGBITS, offsetof(File, runtime), sizeof(file.runtime));
        file.sections[1].sh_flags = SHF_ALLOC | SHF_WRITE;
        file.sections[1].sh_addr = BASE + offsetof(File, runtime);
        put_section(2, ".symtab", SHT_SYMTAB, offsetof(File, symbols), sizeof(file.symbols));
        file.sections[2].sh_link = 3;
        put_section(3, ".strtab", SHT_STRTAB, offsetof(File, strings), sizeof(strings));
        put_section(4, ".shstrtab", SHT_STRTAB, offsetof(File, names), sizeof(names));
        memcpy(file.strings, strings, sizeof(strings));
        memcpy(file.names, names, sizeof(names));
        put_symbol(1, "_PyRuntime", offsetof(File, runtime), sizeof(file.runtime));
        put_symbol(2, "Py_Version", offsetof(File, version), sizeof(file.version));
        put_symbol(3, "_PyEval_EvalFrameDefault", 0, 100);
        put_symbol(4, "PyCode_Type", 8, 416);
        file.version = 0x030b07f0;
}

TestSuite(python_program, .init = setup);

static bool read_file(PythonProgram *program) {
        return python_program_read(program, -1, &file, sizeof(file));
}

static void strip(void) {
        file.sections[2].sh_type = file.sections[2].sh_name = 0;
}

Test(python_program, the_symbol_table_tells_where_an_interpreter_is) {
        PythonProgram program;

        cr_assert(read_file(&program));
        cr_assert_eq(program.version, 0x030b);
        cr_assert_eq(program.places[PYTHON_SYMBOL_RUNTIME].address, BASE + offsetof(File, runtime));
        cr_assert_eq(program.places[PYTHON_SYMBOL_CODE].address, BASE + 8);
        cr_assert_eq(program.places[PYTHON_SYMBOL_EVALUATOR].size, 100);
        cr_assert_eq(program.places[PYTHON_SYMBOL_COROUTINE].address, 0);
}

Test(python_program, releases_without_a_version_are_told_by_their_functions) {
        PythonProgram program;

        put_symbol(2, "PyIter_Send", 16, 10);
        cr_assert(read_file(&program));
        cr_assert_eq(program.version, 0x030a);
        file.symbols[2].st_shndx = SHN_UNDEF;
        cr_assert(read_file(&program));
        cr_assert_eq(program.version, 0x0307);
}

Test(python_program, a_stripped_one_describes_itself_from_3_13_on) {
        PythonProgram program;

        strip();
        cr_assert(read_file(&program));
        cr_assert_eq(program.version, 0, "an older one");
        cr_assert_eq(program.places[PYTHON_SYMBOL_RUNTIME].address, BASE + offsetof(File, runtime));
        file.runtime[0] = PYTHON_COOKIE;
        file.runtime[1] = 0x030e0af0;
        cr_assert(read_file(&program));
        cr_assert_eq(program.version, 0x030e);
        cr_assert_eq(program.places[PYTHON_SYMBOL_CODE].address, 0);
}

Test(python_program, other_files_are_none) {
        PythonProgram program, before;

        memset(&program, 0xee, sizeof(program));
        before = program;
        file.sections[1].sh_name = 0;
        cr_assert_not(read_file(&program), "symbols alone");
        setup();
        file.sections[1].sh_type = SHT_NOBITS;
        cr_assert_not(read_file(&program), "a debug file");
        setup();
        file.sections[1].sh_flags = 0;
        cr_assert_not(read_file(&program));
        cr_assert_not(python_program_read(&program, -1, &file, 20));
        cr_assert_not(python_program_read(&program, -1, names, sizeof(names)));
        cr_assert_eq(memcmp(&program, &before, sizeof(program)), 0);
}

Test(python_program, tables_that_lie_elsewhere_are_left_out) {
        PythonProgram program;

        file.sections[2].sh_link = N_SECTIONS;
        cr_assert(read_file(&program));
        cr_assert_eq(program.places[PYTHON_SYMBOL_CODE].address, 0);
        setup();
        file.sections[2].sh_size = 1ull << 40;
        cr_assert(read_file(&program));
        cr_assert_eq(program.places[PYTHON_SYMBOL_CODE].address, 0);
        setup();
        file.symbols[4].st_name = 0xffffffff;
        cr_assert(read_file(&program));
        cr_assert_eq(program.places[PYTHON_SYMBOL_CODE].address, 0);
        cr_assert_neq(program.places[PYTHON_SYMBOL_VERSION].address, 0);
}

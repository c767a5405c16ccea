/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Python File
 *
 * A small ELF file made by hand, with the symbols of CPython 3.11 and nothing behind them. For unit tests
 * alone.
 */

#include <criterion/criterion.h>
#include <elf.h>
#include <stddef.h>
#include <string.h>

#include "core/base/elf/machine.h"

enum { PYTHON_FILE_BASE = 0x10000, PYTHON_FILE_SECTIONS = 5 };

typedef struct PythonFileImage {
        Elf64_Ehdr header;
        Elf64_Phdr segment;
        Elf64_Shdr sections[PYTHON_FILE_SECTIONS];        /* none, .PyRuntime, .symtab, .strtab, .shstrtab */
        Elf64_Sym symbols[8];
        char strings[128];
        char names[64];
        uint64_t runtime[16];
        uint64_t version;
} PythonFileImage;

static PythonFileImage file;

static const char section_names[] = "\0.PyRuntime\0.symtab\0.strtab\0.shstrtab";
static const char symbol_names[] = "\0_PyRuntime\0Py_Version\0_PyEval_EvalFrameDefault\0PyCode_Type\0"
                                   "PyIter_Send";

static uint32_t place_of(const char *all, size_t size, const char *name) {
        const char *found = memmem(all, size, name, strlen(name) + 1);

        cr_assert_not_null(found);
        return (uint32_t)(found - all);
}

static void put_section(unsigned i, const char *name, uint32_t type, size_t offset, size_t size) {
        file.sections[i] = (Elf64_Shdr){ .sh_name = place_of(section_names, sizeof(section_names), name),
                                         .sh_type = type, .sh_offset = offset, .sh_size = size };
}

static void put_symbol(unsigned i, const char *name, uint64_t offset, uint64_t size) {
        file.symbols[i] = (Elf64_Sym){ .st_name = place_of(symbol_names, sizeof(symbol_names), name),
                                       .st_shndx = 1, .st_value = PYTHON_FILE_BASE + offset,
                                       .st_size = size };
}

static void put_python_file(void) {
        memset(&file, 0, sizeof(file));
        file.header = (Elf64_Ehdr){ .e_ident = { ELFMAG0, ELFMAG1, ELFMAG2, ELFMAG3, ELFCLASS64, ELFDATA2LSB,
                                                 EV_CURRENT },
                                    .e_type = ET_EXEC, .e_machine = ELF_MACHINE, .e_version = EV_CURRENT,
                                    .e_phoff = offsetof(PythonFileImage, segment),
                                    .e_shoff = offsetof(PythonFileImage, sections),
                                    .e_ehsize = sizeof(Elf64_Ehdr), .e_phentsize = sizeof(Elf64_Phdr),
                                    .e_phnum = 1, .e_shentsize = sizeof(Elf64_Shdr),
                                    .e_shnum = PYTHON_FILE_SECTIONS, .e_shstrndx = 4 };
        file.segment = (Elf64_Phdr){ .p_type = PT_LOAD, .p_flags = PF_R, .p_vaddr = PYTHON_FILE_BASE,
                                     .p_filesz = sizeof(file), .p_memsz = sizeof(file) };
        put_section(1, ".PyRuntime", SHT_PROGBITS, offsetof(PythonFileImage, runtime), sizeof(file.runtime));
        file.sections[1].sh_flags = SHF_ALLOC | SHF_WRITE;
        file.sections[1].sh_addr = PYTHON_FILE_BASE + offsetof(PythonFileImage, runtime);
        put_section(2, ".symtab", SHT_SYMTAB, offsetof(PythonFileImage, symbols), sizeof(file.symbols));
        file.sections[2].sh_link = 3;
        put_section(3, ".strtab", SHT_STRTAB, offsetof(PythonFileImage, strings), sizeof(symbol_names));
        put_section(4, ".shstrtab", SHT_STRTAB, offsetof(PythonFileImage, names), sizeof(section_names));
        memcpy(file.strings, symbol_names, sizeof(symbol_names));
        memcpy(file.names, section_names, sizeof(section_names));
        put_symbol(1, "_PyRuntime", offsetof(PythonFileImage, runtime), sizeof(file.runtime));
        put_symbol(2, "Py_Version", offsetof(PythonFileImage, version), sizeof(file.version));
        put_symbol(3, "_PyEval_EvalFrameDefault", 0, 100);
        put_symbol(4, "PyCode_Type", 8, 416);
        file.version = 0x030b07f0;
}

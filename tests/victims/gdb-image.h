/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* Images of code as a compiler at run time registers them for debuggers: by gdb's manual, and gABI. */

#include <elf.h>
#include <stdint.h>
#include <string.h>

enum {
        GDB_IMAGE_MAX_FUNCTIONS = 16,
        GDB_IMAGE_SIZE = 4096,
};

/* The interface's own names and layout. */
struct jit_code_entry {
        struct jit_code_entry *next_entry, *prev_entry;
        const char *symfile_addr;
        uint64_t symfile_size;
};

struct jit_descriptor {
        uint32_t version, action_flag;
        struct jit_code_entry *relevant_entry, *first_entry;
};

typedef struct GdbFunction {
        const char *name;
        uint64_t offset, size;          /* in the code */
} GdbFunction;

/*
 * Writes an image of @n functions in the code at @text into @to, GDB_IMAGE_SIZE bytes: a relocatable file
 * with addresses filled in, as LLVM's. Return: its size.
 */
static inline size_t gdb_image(char *to, uint64_t text, uint64_t text_size, const GdbFunction *functions,
                               unsigned n) {
        Elf64_Ehdr header = { .e_ident = { ELFMAG0, ELFMAG1, ELFMAG2, ELFMAG3, ELFCLASS64, ELFDATA2LSB,
                                           EV_CURRENT },
                              .e_type = ET_REL, .e_machine = EM_X86_64, .e_version = EV_CURRENT,
                              .e_ehsize = sizeof(header), .e_shentsize = sizeof(Elf64_Shdr), .e_shnum = 4 };
        Elf64_Sym symbols[1 + GDB_IMAGE_MAX_FUNCTIONS] = { { 0 } };
        char names[1024] = "";
        size_t n_names = 1, at = sizeof(header);
        Elf64_Shdr sections[4] = { { 0 },
                { .sh_type = SHT_NOBITS, .sh_flags = SHF_ALLOC | SHF_EXECINSTR, .sh_addr = text,
                  .sh_size = text_size },
                { .sh_type = SHT_SYMTAB, .sh_link = 3, .sh_entsize = sizeof(Elf64_Sym) },
                { .sh_type = SHT_STRTAB } };

        for (unsigned i = 0; i < n; i++) {
                symbols[1 + i] = (Elf64_Sym){ .st_name = (uint32_t)n_names,
                                              .st_info = ELF64_ST_INFO(STB_GLOBAL, STT_FUNC),
                                              .st_shndx = 1,
                                              .st_value = functions[i].offset,
                                              .st_size = functions[i].size };
                strcpy(names + n_names, functions[i].name);
                n_names += strlen(functions[i].name) + 1;
        }
        sections[2].sh_offset = at;
        sections[2].sh_size = (1 + n) * sizeof(*symbols);
        memcpy(to + at, symbols, sections[2].sh_size);
        at += sections[2].sh_size;
        sections[3].sh_offset = at;
        sections[3].sh_size = n_names;
        memcpy(to + at, names, n_names);
        at = (at + n_names + 7) & ~(size_t)7;
        header.e_shoff = at;
        memcpy(to, &header, sizeof(header));
        memcpy(to + at, sections, sizeof(sections));
        return at + sizeof(sections);
}

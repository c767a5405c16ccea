/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Headers of 32-bit ELF
 *
 * The tables of a file of 32 bits, in the form of one of 64: each field is the same number, wider, and some
 * stand in another order (gABI). Readers of names then know one form. What a file is built of besides, as
 * relocations and call frame information, has 32-bit forms of its own that nothing here reads.
 */

#include <elf.h>
#include <string.h>

static inline Elf64_Ehdr elf_widen_header(const Elf32_Ehdr *narrow) {
        Elf64_Ehdr wide = { .e_type = narrow->e_type, .e_machine = narrow->e_machine,
                            .e_version = narrow->e_version, .e_entry = narrow->e_entry,
                            .e_phoff = narrow->e_phoff, .e_shoff = narrow->e_shoff,
                            .e_flags = narrow->e_flags, .e_ehsize = narrow->e_ehsize,
                            .e_phentsize = narrow->e_phentsize, .e_phnum = narrow->e_phnum,
                            .e_shentsize = narrow->e_shentsize, .e_shnum = narrow->e_shnum,
                            .e_shstrndx = narrow->e_shstrndx };

        memcpy(wide.e_ident, narrow->e_ident, sizeof(wide.e_ident));
        return wide;
}

static inline Elf64_Phdr elf_widen_segment(const Elf32_Phdr *narrow) {
        return (Elf64_Phdr){ .p_type = narrow->p_type, .p_flags = narrow->p_flags,
                             .p_offset = narrow->p_offset, .p_vaddr = narrow->p_vaddr,
                             .p_paddr = narrow->p_paddr, .p_filesz = narrow->p_filesz,
                             .p_memsz = narrow->p_memsz, .p_align = narrow->p_align };
}

static inline Elf64_Shdr elf_widen_section(const Elf32_Shdr *narrow) {
        return (Elf64_Shdr){ .sh_name = narrow->sh_name, .sh_type = narrow->sh_type,
                             .sh_flags = narrow->sh_flags, .sh_addr = narrow->sh_addr,
                             .sh_offset = narrow->sh_offset, .sh_size = narrow->sh_size,
                             .sh_link = narrow->sh_link, .sh_info = narrow->sh_info,
                             .sh_addralign = narrow->sh_addralign, .sh_entsize = narrow->sh_entsize };
}

static inline Elf64_Sym elf_widen_symbol(const Elf32_Sym *narrow) {
        return (Elf64_Sym){ .st_name = narrow->st_name, .st_info = narrow->st_info,
                            .st_other = narrow->st_other, .st_shndx = narrow->st_shndx,
                            .st_value = narrow->st_value, .st_size = narrow->st_size };
}

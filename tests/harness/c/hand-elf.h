/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Hand-made ELF files: section headers, two symbol tables and a build id, nothing else.
 *
 *     header | .note.gnu.build-id | .symtab | .strtab | .dynsym | .dynstr | section headers
 *     sections: 0 null, 1 .text at 0x1000–0x2000 (no bytes), 2 note, 3 .symtab, 4 .strtab, 5 .dynsym, 6
 *     .dynstr
 */

#include <elf.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "core/base/elf/machine.h"

enum { HAND_TEXT = 1, HAND_NOTE, HAND_SYMTAB, HAND_STRTAB, HAND_DYNSYM, HAND_DYNSTR, HAND_N_SECTIONS };

typedef struct HandSymbol {
        const char *name;
        uint64_t address, size;
        unsigned binding, type, section;        /* STB_*, STT_*, HAND_TEXT or SHN_* */
        int dynamic;                            /* in .dynsym */
} HandSymbol;

#define HAND_FUNCTION(_name, _address, _size) { _name, _address, _size, STB_GLOBAL, STT_FUNC, HAND_TEXT, 0 }

typedef struct HandElf {
        uint8_t *data;                          /* malloc()ed */
        size_t size;
        Elf64_Ehdr *header;                     /* within data, to be spoiled */
        Elf64_Shdr *sections;
} HandElf;

static inline uint64_t hand_add(HandElf *elf, const void *data, size_t size) {
        uint64_t at = (elf->size + 7) & ~UINT64_C(7);

        elf->data = realloc(elf->data, at + size);
        memset(elf->data + elf->size, 0, at - elf->size);
        memcpy(elf->data + at, data, size);
        elf->size = at + size;
        return at;
}

static inline void hand_add_symbols(HandElf *elf, Elf64_Shdr *sections, const HandSymbol *symbols, size_t n,
                                    int dynamic) {
        unsigned table = dynamic ? HAND_DYNSYM : HAND_SYMTAB;
        Elf64_Sym *to = calloc(n + 1, sizeof(*to));
        size_t n_to = 1, size = 1, room = 1;
        char *strings;

        for (size_t i = 0; i < n; i++)
                room += strlen(symbols[i].name) + 1;
        strings = calloc(1, room);
        for (size_t i = 0; i < n; i++) {
                const HandSymbol *s = &symbols[i];

                if (s->dynamic != dynamic)
                        continue;
                to[n_to++] = (Elf64_Sym){ .st_name = (uint32_t)size,
                                          .st_value = s->address,
                                          .st_size = s->size,
                                          .st_info = (uint8_t)ELF64_ST_INFO(s->binding, s->type),
                                          .st_shndx = (uint16_t)s->section };
                strcpy(strings + size, s->name);
                size += strlen(s->name) + 1;
        }
        if (n_to > 1) {
                sections[table] = (Elf64_Shdr){ .sh_type = dynamic ? SHT_DYNSYM : SHT_SYMTAB,
                                                .sh_offset = hand_add(elf, to, n_to * sizeof(*to)),
                                                .sh_size = n_to * sizeof(*to), .sh_entsize = sizeof(*to),
                                                .sh_link = table + 1 };
                sections[table + 1] = (Elf64_Shdr){ .sh_type = SHT_STRTAB,
                                                    .sh_offset = hand_add(elf, strings, size),
                                                    .sh_size = size };
        }
        free(strings);
        free(to);
}

/* @id: 20 bytes, or NULL for none. */
static inline HandElf hand_elf(const HandSymbol *symbols, size_t n, const uint8_t *id) {
        struct {
                Elf64_Nhdr header;
                char name[4];
                uint8_t id[20];
        } note = { { 4, 20, NT_GNU_BUILD_ID }, "GNU", { 0 } };
        Elf64_Ehdr header = { .e_ident = { 0x7f, 'E', 'L', 'F', ELFCLASS64, ELFDATA2LSB, EV_CURRENT },
                              .e_type = ET_DYN, .e_machine = ELF_MACHINE, .e_version = EV_CURRENT,
                              .e_ehsize = sizeof(Elf64_Ehdr), .e_shentsize = sizeof(Elf64_Shdr),
                              .e_shnum = HAND_N_SECTIONS };
        Elf64_Shdr sections[HAND_N_SECTIONS] = { [HAND_TEXT] = { .sh_type = SHT_NOBITS, .sh_addr = 0x1000,
                                                                 .sh_size = 0x1000,
                                                                 .sh_flags = SHF_ALLOC | SHF_EXECINSTR } };
        HandElf elf = { 0 };

        hand_add(&elf, &header, sizeof(header));
        if (id) {
                memcpy(note.id, id, sizeof(note.id));
                sections[HAND_NOTE] = (Elf64_Shdr){ .sh_type = SHT_NOTE,
                                                    .sh_offset = hand_add(&elf, &note, sizeof(note)),
                                                    .sh_size = sizeof(note),
                                                    .sh_addralign = 4 };
        }
        hand_add_symbols(&elf, sections, symbols, n, 0);
        hand_add_symbols(&elf, sections, symbols, n, 1);
        header.e_shoff = hand_add(&elf, sections, sizeof(sections));
        memcpy(elf.data, &header, sizeof(header));
        elf.header = (Elf64_Ehdr *)elf.data;
        elf.sections = (Elf64_Shdr *)(elf.data + header.e_shoff);
        return elf;
}

/* The bytes as a file in memory. */
static inline int hand_fd(const void *data, size_t size) {
        int fd = memfd_create("hand-elf", MFD_CLOEXEC);

        if (fd < 0 || write(fd, data, size) != (ssize_t)size)
                abort();
        return fd;
}

/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Makes call frame information and ELF files by hand, for tests: what a test
 * expects is then known from the bytes that it wrote, and not from the reader.
 */

#include <elf.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#include "core/base/elf/machine.h"

typedef struct Bytes {
        uint8_t data[1 << 17];
        size_t size;
} Bytes;

static inline void put(Bytes *bytes, const void *data, size_t size) {
        memcpy(bytes->data + bytes->size, data, size);
        bytes->size += size;
}

#define PUT(_type, _name) \
        static inline void _name(Bytes *bytes, _type value) { \
                put(bytes, &value, sizeof(value)); \
        }
PUT(uint8_t, put_u8)
PUT(uint16_t, put_u16)
PUT(uint32_t, put_u32)
PUT(uint64_t, put_u64)
#undef PUT

/* Bytes as a literal: PUT_CODE(&bytes, 0x41, 0x0e, 0x10) */
#define PUT_CODE(_bytes, ...) \
        do { \
                const uint8_t _code[] = { __VA_ARGS__ }; \
                put(_bytes, _code, sizeof(_code)); \
        } while (0)

/* Sets the 32-bit length of the entry that begins at @at, once its end is known. */
static inline void end_entry(Bytes *bytes, size_t at) {
        uint32_t length = (uint32_t)(bytes->size - at - 4);

        memcpy(bytes->data + at, &length, sizeof(length));
}

enum {
        MAKER_TEXT = 0x10000,           /* ELF address of the text that made functions lie in */
        MAKER_TEXT_SIZE = 0x20000,
        MAKER_FRAME = 0x400000,         /* ELF address of .eh_frame */
};

/*
 * An ordinary CIE as gcc writes it ("zR", code alignment 1, data alignment -8,
 * return address 16, absolute 8-byte addresses): CFA = rsp + 8, return address
 * at CFA - 8. Return: its offset.
 */
static inline size_t put_cie(Bytes *bytes) {
        size_t at = bytes->size;

        put_u32(bytes, 0);
        put_u32(bytes, 0);
        PUT_CODE(bytes, 1, 'z', 'R', 0, 1, 0x78, 16, 1, 0x00);
        PUT_CODE(bytes, 0x0c, 7, 8, 0x90, 1);
        end_entry(bytes, at);
        return at;
}

/* The head of an FDE for the CIE at @cie; instructions and end_entry() follow. Return: its offset. */
static inline size_t begin_fde(Bytes *bytes, size_t cie, uint64_t start, uint64_t size) {
        size_t at = bytes->size;

        put_u32(bytes, 0);
        put_u32(bytes, (uint32_t)(at + 4 - cie));
        put_u64(bytes, start);
        put_u64(bytes, size);
        put_u8(bytes, 0);
        return at;
}

/* A function with CFA = rsp + @offset from its start to its end. */
static inline size_t put_fde(Bytes *bytes, size_t cie, uint64_t start, uint64_t size, uint8_t offset) {
        size_t at = begin_fde(bytes, cie, start, size);

        PUT_CODE(bytes, 0x0e, offset);
        end_entry(bytes, at);
        return at;
}

/*
 * An ELF file around @frame: one executable segment that takes no bytes of the
 * file, one that holds .eh_frame at MAKER_FRAME, and a section table with its
 * name. Without PT_GNU_EH_FRAME, as static glibc is. @name: ".eh_frame" or another.
 */
static inline void make_elf(Bytes *elf, const Bytes *frame, const char *name) {
        enum { N_HEADERS = 2, N_SECTIONS = 3, FRAME_AT = 0x1000 };
        char names[64] = "\0.names";
        Elf64_Ehdr ehdr = {
                .e_ident = { 0x7f, 'E', 'L', 'F', ELFCLASS64, ELFDATA2LSB, EV_CURRENT },
                .e_type = ET_DYN,
                .e_machine = ELF_MACHINE,
                .e_phoff = sizeof(ehdr),
                .e_phentsize = sizeof(Elf64_Phdr),
                .e_phnum = N_HEADERS,
                .e_shoff = sizeof(ehdr) + N_HEADERS * sizeof(Elf64_Phdr),
                .e_shentsize = sizeof(Elf64_Shdr),
                .e_shnum = N_SECTIONS,
                .e_shstrndx = 1,
        };
        Elf64_Phdr headers[N_HEADERS] = {
                { .p_type = PT_LOAD,
                  .p_flags = PF_R | PF_X,
                  .p_vaddr = MAKER_TEXT,
                  .p_memsz = MAKER_TEXT_SIZE },
                { .p_type = PT_LOAD,
                  .p_flags = PF_R,
                  .p_vaddr = MAKER_FRAME,
                  .p_offset = FRAME_AT,
                  .p_filesz = frame->size,
                  .p_memsz = frame->size },
        };
        Elf64_Shdr sections[N_SECTIONS] = {
                { .sh_type = SHT_NULL },
                { .sh_type = SHT_STRTAB, .sh_name = 1, .sh_size = sizeof(names),
                  .sh_offset = FRAME_AT - sizeof(names) },
                { .sh_type = SHT_PROGBITS, .sh_name = 16, .sh_addr = MAKER_FRAME, .sh_offset = FRAME_AT,
                  .sh_size = frame->size },
        };

        strcpy(names + 16, name);
        memset(elf->data, 0, FRAME_AT);
        elf->size = 0;
        put(elf, &ehdr, sizeof(ehdr));
        put(elf, headers, sizeof(headers));
        put(elf, sections, sizeof(sections));
        memcpy(elf->data + FRAME_AT - sizeof(names), names, sizeof(names));
        elf->size = FRAME_AT;
        put(elf, frame->data, frame->size);
}

/* The same with @debug as .debug_frame beside it: behind all else, with a section table of its own. */
static inline void make_elf_beside(Bytes *elf, const Bytes *frame, const Bytes *debug) {
        Elf64_Shdr sections[4] = { 0 };
        Elf64_Ehdr ehdr;
        size_t at;

        make_elf(elf, frame, ".eh_frame");
        memcpy(&ehdr, elf->data, sizeof(ehdr));
        memcpy(sections, elf->data + ehdr.e_shoff, 3 * sizeof(sections[0]));
        strcpy((char *)elf->data + sections[1].sh_offset + 32, ".debug_frame");
        while (elf->size % 8)
                put_u8(elf, 0);
        at = elf->size;
        put(elf, debug->data, debug->size);
        sections[3] = (Elf64_Shdr){
                .sh_type = SHT_PROGBITS, .sh_name = 32, .sh_offset = at, .sh_size = debug->size
        };
        ehdr.e_shnum = 4;
        ehdr.e_shoff = elf->size;
        put(elf, sections, sizeof(sections));
        memcpy(elf->data, &ehdr, sizeof(ehdr));
}

/* A CIE of .debug_frame as put_cie() has it, and a function with CFA = rsp + @offset. */
static inline void put_debug_cie(Bytes *bytes) {
        size_t at = bytes->size;

        put_u32(bytes, 0);
        put_u32(bytes, UINT32_MAX);
        PUT_CODE(bytes, 1, 0, 1, 0x78, 16);
        PUT_CODE(bytes, 0x0c, 7, 8, 0x90, 1);
        end_entry(bytes, at);
}

static inline void put_debug_fde(Bytes *bytes, uint64_t start, uint64_t size, uint8_t offset) {
        size_t at = bytes->size;

        put_u32(bytes, 0);
        put_u32(bytes, 0);
        put_u64(bytes, start);
        put_u64(bytes, size);
        PUT_CODE(bytes, 0x0e, offset);
        end_entry(bytes, at);
}

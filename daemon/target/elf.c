/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Structures of fixed size, copied: the ELF header, at most so many program headers, and the notes they lead to. Nothing that the
 * file says is an address in our memory, and no count of its own makes us read or allocate beyond the limits. A note is
 *
 *     0     u32 bytes of name | u32 bytes of content | u32 type
 *     12    name, padding, content, padding: to 4 bytes, or 8 if the segment is aligned so
 */
#include "target/elf.h"

#include <elf.h>
#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "util/error.h"
#include "util/file.h"
#include "util/macro.h"

/* Type of the note with owner "Go" that holds its build id (cmd/internal/buildid). */
enum { NOTE_GO_BUILD_ID = 4 };

/* Real executables have 7–15 program headers and two or three notes. */
const ElfLimits elf_default_limits = { .max_headers = 512, .max_notes = 16, .max_note_bytes = 8 << 10 };

/* Exactly @size bytes at @offset, or ELF_E_DAMAGED. */
static int read_exact(const ElfInput *input, uint64_t offset, void *to, size_t size) {
        if (offset > input->size || size > input->size - offset)
                return ELF_E_DAMAGED;
        if (input->fd < 0)
                memcpy(to, (const char *)input->data + offset, size);
        else if (file_pread(input->fd, to, size, offset) != (ssize_t)size)
                return ELF_E_DAMAGED;
        return 0;
}

static int read_header(const ElfInput *input, const ElfLimits *limits, Elf64_Ehdr *header) {
        uint8_t order = __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__ ? ELFDATA2LSB : ELFDATA2MSB;

        if (read_exact(input, 0, header, sizeof(*header)) || memcmp(header->e_ident, ELFMAG, SELFMAG) ||
            header->e_ident[EI_CLASS] != ELFCLASS64 || header->e_ident[EI_DATA] != order ||
            header->e_version != EV_CURRENT || header->e_phnum > limits->max_headers ||
            (header->e_phnum && header->e_phentsize != sizeof(Elf64_Phdr)))
                return ELF_E_UNSUPPORTED;
        /* Section headers are a fallback: too many or strange ones are the same as none. */
        if (header->e_phnum || header->e_shnum > limits->max_headers || header->e_shentsize != sizeof(Elf64_Shdr))
                header->e_shnum = 0;
        return 0;
}

static void take_gnu(ElfInfo *info, const uint8_t *id, size_t size) {
        if (info->gnu_size || !size || size > sizeof(info->gnu))
                return;
        memcpy(info->gnu, id, size);
        info->gnu_size = (uint32_t)size;
}

/* It is shipped as text, so it must be some. */
static void take_go(ElfInfo *info, const char *id, size_t size) {
        if (info->go_size || !size || size >= sizeof(info->go))
                return;
        for (size_t i = 0; i < size; i++)
                if (id[i] <= ' ' || id[i] > '~')
                        return;
        memcpy(info->go, id, size);
        info->go[size] = 0;
        info->go_size = (uint32_t)size;
}

static void take_note(ElfInfo *info, const Elf64_Nhdr *note, const uint8_t *name, const uint8_t *content) {
        if (note->n_namesz == 4 && !memcmp(name, "GNU", 4) && note->n_type == NT_GNU_BUILD_ID)
                take_gnu(info, content, note->n_descsz);
        else if (note->n_namesz == 4 && !memcmp(name, "Go\0", 4) && note->n_type == NOTE_GO_BUILD_ID)
                take_go(info, (const char *)content, note->n_descsz);
}

static uint64_t align_up(uint64_t value, uint64_t align) {
        return (value + align - 1) & ~(align - 1);
}

/* Until one that is not all there, with its padding, as readelf does. Sums of three sizes of 32 bits are far from the end of 64. */
static void walk_notes(const uint8_t *bytes, size_t size, uint64_t align, ElfInfo *info) {
        uint64_t at, next, content;
        Elf64_Nhdr note;

        for (at = 0; size - at >= sizeof(note); at = next) {
                memcpy(&note, bytes + at, sizeof(note));
                content = align_up(at + sizeof(note) + note.n_namesz, align);
                next = align_up(content + note.n_descsz, align);
                if (next > size)
                        return;
                take_note(info, &note, bytes + at + sizeof(note), bytes + content);
        }
}

/* Reads the notes at @offset. Notes that are not there cost the build id, not the file. */
static int read_notes(const ElfInput *input, const ElfLimits *limits, uint64_t offset, uint64_t size,
                      uint64_t align, ElfInfo *info) {
        size_t n = MIN(size, (uint64_t)limits->max_note_bytes);
        _cleanup_(freep) uint8_t *bytes = n ? malloc(n) : NULL;

        if (!n)
                return 0;
        if (!bytes)
                return error_origin(-ENOMEM);
        if (read_exact(input, offset, bytes, n) == 0)
                walk_notes(bytes, n, align == 8 ? 8 : 4, info);
        return 0;
}

static bool range_is_sound(const Elf64_Phdr *header) {
        uint64_t sum;

        return header->p_filesz <= header->p_memsz &&
               !__builtin_add_overflow(header->p_vaddr, header->p_memsz, &sum) &&
               !__builtin_add_overflow(header->p_offset, header->p_filesz, &sum);
}

static int take_segment(const Elf64_Phdr *header, ElfInfo *info) {
        if (!header->p_memsz)
                return 0;
        if (info->n_segments == ELF_MAX_SEGMENTS)
                return ELF_E_UNSUPPORTED;
        if (!range_is_sound(header))
                return ELF_E_DAMAGED;
        info->segments[info->n_segments++] = (ElfSegment){
                .address = header->p_vaddr,
                .offset = header->p_offset,
                .file_size = header->p_filesz,
                .memory_size = header->p_memsz,
                .flags = header->p_flags,
        };
        return 0;
}

/* *tablep: a copy of @n entries of @entry_size bytes. Return: 0, ELF_E_DAMAGED, -ENOMEM. */
static int read_table(const ElfInput *input, uint64_t offset, size_t n, size_t entry_size, void *tablep) {
        _cleanup_(freep) void *table = malloc(n * entry_size);
        int r;

        if (!table)
                return error_origin(-ENOMEM);
        r = read_exact(input, offset, table, n * entry_size);
        if (!r)
                *(void **)tablep = take(table);
        return r;
}

static int read_segments(const ElfInput *input, const ElfLimits *limits, const Elf64_Ehdr *header, ElfInfo *info) {
        _cleanup_(freep) Elf64_Phdr *table = NULL;
        uint32_t n_notes = 0;
        int r = read_table(input, header->e_phoff, header->e_phnum, sizeof(*table), &table);

        for (size_t i = 0; !r && i < header->e_phnum; i++) {
                const Elf64_Phdr *segment = &table[i];

                if (segment->p_type == PT_LOAD)
                        r = take_segment(segment, info);
                else if (segment->p_type == PT_NOTE && n_notes++ < limits->max_notes)
                        r = read_notes(input, limits, segment->p_offset, segment->p_filesz, segment->p_align, info);
                else if (segment->p_type == PT_TLS)
                        info->has_tls = true;
        }
        return r;
}

/* For a file without program headers. */
static int read_sections(const ElfInput *input, const ElfLimits *limits, const Elf64_Ehdr *header, ElfInfo *info) {
        _cleanup_(freep) Elf64_Shdr *table = NULL;
        uint32_t n_notes = 0;
        int r = header->e_shnum ? read_table(input, header->e_shoff, header->e_shnum, sizeof(*table), &table) : 0;

        for (size_t i = 0; !r && i < header->e_shnum; i++)
                if (table[i].sh_type == SHT_NOTE && n_notes++ < limits->max_notes)
                        r = read_notes(input, limits, table[i].sh_offset, table[i].sh_size, table[i].sh_addralign, info);
        return r;
}

int elf_read(const ElfInput *input, const ElfLimits *limits, ElfInfo *infop) {
        ElfInfo info = { 0 };
        Elf64_Ehdr header;
        int r;

        if (!limits)
                limits = &elf_default_limits;
        r = read_header(input, limits, &header);
        if (r)
                return r;
        info.entry = header.e_entry;
        if (header.e_phnum)
                r = read_segments(input, limits, &header, &info);
        else
                r = read_sections(input, limits, &header, &info);
        if (r)
                return r;
        *infop = info;
        return 0;
}

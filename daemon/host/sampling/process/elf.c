/* SPDX-License-Identifier: Apache-2.0 */

/*
 * libelf would follow the offsets and counts of the file, and allocate by them:
 * a sparse file that claims 2^32 sections costs it gigabytes. So it never sees
 * the file. We read the ELF header, check every count against our limits, and
 * compose a small image of copies that libelf then takes apart:
 *
 *     0     ELF header, with both tables' offsets set to where they are here
 *     64    program headers      (e_phnum × 56 bytes)
 *     …     section headers      (only if there are no program headers)
 *     …     one note segment, reread into the same place for each
 *
 * A file of 32 bits is widened on the way, so that there is one form (core/base/elf/narrow.h).
 *
 * What libelf does for us: byte order and layout of headers, and the walk over
 * notes with its padding rules (4 bytes, or 8 for some segments).
 */
#include "host/sampling/process/elf.h"

#include <errno.h>
#include <gelf.h>
#include <libelf.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/elf/narrow.h"
#include "core/base/file/file.h"
#include "core/base/util/error.h"
#include "core/base/util/macro.h"

/* Type of the note with owner "Go" that holds its build id (cmd/internal/buildid). */
enum { NOTE_GO_BUILD_ID = 4 };

/* Real executables have 7–15 program headers and two or three notes. */
const ElfLimits elf_default_limits = { .max_headers = 512, .max_notes = 16, .max_note_bytes = 8 << 10 };

static void elf_endp(Elf **elfp) {
        elf_end(*elfp);
}

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

static bool is_narrow(const Elf64_Ehdr *header) {
        return header->e_ident[EI_CLASS] == ELFCLASS32;
}

static size_t segment_size(const Elf64_Ehdr *header) {
        return is_narrow(header) ? sizeof(Elf32_Phdr) : sizeof(Elf64_Phdr);
}

static size_t section_size(const Elf64_Ehdr *header) {
        return is_narrow(header) ? sizeof(Elf32_Shdr) : sizeof(Elf64_Shdr);
}

/* Section headers are a fallback: too many or strange ones are the same as none. */
static void check_sections(Elf64_Ehdr *header, const ElfLimits *limits) {
        if (header->e_shnum > limits->max_headers || header->e_shentsize != section_size(header))
                header->e_shnum = 0;
}

/* The header of either class. Return: whether it is there. */
static bool take_header(const ElfInput *input, Elf64_Ehdr *header) {
        Elf32_Ehdr narrow;

        if (read_exact(input, 0, &narrow, sizeof(narrow)) || memcmp(narrow.e_ident, ELFMAG, SELFMAG))
                return false;
        *header = elf_widen_header(&narrow);
        return is_narrow(header) ||
                (header->e_ident[EI_CLASS] == ELFCLASS64 && !read_exact(input, 0, header, sizeof(*header)));
}

static int read_header(const ElfInput *input, const ElfLimits *limits, Elf64_Ehdr *header) {
        uint8_t order = __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__ ? ELFDATA2LSB : ELFDATA2MSB;

        if (!take_header(input, header) || header->e_ident[EI_DATA] != order ||
            header->e_version != EV_CURRENT || header->e_phnum > limits->max_headers ||
            (header->e_phnum && header->e_phentsize != segment_size(header)))
                return ELF_E_UNSUPPORTED;
        check_sections(header, limits);
        return 0;
}

static int read_segment_headers(const ElfInput *input, const Elf64_Ehdr *header, Elf64_Phdr *to) {
        int r = 0;

        if (!is_narrow(header))
                return read_exact(input, header->e_phoff, to, header->e_phnum * sizeof(*to));
        for (size_t i = 0; i < header->e_phnum && !r; i++) {
                Elf32_Phdr one;

                r = read_exact(input, header->e_phoff + i * sizeof(one), &one, sizeof(one));
                to[i] = r ? (Elf64_Phdr){ 0 } : elf_widen_segment(&one);
        }
        return r;
}

static int read_section_headers(const ElfInput *input, const Elf64_Ehdr *header, size_t n, Elf64_Shdr *to) {
        int r = 0;

        if (!is_narrow(header))
                return read_exact(input, header->e_shoff, to, n * sizeof(*to));
        for (size_t i = 0; i < n && !r; i++) {
                Elf32_Shdr one;

                r = read_exact(input, header->e_shoff + i * sizeof(one), &one, sizeof(one));
                to[i] = r ? (Elf64_Shdr){ 0 } : elf_widen_section(&one);
        }
        return r;
}

/* Header and tables, as told above. *imagep: malloc()ed, with room for one note behind *sizep bytes. */
static int compose_image(const ElfInput *input, const ElfLimits *limits, Elf64_Ehdr *header, char **imagep,
                         size_t *sizep) {
        size_t n_sections = header->e_phnum ? 0 : header->e_shnum;
        size_t program_size = header->e_phnum * sizeof(Elf64_Phdr);
        size_t sections_size = n_sections * sizeof(Elf64_Shdr);
        _cleanup_(freep) char *image = calloc(1, sizeof(*header) + program_size + sections_size);
        int r;

        if (!image)
                return error_origin(-ENOMEM);
        r = read_segment_headers(input, header, (Elf64_Phdr *)(image + sizeof(*header)));
        if (!r)
                r = read_section_headers(input, header, n_sections,
                                         (Elf64_Shdr *)(image + sizeof(*header) + program_size));
        if (r)
                return r;
        header->e_ident[EI_CLASS] = ELFCLASS64;
        header->e_ehsize = sizeof(*header);
        header->e_phentsize = sizeof(Elf64_Phdr);
        header->e_shentsize = sizeof(Elf64_Shdr);
        header->e_phoff = program_size ? sizeof(*header) : 0;
        header->e_shoff = sections_size ? sizeof(*header) + program_size : 0;
        header->e_shnum = (uint16_t)n_sections;
        header->e_shstrndx = SHN_UNDEF;
        memcpy(image, header, sizeof(*header));
        *imagep = take(image);
        *sizep = sizeof(*header) + program_size + sections_size;
        return 0;
}

static void take_gnu(ElfInfo *info, const uint8_t *id, size_t size) {
        if (info->gnu_size || !size || size > sizeof(info->gnu))
                return;
        memcpy(info->gnu, id, size);
        info->gnu_size = (uint32_t)size;
}

/* The id is shipped as text, so it must be some. */
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

static void walk_notes(Elf_Data *data, ElfInfo *info) {
        size_t at = 0, next, name, content;
        GElf_Nhdr note;

        for (; (next = gelf_getnote(data, at, &note, &name, &content)) > at; at = next) {
                const char *bytes = data->d_buf;

                if (note.n_namesz == 4 && !memcmp(bytes + name, "GNU", 4) && note.n_type == NT_GNU_BUILD_ID)
                        take_gnu(info, (const uint8_t *)bytes + content, note.n_descsz);
                else if (note.n_namesz == 4 && !memcmp(bytes + name, "Go\0", 4) &&
                         note.n_type == NOTE_GO_BUILD_ID)
                        take_go(info, bytes + content, note.n_descsz);
        }
}

/* Reads the notes at @offset. Notes that are not there cost the build id, not the file. */
static int read_notes(const ElfInput *input, const ElfLimits *limits, uint64_t offset, uint64_t size,
                      uint64_t align, ElfInfo *info) {
        size_t n = MIN(size, (uint64_t)limits->max_note_bytes);
        _cleanup_(freep) char *bytes = NULL;
        _cleanup_(elf_endp) Elf *elf = NULL;
        Elf_Data *data;

        if (!n)
                return 0;
        bytes = calloc(1, sizeof(Elf64_Ehdr) + n);
        if (!bytes)
                return error_origin(-ENOMEM);
        if (read_exact(input, offset, bytes + sizeof(Elf64_Ehdr), n))
                return 0;
        memcpy(bytes, ELFMAG, SELFMAG);
        bytes[EI_CLASS] = ELFCLASS64;
        bytes[EI_DATA] = __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__ ? ELFDATA2LSB : ELFDATA2MSB;
        bytes[EI_VERSION] = EV_CURRENT;
        elf = elf_memory(bytes, sizeof(Elf64_Ehdr) + n);
        data = elf ? elf_getdata_rawchunk(elf, sizeof(Elf64_Ehdr), n, align == 8 ? ELF_T_NHDR8 : ELF_T_NHDR)
                   : NULL;
        if (data)
                walk_notes(data, info);
        return 0;
}

static bool range_is_sound(const GElf_Phdr *header) {
        uint64_t sum;

        return header->p_filesz <= header->p_memsz &&
               !__builtin_add_overflow(header->p_vaddr, header->p_memsz, &sum) &&
               !__builtin_add_overflow(header->p_offset, header->p_filesz, &sum);
}

static int take_segment(const GElf_Phdr *header, ElfInfo *info) {
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

static int read_segments(Elf *elf, size_t n, const ElfInput *input, const ElfLimits *limits, ElfInfo *info) {
        uint32_t n_notes = 0;
        int r = 0;

        for (size_t i = 0; i < n && !r; i++) {
                GElf_Phdr header;

                if (!gelf_getphdr(elf, (int)i, &header))
                        return ELF_E_DAMAGED;
                info->has_tls |= header.p_type == PT_TLS;
                if (header.p_type == PT_LOAD)
                        r = take_segment(&header, info);
                else if (header.p_type == PT_NOTE && n_notes++ < limits->max_notes)
                        r = read_notes(input, limits, header.p_offset, header.p_filesz, header.p_align, info);
        }
        return r;
}

/* For a file without program headers. */
static int read_sections(Elf *elf, const ElfInput *input, const ElfLimits *limits, ElfInfo *info) {
        uint32_t n_notes = 0;
        Elf_Scn *section = NULL;
        int r = 0;

        while (!r && (section = elf_nextscn(elf, section))) {
                GElf_Shdr header;

                if (gelf_getshdr(section, &header) && header.sh_type == SHT_NOTE &&
                    n_notes++ < limits->max_notes)
                        r = read_notes(input, limits, header.sh_offset, header.sh_size, header.sh_addralign,
                                       info);
        }
        return r;
}

/*
 * Go's linker (1.24 and later) makes a section of the GNU build id, and no PT_NOTE is over it. What is
 * damaged there costs the build id alone.
 */
static int read_note_sections(const ElfInput *input, const ElfLimits *limits, const Elf64_Ehdr *header,
                              ElfInfo *info) {
        uint32_t n_notes = 0;
        int r = 0;

        for (uint32_t i = 0; i < header->e_shnum && !info->gnu_size && !r; i++) {
                Elf64_Ehdr from_here = *header;
                Elf64_Shdr section;

                if (__builtin_add_overflow(header->e_shoff, i * section_size(header), &from_here.e_shoff) ||
                    read_section_headers(input, &from_here, 1, &section))
                        return 0;
                if (section.sh_type == SHT_NOTE && n_notes++ < limits->max_notes)
                        r = read_notes(input, limits, section.sh_offset, section.sh_size,
                                       section.sh_addralign, info);
        }
        return r;
}

int elf_read(const ElfInput *input, const ElfLimits *limits, ElfInfo *infop) {
        _cleanup_(freep) char *image = NULL;
        _cleanup_(elf_endp) Elf *elf = NULL;
        ElfInfo info = { 0 };
        Elf64_Ehdr header, composed;
        size_t size = 0;
        int r;

        if (!limits)
                limits = &elf_default_limits;
        r = read_header(input, limits, &header);
        if (r)
                return r;
        composed = header;
        r = compose_image(input, limits, &composed, &image, &size);
        if (r)
                return r;
        elf_version(EV_CURRENT);
        elf = elf_memory(image, size);
        if (!elf)
                return ELF_E_DAMAGED;
        info.entry = header.e_entry;
        if (header.e_phnum)
                r = read_segments(elf, header.e_phnum, input, limits, &info);
        else
                r = read_sections(elf, input, limits, &info);
        if (!r && info.go_size && !info.gnu_size)
                r = read_note_sections(input, limits, &header, &info);
        if (r)
                return r;
        *infop = info;
        return 0;
}

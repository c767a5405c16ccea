/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Reads program headers and, only if those do not lead to call frame information, the section table.
 */

#include "host/sampling/unwind/cfi/layout.h"

#include <elf.h>
#include <string.h>

#include "border/unwind_abi.h"
#include "core/base/util/macro.h"
#include "host/sampling/unwind/cfi/arch.h"
#include "host/sampling/unwind/cfi/encoding.h"

/* Copies @size bytes at @offset; false = the file does not have them. */
static bool copy(Reader *reader, uint64_t offset, void *to, size_t size) {
        const uint8_t *data = reader_bytes(reader, offset, size);

        if (!data)
                return false;
        memcpy(to, data, size);
        return true;
}

bool layout_find(const Layout *layout, uint64_t address, uint64_t *offsetp, uint64_t *sizep) {
        for (uint32_t i = 0; i < layout->n_segments; i++) {
                const LayoutSegment *segment = &layout->segments[i];

                if (address < segment->address || address - segment->address >= segment->size)
                        continue;
                *offsetp = segment->offset + (address - segment->address);
                *sizep = segment->size - (address - segment->address);
                return true;
        }
        return false;
}

static void add_text(Layout *layout, const Elf64_Phdr *phdr) {
        uint64_t low = phdr->p_vaddr & ~(uint64_t)(UNWIND_PAGE_SIZE - 1);
        uint64_t high = phdr->p_vaddr + phdr->p_memsz + UNWIND_PAGE_SIZE - 1;

        high &= ~(uint64_t)(UNWIND_PAGE_SIZE - 1);
        if (high <= low)
                return;
        layout->text_low = MIN(layout->text_low, low);
        layout->text_high = MAX(layout->text_high, high);
}

static void add_header(Layout *layout, const Elf64_Phdr *phdr) {
        if (phdr->p_type == PT_GNU_EH_FRAME)
                layout->hdr_address = phdr->p_vaddr;
        if (phdr->p_type != PT_LOAD)
                return;
        if (layout->n_segments < LAYOUT_MAX_SEGMENTS && phdr->p_offset + phdr->p_filesz >= phdr->p_offset)
                layout->segments[layout->n_segments++] = (LayoutSegment){
                        .address = phdr->p_vaddr, .offset = phdr->p_offset, .size = phdr->p_filesz,
                };
        if (phdr->p_flags & PF_X)
                add_text(layout, phdr);
}

static int read_headers(Layout *layout, Reader *reader, Elf64_Ehdr *ehdr) {
        if (!copy(reader, 0, ehdr, sizeof(*ehdr)) || memcmp(ehdr->e_ident, ELFMAG, SELFMAG) != 0 ||
            ehdr->e_ident[EI_CLASS] != ELFCLASS64 || ehdr->e_ident[EI_DATA] != ELFDATA2LSB ||
            ehdr->e_machine != ELF_MACHINE || ehdr->e_phentsize != sizeof(Elf64_Phdr))
                return LAYOUT_E_NOT_ELF;
        for (uint32_t i = 0; i < MIN(ehdr->e_phnum, LAYOUT_MAX_HEADERS); i++) {
                Elf64_Phdr phdr;

                if (ehdr->e_phoff > INT64_MAX ||
                    !copy(reader, ehdr->e_phoff + i * sizeof(phdr), &phdr, sizeof(phdr)))
                        return LAYOUT_E_NOT_ELF;
                add_header(layout, &phdr);
        }
        if (layout->text_high <= layout->text_low || layout->text_high - layout->text_low > UINT32_MAX)
                return LAYOUT_E_NO_TEXT;
        return 0;
}

/*
 * .eh_frame_hdr: version 1, three encodings, pointer to .eh_frame, number of
 * pairs, pairs. Every linker writes the pairs as datarel sdata4 (0x3b) and sorts
 * them; a table of another form is not used, since .eh_frame alone is enough.
 */
static bool read_eh_frame_hdr(Layout *layout, Reader *reader) {
        enum { HEADER_MAX = 4 + 8 + 8 };
        Encoded where = { .address = layout->hdr_address, .data_base = layout->hdr_address };
        uint64_t offset, size, eh_frame, n = 0;
        uint8_t version, pointer, count, table;
        const uint8_t *data;
        Cursor cursor;

        if (!layout->hdr_address || !layout_find(layout, layout->hdr_address, &offset, &size))
                return false;
        size = MIN(size, (uint64_t)HEADER_MAX);
        data = reader_bytes(reader, offset, size);
        if (!data)
                return false;
        cursor = cursor_make(data, size);
        version = cursor_u8(&cursor);
        pointer = cursor_u8(&cursor);
        count = cursor_u8(&cursor);
        table = cursor_u8(&cursor);
        eh_frame = encoding_pointer(&cursor, pointer, &where);
        if (version != 1 || cursor.failed)
                return false;
        if (count != PE_OMIT && table == (PE_DATAREL | PE_SDATA4))
                n = encoding_pointer(&cursor, count, &where);
        layout->table = (HdrTable){ .offset = offset + cursor.at, .address = layout->hdr_address };
        layout->table.n = cursor.failed ? 0 : MIN(n, UINT32_MAX);
        layout->section = (CfiSection){ .address = eh_frame };
        return layout_find(layout, eh_frame, &layout->section.offset, &layout->section.size);
}

static bool is_name(Reader *reader, const Elf64_Shdr *names, const Elf64_Shdr *section, const char *name) {
        size_t size = strlen(name) + 1;
        const uint8_t *data;

        if (section->sh_name > names->sh_size || names->sh_offset > INT64_MAX)
                return false;
        data = reader_bytes(reader, names->sh_offset + section->sh_name, size);
        return data && memcmp(data, name, size) == 0;
}

static bool get_section(Reader *reader, const Elf64_Ehdr *ehdr, uint32_t index, Elf64_Shdr *section) {
        if (index >= ehdr->e_shnum || ehdr->e_shentsize != sizeof(*section) || ehdr->e_shoff > INT64_MAX)
                return false;
        return copy(reader, ehdr->e_shoff + index * sizeof(*section), section, sizeof(*section));
}

/* Finds a section by name; a compressed one (only debug files have them) counts as absent. */
static bool find_section(Layout *layout, Reader *reader, const Elf64_Ehdr *ehdr, const char *name) {
        Elf64_Shdr names, section;

        if (!get_section(reader, ehdr, ehdr->e_shstrndx, &names))
                return false;
        for (uint32_t i = 1; i < MIN(ehdr->e_shnum, LAYOUT_MAX_SECTIONS); i++) {
                if (!get_section(reader, ehdr, i, &section))
                        return false;
                if ((section.sh_type != SHT_PROGBITS && section.sh_type != ARCH_SHT_UNWIND) ||
                    (section.sh_flags & SHF_COMPRESSED) || section.sh_size == 0 ||
                    !is_name(reader, &names, &section, name))
                        continue;
                layout->section = (CfiSection){
                        .offset = section.sh_offset, .address = section.sh_addr, .size = section.sh_size,
                };
                return true;
        }
        return false;
}

static bool find_cfi(Layout *layout, Reader *reader, const Elf64_Ehdr *ehdr, LayoutCfi which) {
        if (which == LAYOUT_CFI_FIRST && read_eh_frame_hdr(layout, reader))
                return true;
        layout->table.n = 0;
        if (which == LAYOUT_CFI_FIRST && find_section(layout, reader, ehdr, ".eh_frame"))
                return true;
        if (!find_section(layout, reader, ehdr, ".debug_frame"))
                return false;
        layout->section.is_debug_frame = true;
        return true;
}

int layout_read(Layout *layout, Reader *reader, LayoutCfi which) {
        Elf64_Ehdr ehdr;
        int r;

        *layout = (Layout){ .text_low = UINT64_MAX };
        r = read_headers(layout, reader, &ehdr);
        if (r)
                return r;
        if (!find_cfi(layout, reader, &ehdr, which) || layout->section.offset > INT64_MAX)
                return LAYOUT_E_NO_CFI;
        /* Entries are known by 32-bit offsets; the largest section ever seen has 40 MiB. */
        layout->section.size = MIN(layout->section.size, (uint64_t)UINT32_MAX);
        return 0;
}

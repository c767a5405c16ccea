/* SPDX-License-Identifier: Apache-2.0 */

/*
 * How the file without text is made
 *
 *     original                                what is made
 *     ELF header                              ELF header
 *     program headers                         program headers: addresses as before, no bytes in the file
 *     .note.gnu.build-id                      .note.gnu.build-id
 *     .dynsym .dynstr                         .dynsym .dynstr
 *     .text      PROGBITS 1139 0x4f2a0 bytes  .text      NOBITS 1139 0x4f2a0 bytes, none in the file
 *     .data      PROGBITS                     .data      NOBITS
 *     .debug_line .debug_info …               .debug_line .debug_info …
 *     .debug_loc                              .debug_loc, empty: no values of variables are asked for
 *     .symtab .strtab .shstrtab               .symtab .strtab .shstrtab
 *     section headers                         section headers, as many and in the same order
 *
 * Sections keep their numbers, since symbols name them. A kept part of the file is a region; a section or a
 * note segment that lies inside of one moves along with it. Nothing is interpreted beyond headers: the bytes
 * of a region are copied. So the cost is that of reading what is kept, and a hostile file can do no more than
 * make one that readers of the result refuse.
 *
 * Program headers of memory keep p_offset, p_vaddr and p_memsz: readers turn a file's offset into an address
 * by them. p_filesz becomes 0, as `objcopy --only-keep-debug` does it: the bytes are not there.
 */
#include "core/symbol/debug/no-text.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/util/error.h"

enum {
        MAX_ALIGN = 16,
        MAX_NOTE = 64 << 10,
        PIECE = 64 << 10,
        SECTION_ALIGN = 8,
};

typedef enum Part { PART_NONE, PART_KEPT } Part;

/* ---- what is kept ---- */

static bool is_any(const char *name, const char *const *names) {
        for (; *names; names++)
                if (!strcmp(name, *names))
                        return true;
        return false;
}

/* The parts of DWARF that name functions, files and lines; not those that describe values of variables. */
static bool is_kept_name(const char *name) {
        static const char *const kept[] = {
                ".debug_abbrev",   ".debug_addr",        ".debug_aranges",     ".debug_info",
                ".debug_line",     ".debug_line_str",    ".debug_ranges",      ".debug_rnglists",
                ".debug_str",      ".debug_str_offsets", ".zdebug_abbrev",     ".zdebug_aranges",
                ".zdebug_info",    ".zdebug_line",       ".zdebug_ranges",     ".zdebug_str",
                ".gnu_debugaltlink", ".gopclntab",       ".data.rel.ro.gopclntab", ".interp",
                NULL,
        };

        return is_any(name, kept);
}

static bool is_go_table(const char *name) {
        return !strcmp(name, ".gopclntab") || !strcmp(name, ".data.rel.ro.gopclntab");
}

static uint32_t names_index(const ElfImage *image) {
        uint32_t index = image->header.e_shstrndx;

        return index == SHN_XINDEX ? image->sections[0].sh_link : index;
}

static bool is_kept(const ElfImage *image, uint32_t index) {
        const Elf64_Shdr *section = &image->sections[index];

        switch (section->sh_type) {
        case SHT_SYMTAB:
        case SHT_SYMTAB_SHNDX:
        case SHT_DYNSYM:
                return true;
        case SHT_NOTE:
                return section->sh_size <= MAX_NOTE;
        case SHT_NOBITS:
                return false;
        default:
                return is_kept_name(elf_image_section_name(image, index));
        }
}

static void mark(const ElfImage *image, Part *parts) {
        uint32_t names = names_index(image);

        for (uint32_t i = 1; i < image->n_sections; i++) {
                const Elf64_Shdr *section = &image->sections[i];

                if (!is_kept(image, i))
                        continue;
                parts[i] = PART_KEPT;
                if ((section->sh_type == SHT_SYMTAB || section->sh_type == SHT_DYNSYM) && section->sh_link &&
                    section->sh_link < image->n_sections &&
                    image->sections[section->sh_link].sh_type == SHT_STRTAB)
                        parts[section->sh_link] = PART_KEPT;
        }
        if (names && names < image->n_sections && image->sections[names].sh_type == SHT_STRTAB)
                parts[names] = PART_KEPT;
}

static void note_content(NoText *plan, const ElfImage *image, const Part *parts) {
        bool has_info = false, has_line = false;

        for (uint32_t i = 1; i < image->n_sections; i++) {
                const char *name = elf_image_section_name(image, i);

                if (!parts[i] || !image->sections[i].sh_size)
                        continue;
                plan->has_symbols |= image->sections[i].sh_type == SHT_SYMTAB || is_go_table(name);
                has_info |= !strcmp(name, ".debug_info") || !strcmp(name, ".zdebug_info");
                has_line |= !strcmp(name, ".debug_line") || !strcmp(name, ".zdebug_line");
        }
        plan->has_lines = has_info && has_line;
}

/* ---- where it goes ---- */

static uint64_t align_up(uint64_t at, uint64_t align) {
        return (at + align - 1) & ~(align - 1);
}

/* A power of two up to 16: what is kept is read and not mapped. */
static uint64_t alignment(uint64_t wanted) {
        return wanted && !(wanted & (wanted - 1)) ? MIN(wanted, (uint64_t)MAX_ALIGN) : 1;
}

/* @to: where the bytes at @offset are in what is made. Return: whether all of them are in one region. */
static bool find(const NoText *plan, uint64_t offset, uint64_t size, uint64_t *to) {
        for (uint32_t i = plan->n_regions; i-- > 0;) {
                const NoTextRegion *region = &plan->regions[i];

                if (offset >= region->from && offset - region->from <= region->size &&
                    size <= region->size - (offset - region->from)) {
                        *to = region->to + (offset - region->from);
                        return true;
                }
        }
        return false;
}

/* Return: 0, NO_TEXT_E_MALFORMED = not in the file. */
static int add_region(NoText *plan, const ElfImage *image, uint64_t from, uint64_t size, uint64_t align) {
        NoTextRegion *region = &plan->regions[plan->n_regions];

        /* Parts of an honest file do not overlap, so that their sum is no more than the file. */
        if (from > image->size || size > image->size - from || size > plan->left)
                return NO_TEXT_E_MALFORMED;
        plan->left -= size;
        *region = (NoTextRegion){ from, size, align_up(plan->size, alignment(align)) };
        plan->size = region->to + size;
        plan->n_regions++;
        return 0;
}

/*
 * Notes come as whole segments, so that those who look for a build id by segment find it. Without the name of
 * its loader a program would look like a static one.
 */
static bool is_kept_segment(const Elf64_Phdr *segment) {
        return (segment->p_type == PT_NOTE || segment->p_type == PT_INTERP) && segment->p_filesz <= MAX_NOTE;
}

static int place_segments(NoText *plan, const ElfImage *image) {
        for (uint32_t i = 0; i < plan->n_segments; i++) {
                Elf64_Phdr *segment = &plan->segments[i];

                if (is_kept_segment(segment) &&
                    !find(plan, segment->p_offset, segment->p_filesz, &segment->p_offset)) {
                        int r = add_region(plan, image, segment->p_offset, segment->p_filesz,
                                           segment->p_align);

                        if (r)
                                return r;
                        segment->p_offset = plan->regions[plan->n_regions - 1].to;
                } else if (segment->p_type == PT_PHDR) {
                        *segment = (Elf64_Phdr){ .p_type = PT_NULL };   /* for who starts a program */
                } else if (!is_kept_segment(segment)) {
                        segment->p_filesz = 0;
                }
        }
        return 0;
}

/* Empties a section. With an address it keeps its size; else it has none left. */
static void empty(Elf64_Shdr *section, uint64_t offset) {
        section->sh_offset = offset;
        if (section->sh_flags & SHF_ALLOC && section->sh_type != SHT_NULL) {
                section->sh_type = SHT_NOBITS;
                return;
        }
        section->sh_flags &= ~(Elf64_Xword)SHF_COMPRESSED;
        section->sh_size = 0;
}

static int place_sections(NoText *plan, const ElfImage *image, const Part *parts) {
        for (uint32_t i = 1; i < plan->n_sections; i++) {
                Elf64_Shdr *section = &plan->sections[i];
                int r;

                if (!parts[i]) {
                        empty(section, plan->size);
                        continue;
                }
                if (find(plan, section->sh_offset, section->sh_size, &section->sh_offset))
                        continue;
                r = add_region(plan, image, section->sh_offset, section->sh_size, section->sh_addralign);
                if (r)
                        return r;
                section->sh_offset = plan->regions[plan->n_regions - 1].to;
        }
        return 0;
}

static int copy_headers(NoText *plan, const ElfImage *image) {
        int r = elf_image_segments(image, &plan->segments, &plan->n_segments);

        if (r < 0 || r == IMAGE_E_MALFORMED || r == IMAGE_E_UNREADABLE)
                return r < 0 ? error_fold(r) : NO_TEXT_E_MALFORMED;
        plan->header = image->header;
        plan->left = image->size;
        plan->n_sections = image->n_sections;
        plan->sections = reallocarray(NULL, image->n_sections, sizeof(*plan->sections));
        plan->regions = reallocarray(NULL, image->n_sections + plan->n_segments, sizeof(*plan->regions));
        if (!plan->sections || !plan->regions)
                return error_origin(-ENOMEM);
        memcpy(plan->sections, image->sections, image->n_sections * sizeof(*plan->sections));
        plan->header.e_phnum = (Elf64_Half)plan->n_segments;
        plan->header.e_phoff = plan->n_segments ? sizeof(plan->header) : 0;
        plan->size = sizeof(plan->header) + plan->n_segments * sizeof(*plan->segments);
        return 0;
}

static int plan_all(NoText *plan, const ElfImage *image, const Part *parts) {
        int r = copy_headers(plan, image);

        if (!r)
                r = place_segments(plan, image);
        if (!r)
                r = place_sections(plan, image, parts);
        if (r)
                return r;
        plan->header.e_shoff = align_up(plan->size, SECTION_ALIGN);
        plan->size = plan->header.e_shoff + plan->n_sections * sizeof(*plan->sections);
        return 0;
}

int no_text_plan(NoText *plan, const ElfImage *image) {
        _cleanup_(freep) Part *parts = calloc(image->n_sections + 1u, sizeof(*parts));
        NoText new = { 0 };
        int r;

        if (!parts)
                return error_origin(-ENOMEM);
        if (!image->n_sections || !image->names)
                return NO_TEXT_E_NAMELESS;
        mark(image, parts);
        note_content(&new, image, parts);
        if (!new.has_symbols && !new.has_lines)
                return NO_TEXT_E_NAMELESS;
        r = plan_all(&new, image, parts);
        if (r) {
                no_text_deinit(&new);
                return r < 0 ? error_fold(r) : r;
        }
        *plan = new;
        return 0;
}

void no_text_deinit(NoText *plan) {
        free(plan->segments);
        free(plan->sections);
        free(plan->regions);
        *plan = (NoText){ 0 };
}

/* ---- making it ---- */

typedef struct Output {
        NoTextSink sink;
        void *userdata;
        uint64_t at;
} Output;

static int put(Output *output, const void *data, size_t size) {
        output->at += size;
        return size && output->sink(data, size, output->userdata) ? NO_TEXT_E_SINK : 0;
}

/* Zeros up to @to, which is less than an alignment away. */
static int pad(Output *output, uint64_t to) {
        static const char zeros[MAX_ALIGN];

        return put(output, zeros, (size_t)MIN(to - output->at, (uint64_t)MAX_ALIGN));
}

static int copy_region(Output *output, const ElfImage *image, const NoTextRegion *region) {
        int r = pad(output, region->to);

        for (uint64_t at = 0; at < region->size && !r; at += PIECE) {
                uint64_t n = MIN(region->size - at, (uint64_t)PIECE);
                _cleanup_(freep) char *data = NULL;

                r = elf_image_read(image, region->from + at, n, &data);
                if (r)
                        return r < 0 ? error_fold(r) : NO_TEXT_E_MALFORMED;
                r = put(output, data, n);
        }
        return r;
}

int no_text_write(const NoText *plan, const ElfImage *image, NoTextSink sink, void *userdata) {
        Output output = { .sink = sink, .userdata = userdata };
        int r = put(&output, &plan->header, sizeof(plan->header));

        if (!r)
                r = put(&output, plan->segments, plan->n_segments * sizeof(*plan->segments));
        for (uint32_t i = 0; i < plan->n_regions && !r; i++)
                r = copy_region(&output, image, &plan->regions[i]);
        if (!r)
                r = pad(&output, plan->header.e_shoff);
        return r ? r : put(&output, plan->sections, plan->n_sections * sizeof(*plan->sections));
}

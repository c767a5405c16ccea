/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Reads headers, sections and notes of an ELF file, each by an offset and a size that were held against the
 * size of the file before.
 */

#include "core/base/elf/image.h"

#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "core/base/data/cursor.h"
#include "core/base/elf/narrow.h"
#include "core/base/file/file.h"
#include "core/base/util/error.h"
#include "core/base/util/text.h"

static bool inside(const ElfImage *image, uint64_t offset, uint64_t size) {
        return offset <= image->size && size <= image->size - offset;
}

static int read_exact(const ElfImage *image, void *data, size_t size, uint64_t offset) {
        if (!inside(image, offset, size))
                return IMAGE_E_MALFORMED;
        if (image->data) {
                memcpy(data, image->data + offset, size);
                return 0;
        }
        return file_pread(image->fd, data, size, image->base + offset) == (ssize_t)size ? 0
                                                                                        : IMAGE_E_UNREADABLE;
}

int elf_image_read(const ElfImage *image, uint64_t offset, uint64_t size, char **datap) {
        _cleanup_(freep) char *data = NULL;
        int r;

        if (!inside(image, offset, size))
                return IMAGE_E_MALFORMED;
        data = malloc(size + 1);
        if (!data)
                return error_origin(-ENOMEM);
        r = read_exact(image, data, size, offset);
        if (r)
                return r;
        data[size] = 0;
        *datap = take(data);
        return 0;
}

/* Reads the header, which is shorter in a file of 32 bits. @may_be_narrow: such a file is read. */
static int read_header(ElfImage *image, bool may_be_narrow) {
        Elf64_Ehdr *header = &image->header;
        Elf32_Ehdr narrow;
        int r;

        if (image->size < sizeof(narrow))
                return IMAGE_E_NOT_ELF;
        r = read_exact(image, &narrow, sizeof(narrow), 0);
        if (r)
                return r;
        if (memcmp(narrow.e_ident, ELFMAG, SELFMAG) != 0)
                return IMAGE_E_NOT_ELF;
        image->is_narrow = narrow.e_ident[EI_CLASS] == ELFCLASS32;
        *header = elf_widen_header(&narrow);
        if (!image->is_narrow)
                return image->size < sizeof(*header) ? IMAGE_E_NOT_ELF
                                                     : read_exact(image, header, sizeof(*header), 0);
        return may_be_narrow ? 0 : IMAGE_E_UNSUPPORTED;
}

static int check_header(const ElfImage *image) {
        const Elf64_Ehdr *header = &image->header;

        if (header->e_ident[EI_DATA] != ELFDATA2LSB ||
            (!image->is_narrow && header->e_ident[EI_CLASS] != ELFCLASS64))
                return IMAGE_E_UNSUPPORTED;
        /* In a relocatable file a symbol's value is no address. */
        if (header->e_type != ET_EXEC && header->e_type != ET_DYN)
                return IMAGE_E_UNSUPPORTED;
        return 0;
}

/* Reads @n section headers from @offset on, which become one allocation of the caller's. */
static int read_sections(const ElfImage *image, uint64_t offset, uint64_t n, Elf64_Shdr **sectionsp) {
        _cleanup_(freep) Elf64_Shdr *wide = NULL;
        _cleanup_(freep) char *data = NULL;
        int r = elf_image_read(image, offset, n * (image->is_narrow ? sizeof(Elf32_Shdr) : sizeof(*wide)),
                               &data);

        if (r)
                return r;
        if (!image->is_narrow) {
                *sectionsp = (Elf64_Shdr *)take(data);
                return 0;
        }
        wide = calloc(n, sizeof(*wide));
        if (!wide)
                return error_origin(-ENOMEM);
        for (uint64_t i = 0; i < n; i++)
                wide[i] = elf_widen_section(&((const Elf32_Shdr *)data)[i]);
        *sectionsp = take(wide);
        return 0;
}

/* More than 65279 sections: e_shnum is 0 and section 0 has the number in sh_size (gABI, ELF header). */
static int count_sections(const ElfImage *image, uint64_t *np) {
        const Elf64_Ehdr *header = &image->header;
        _cleanup_(freep) Elf64_Shdr *first = NULL;
        int r;

        *np = 0;
        if (!header->e_shoff)
                return 0;
        if (header->e_shentsize != (image->is_narrow ? sizeof(Elf32_Shdr) : sizeof(Elf64_Shdr)))
                return IMAGE_E_MALFORMED;
        r = read_sections(image, header->e_shoff, 1, &first);
        if (r)
                return r;
        *np = header->e_shnum ? header->e_shnum : first->sh_size;
        return *np <= IMAGE_MAX_SECTIONS ? 0 : IMAGE_E_MALFORMED;
}

/* Section that holds all names; 0xffff: section 0 has its number, in sh_link (gABI, ELF header). */
static const Elf64_Shdr *names_section(const ElfImage *image) {
        uint32_t index = image->header.e_shstrndx;

        if (index == SHN_XINDEX && image->n_sections)
                index = image->sections[0].sh_link;
        return index && index < image->n_sections ? &image->sections[index] : NULL;
}

/* Reads section names. They serve to find some sections; a file is read without them too. */
static int read_names(ElfImage *image) {
        const Elf64_Shdr *section = names_section(image);
        uint64_t size = section ? MIN(section->sh_size, (uint64_t)IMAGE_MAX_NAMES) : 0;
        int r;

        if (!size || section->sh_type != SHT_STRTAB)
                return 0;
        r = elf_image_read(image, section->sh_offset, size, &image->names);
        if (r < 0)
                return error_fold(r);
        image->names_size = r ? 0 : size;
        return 0;
}

/* @image: tells where the bytes are. */
static int init(ElfImage *image, bool may_be_narrow) {
        ElfImage new = *image;
        uint64_t n;
        int r;

        r = read_header(&new, may_be_narrow);
        if (!r)
                r = check_header(&new);
        if (!r)
                r = count_sections(&new, &n);
        if (!r && n)
                r = read_sections(&new, new.header.e_shoff, n, &new.sections);
        if (r)
                return r;
        new.n_sections = (uint32_t)n;
        r = read_names(&new);
        if (r) {
                elf_image_deinit(&new);
                return error_fold(r);
        }
        *image = new;
        return 0;
}

static int init_file(ElfImage *image, int fd, uint64_t base, uint64_t size, bool may_be_narrow) {
        ElfImage new = { .fd = fd, .base = base, .size = size };
        int r = init(&new, may_be_narrow);

        if (!r)
                *image = new;
        return r < 0 ? error_fold(r) : r;
}

int elf_image_init(ElfImage *image, int fd, uint64_t base, uint64_t size) {
        return init_file(image, fd, base, size, false);
}

int elf_image_init_any(ElfImage *image, int fd, uint64_t base, uint64_t size) {
        return init_file(image, fd, base, size, true);
}

static int init_memory(ElfImage *image, const uint8_t *data, uint64_t size, bool may_be_narrow) {
        ElfImage new = { .fd = -1, .data = data, .size = size };
        int r = init(&new, may_be_narrow);

        if (!r)
                *image = new;
        return r < 0 ? error_fold(r) : r;
}

int elf_image_init_memory(ElfImage *image, const uint8_t *data, uint64_t size) {
        return init_memory(image, data, size, false);
}

int elf_image_init_memory_any(ElfImage *image, const uint8_t *data, uint64_t size) {
        return init_memory(image, data, size, true);
}

void elf_image_deinit(ElfImage *image) {
        free(image->sections);
        free(image->names);
        *image = (ElfImage){ .fd = -1 };
}

const char *elf_image_section_name(const ElfImage *image, uint32_t index) {
        uint32_t at = index < image->n_sections ? image->sections[index].sh_name : 0;

        return at < image->names_size ? image->names + at : "";
}

int elf_image_find_section(const ElfImage *image, const char *name, const Elf64_Shdr **sectionp) {
        for (uint32_t i = 1; i < image->n_sections; i++)
                if (!strcmp(elf_image_section_name(image, i), name)) {
                        *sectionp = &image->sections[i];
                        return 0;
                }
        return IMAGE_E_ABSENT;
}

int elf_image_read_section(const ElfImage *image, const char *name, uint64_t max, char **datap,
                           uint64_t *sizep) {
        const Elf64_Shdr *section;
        int r;

        if (elf_image_find_section(image, name, &section) || section->sh_type == SHT_NOBITS)
                return IMAGE_E_ABSENT;
        if (section->sh_size > max)
                return IMAGE_E_MALFORMED;
        r = elf_image_read(image, section->sh_offset, section->sh_size, datap);
        if (!r)
                *sizep = section->sh_size;
        return r < 0 ? error_fold(r) : r;
}

static void take_note(ImageIds *ids, const char *name, size_t n_name, uint32_t type, const uint8_t *data,
                      size_t size) {
        if (type == NT_GNU_BUILD_ID && n_name == 4 && !memcmp(name, "GNU", 4)) {
                if (!ids->gnu[0] && size && size <= IMAGE_MAX_BUILD_ID)
                        text_to_hex(ids->gnu, data, size);
        } else if (type == 4 && n_name == 4 && !memcmp(name, "Go\0", 4)) { /* Go's ELF_NOTE_GOBUILDID_TAG */
                if (!ids->go[0] && size && size <= IMAGE_MAX_GO_ID && text_is_utf8((const char *)data, size))
                        memcpy(ids->go, data, size);
        }
}

static void skip_padding(Cursor *cursor, uint64_t align) {
        size_t pad = (size_t)(-cursor->at & (align - 1));

        cursor_take(cursor, MIN(pad, cursor_left(cursor)));
}

/* Notes are padded to 4 bytes, in segments that are aligned to 8 to 8 (.note.gnu.property). */
static void scan_notes(ImageIds *ids, const char *data, size_t size, uint64_t align) {
        Cursor cursor = cursor_make(data, size);

        align = align == 8 ? 8 : 4;
        while (cursor_left(&cursor)) {
                uint32_t n_name = cursor_u32(&cursor), n_data = cursor_u32(&cursor),
                         type = cursor_u32(&cursor);
                const char *name = cursor_take(&cursor, n_name);
                const uint8_t *content;

                skip_padding(&cursor, align);
                content = cursor_take(&cursor, n_data);
                if (cursor.failed)
                        return;
                take_note(ids, name, n_name, type, content, n_data);
                skip_padding(&cursor, align);
        }
}

/* A table of notes that cannot be read has no id for us; the rest of the file still counts. */
static int scan_at(const ElfImage *image, ImageIds *ids, uint64_t offset, uint64_t size, uint64_t align) {
        _cleanup_(freep) char *data = NULL;
        int r;

        size = MIN(size, (uint64_t)IMAGE_MAX_NOTES);
        r = elf_image_read(image, offset, size, &data);
        if (r < 0)
                return error_fold(r);
        if (!r)
                scan_notes(ids, data, size, align);
        return 0;
}

int elf_image_segments(const ElfImage *image, Elf64_Phdr **segmentsp, uint32_t *np) {
        const Elf64_Ehdr *header = &image->header;
        uint32_t n = MIN(header->e_phnum, (uint32_t)IMAGE_MAX_PROGRAM_HEADERS);
        size_t size = image->is_narrow ? sizeof(Elf32_Phdr) : sizeof(Elf64_Phdr);
        _cleanup_(freep) Elf64_Phdr *wide = NULL;
        _cleanup_(freep) char *data = NULL;
        int r;

        if (header->e_phentsize != size || n == 0)
                return IMAGE_E_ABSENT;
        r = elf_image_read(image, header->e_phoff, n * size, &data);
        if (r)
                return r < 0 ? error_fold(r) : r;
        wide = image->is_narrow ? calloc(n, sizeof(*wide)) : (Elf64_Phdr *)take(data);
        if (!wide)
                return error_origin(-ENOMEM);
        for (uint32_t i = 0; i < n && image->is_narrow; i++)
                wide[i] = elf_widen_segment(&((const Elf32_Phdr *)data)[i]);
        *segmentsp = take(wide);
        *np = n;
        return 0;
}

static int scan_segments(const ElfImage *image, ImageIds *ids) {
        _cleanup_(freep) Elf64_Phdr *segments = NULL;
        uint32_t n;
        int r = elf_image_segments(image, &segments, &n);

        if (r)
                return r < 0 ? error_fold(r) : 0;
        for (uint32_t i = 0; i < n; i++) {
                const Elf64_Phdr *segment = &segments[i];

                if (segment->p_type == PT_NOTE)
                        r = scan_at(image, ids, segment->p_offset, segment->p_filesz, segment->p_align);
                if (r)
                        return error_fold(r);
        }
        return 0;
}

/* Debug files keep the program headers of the object they were split from, which point nowhere here. */
static int scan_sections(const ElfImage *image, ImageIds *ids) {
        for (uint32_t i = 0; i < image->n_sections && !ids->gnu[0]; i++) {
                const Elf64_Shdr *section = &image->sections[i];
                int r;

                if (section->sh_type != SHT_NOTE)
                        continue;
                r = scan_at(image, ids, section->sh_offset, section->sh_size, section->sh_addralign);
                if (r)
                        return error_fold(r);
        }
        return 0;
}

int elf_image_ids(const ElfImage *image, ImageIds *ids) {
        ImageIds found = { 0 };
        int r = scan_segments(image, &found);

        if (!r)
                r = scan_sections(image, &found);
        if (r)
                return error_fold(r);
        *ids = found;
        return 0;
}

/* ---- large parts ---- */

void image_bytes_deinit(ImageBytes *bytes) {
        free(bytes->owned);
        if (bytes->map)
                munmap(bytes->map, bytes->map_size);
        *bytes = (ImageBytes){ 0 };
}

/* Maps bytes instead of copying them, since they may be hundreds of MiB. */
static int map_bytes(const ElfImage *image, uint64_t offset, uint64_t size, ImageBytes *to) {
        uint64_t start = image->base + offset, before = start % (uint64_t)sysconf(_SC_PAGESIZE);
        char *map = mmap(NULL, size + before, PROT_READ, MAP_PRIVATE, image->fd, (off_t)(start - before));

        if (map == MAP_FAILED)
                return IMAGE_E_UNREADABLE;
        *to = (ImageBytes){ .data = map + before, .size = size, .map = map, .map_size = size + before };
        return 0;
}

int image_bytes_init(ImageBytes *to, const ElfImage *image, uint64_t offset, uint64_t size, bool may_map) {
        char *owned;
        int r;

        if (offset > image->size || size > image->size - offset)
                return IMAGE_E_MALFORMED;
        if (image->data) {
                *to = (ImageBytes){ .data = (const char *)image->data + offset, .size = size };
                return 0;
        }
        if (may_map && size)
                return map_bytes(image, offset, size, to);
        r = elf_image_read(image, offset, size, &owned);
        if (r)
                return r < 0 ? error_fold(r) : r;
        *to = (ImageBytes){ .data = owned, .size = size, .owned = owned };
        return 0;
}

/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Go's linker writes a section .go.buildinfo, which stripping leaves alone. Since Go 1.18:
 *
 *      0  "\xff Go buildinf:", size of a pointer, flags: 2 = strings follow
 *     32  size of the version's text (varint), the text
 *
 * Each thread has its goroutine in a thread-local variable, runtime.tlsg. Where that lies:
 *
 *     no PT_TLS                the linker's own convention: 8 below the thread pointer
 *     PT_TLS of 8 bytes        the same: nothing else is in it
 *     PT_TLS of more, .symtab  st_value - the block's size, aligned (ELF Handling for TLS, variant II)
 *     … and stripped           code: each function that C's calling convention enters loads it into r14
 *
 *         64 4c 8b 34 25 80 ff ff ff      mov %fs:-128,%r14
 *         49 c7 c6 80 ff ff ff  64 4d 8b 36        mov $-128,%r14; mov %fs:(%r14),%r14
 *
 * Compilers of C do not keep anything in r14 that way. Two instructions that agree are asked for.
 *
 * A library's block lies where the dynamic linker puts it. It writes the offset into a word, by a
 * relocation without a symbol, since the variable is the library's own:
 *
 *     1d1fb8  R_X86_64_TPOFF64  0          addend: st_value of runtime.tlsg
 *
 * All of that is x86-64's. On arm64 a register is reserved for it.
 */
#include "host/runtime/go/go-program.h"

#include <elf.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/file/file.h"
#include "core/base/util/macro.h"

enum {
        MAX_SECTIONS = 512,
        MAX_SEGMENTS = 64,
        MAX_NAMES = 64 << 10,           /* bytes of the sections' names */
        MAX_CODE = 16 << 20,            /* bytes of all segments together */
        CODE_CHUNK = 256 << 10,
        CODE_OVERLAP = 16,
        MAX_SYMBOLS = 1 << 20,          /* more are not looked through */
        MAX_LOOKS = 1 << 18,            /* names of symbols that are read, */
        MAX_TLS_LOOKS = 1 << 12,        /* … of those of thread-local variables, */
        MAX_SYMBOL_NAME = 32,           /* symbols whose names are read, */
        SYMBOLS_CHUNK = 4096,
        MAX_RELOCATIONS = 1 << 20,
        MAX_DYNAMIC = 256,              /* entries of the dynamic section */
        BUILD_INFO_SIZE = 96,
        DEFAULT_TLS = -8,
        MAX_TLS = 1 << 20,              /* bytes of a block; glibc's static one is far smaller */
};

/* Parts of the file that are read at once. */
typedef struct Image {
        const GoInput *input;
        Elf64_Ehdr header;
        Elf64_Phdr segments[MAX_SEGMENTS];
        Elf64_Shdr *sections;           /* owned */
        char *names;                    /* owned; ends with a NUL */
        uint64_t names_size;
} Image;

static bool read_at(const GoInput *input, uint64_t offset, void *to, uint64_t size) {
        if (offset > input->size || size > input->size - offset)
                return false;
        if (input->fd < 0)
                memcpy(to, (const char *)input->data + offset, size);
        else if (file_pread(input->fd, to, size, offset) != (ssize_t)size)
                return false;
        return true;
}

static void image_deinit(Image *image) {
        free(image->sections);
        free(image->names);
}

static bool header_is_sound(const Elf64_Ehdr *header) {
        return !memcmp(header->e_ident, ELFMAG, SELFMAG) && header->e_ident[EI_CLASS] == ELFCLASS64 &&
                header->e_ident[EI_DATA] == ELFDATA2LSB &&
                (header->e_machine == EM_X86_64 || header->e_machine == EM_AARCH64) &&
                header->e_phentsize == sizeof(Elf64_Phdr) && header->e_phnum <= MAX_SEGMENTS &&
                header->e_shentsize == sizeof(Elf64_Shdr) && header->e_shnum <= MAX_SECTIONS &&
                header->e_shstrndx < header->e_shnum;
}

/* Return: whether it could be read; image_deinit() in any case. */
static bool image_init(Image *image, const GoInput *input) {
        const Elf64_Shdr *names;

        *image = (Image){ .input = input };
        if (!read_at(input, 0, &image->header, sizeof(image->header)) || !header_is_sound(&image->header) ||
            !read_at(input, image->header.e_phoff, image->segments,
                     image->header.e_phnum * sizeof(*image->segments)))
                return false;
        image->sections = calloc(image->header.e_shnum, sizeof(*image->sections));
        if (!image->sections || !read_at(input, image->header.e_shoff, image->sections,
                                         image->header.e_shnum * sizeof(*image->sections)))
                return false;
        names = &image->sections[image->header.e_shstrndx];
        image->names_size = MIN(names->sh_size, (uint64_t)MAX_NAMES);
        image->names = calloc(1, image->names_size + 1);
        return image->names && read_at(input, names->sh_offset, image->names, image->names_size);
}

static const Elf64_Shdr *find_section(const Image *image, const char *name) {
        for (unsigned i = 0; i < image->header.e_shnum; i++)
                if (image->sections[i].sh_name < image->names_size &&
                    !strcmp(image->names + image->sections[i].sh_name, name))
                        return &image->sections[i];
        return NULL;
}

static const Elf64_Phdr *find_segment(const Image *image, uint32_t type) {
        for (unsigned i = 0; i < image->header.e_phnum; i++)
                if (image->segments[i].p_type == type)
                        return &image->segments[i];
        return NULL;
}

/* ---- the version ---- */

uint32_t go_version_minor(const char *version) {
        unsigned long minor;
        char *end;

        if (!strncmp(version, "devel ", 6))
                version += 6;
        if (strncmp(version, "go1.", 4) || version[4] < '1' || version[4] > '9')
                return 0;
        minor = strtoul(version + 4, &end, 10);
        return minor < 1000 ? (uint32_t)minor : 0;
}

static void take_version(const char *text, size_t size, GoProgram *program) {
        size_t skipped = size > 6 && !memcmp(text, "devel ", 6) ? 6 : 0, n = 0;

        for (size_t i = skipped; i < size && n + 1 < sizeof(program->version); i++) {
                if (text[i] <= ' ' || text[i] > '~')
                        break;
                program->version[n++] = text[i];
        }
        program->version[n] = 0;
        program->minor = go_version_minor(program->version);
}

/* Return: whether the file has a build info of the form that there is since Go 1.18. */
static bool read_version(const Image *image, GoProgram *program) {
        static const char magic[] = "\xff Go buildinf:";
        const Elf64_Shdr *section = find_section(image, ".go.buildinfo");
        char info[BUILD_INFO_SIZE] = "";
        uint64_t size;

        if (!section || section->sh_type == SHT_NOBITS)
                return false;
        size = MIN(section->sh_size, (uint64_t)sizeof(info));
        if (size < 33 || !read_at(image->input, section->sh_offset, info, size) ||
            memcmp(info, magic, sizeof(magic) - 1))
                return false;
        /* a varint of more than one byte would be a text of 128 or more */
        if (info[15] & 2 && !(info[32] & 0x80))
                take_version(info + 33, MIN((uint64_t)(uint8_t)info[32], size - 33), program);
        return true;
}

/* ---- the place of g ---- */

static int64_t from_block(const Elf64_Phdr *tls, uint64_t value) {
        uint64_t align = tls->p_align > 1 && tls->p_align <= MAX_TLS ? tls->p_align : 1;
        uint64_t size = (tls->p_memsz + align - 1) / align * align;

        return (int64_t)value - (int64_t)size;
}

bool go_tls_offset_is_sound(int64_t offset) {
        return offset < 0 && offset >= -MAX_TLS && !(offset & 7);
}

static bool is_place(const Elf64_Phdr *tls, int64_t offset) {
        return go_tls_offset_is_sound(offset) && offset >= from_block(tls, 0);
}

/* ---- symbols ---- */

/* The aim of a visit() of each symbol. */
typedef struct Search {
        const Image *image;
        const Elf64_Shdr *strings;
        uint64_t n_looks;               /* names that were read */
} Search;

static bool is_called(Search *search, const Elf64_Sym *symbol, const char *name) {
        char text[MAX_SYMBOL_NAME];
        size_t size = strlen(name) + 1;

        return symbol->st_name < search->strings->sh_size &&
                search->strings->sh_offset <= search->image->input->size && search->n_looks++ < MAX_LOOKS &&
                read_at(search->image->input, search->strings->sh_offset + symbol->st_name, text, size) &&
                !memcmp(text, name, size);
}

/* Calls @visit for each symbol until it returns true. */
static void visit_symbols(const Image *image, bool (*visit)(Search *, const Elf64_Sym *, void *),
                          void *userdata) {
        const Elf64_Shdr *table = find_section(image, ".symtab");
        _cleanup_(freep) Elf64_Sym *symbols = NULL;
        Search search = { .image = image };
        uint64_t n;

        if (!table || table->sh_link >= image->header.e_shnum)
                return;
        search.strings = &image->sections[table->sh_link];
        n = MIN(table->sh_size / sizeof(*symbols), (uint64_t)MAX_SYMBOLS);
        symbols = malloc(SYMBOLS_CHUNK * sizeof(*symbols));
        for (uint64_t i = 0; symbols && i < n; i += SYMBOLS_CHUNK) {
                uint64_t chunk = MIN(n - i, (uint64_t)SYMBOLS_CHUNK);

                if (!read_at(image->input, table->sh_offset + i * sizeof(*symbols), symbols,
                             chunk * sizeof(*symbols)))
                        return;
                for (uint64_t k = 0; k < chunk; k++)
                        if (visit(&search, &symbols[k], userdata))
                                return;
        }
}

/* ---- the place of g, by its symbol ---- */

typedef struct TlsPlace {
        const Elf64_Phdr *tls;
        int64_t offset;
        bool is_found;
} TlsPlace;

static bool look_for_tlsg(Search *search, const Elf64_Sym *symbol, void *userdata) {
        TlsPlace *place = userdata;

        if (ELF64_ST_TYPE(symbol->st_info) != STT_TLS || !is_called(search, symbol, "runtime.tlsg"))
                return search->n_looks >= MAX_TLS_LOOKS;
        place->offset = from_block(place->tls, MIN(symbol->st_value, (uint64_t)MAX_TLS));
        place->is_found = is_place(place->tls, place->offset);
        return true;
}

static bool find_by_symbol(const Image *image, const Elf64_Phdr *tls, int64_t *offsetp) {
        TlsPlace place = { .tls = tls };

        visit_symbols(image, look_for_tlsg, &place);
        if (place.is_found)
                *offsetp = place.offset;
        return place.is_found;
}

/* ---- the list of goroutines ---- */

typedef struct ListPlace {
        uint64_t list, length;
} ListPlace;

static bool look_for_list(Search *search, const Elf64_Sym *symbol, void *userdata) {
        ListPlace *place = userdata;

        if (ELF64_ST_TYPE(symbol->st_info) != STT_OBJECT || symbol->st_size != 8)
                return false;
        if (is_called(search, symbol, "runtime.allgptr"))
                place->list = symbol->st_value;
        else if (is_called(search, symbol, "runtime.allglen"))
                place->length = symbol->st_value;
        return place->list && place->length;
}

/* ---- the place of g, by code ---- */

/* Whether an instruction at @code (CODE_OVERLAP bytes) loads g into r14. */
static bool loads_g(const uint8_t *code, int64_t *offsetp) {
        static const uint8_t direct[] = { 0x64, 0x4c, 0x8b, 0x34, 0x25 },
                             by_register[] = { 0x49, 0xc7, 0xc6 }, behind[] = { 0x64, 0x4d, 0x8b, 0x36 };
        int32_t offset;

        if (!memcmp(code, direct, sizeof(direct)))
                memcpy(&offset, code + sizeof(direct), sizeof(offset));
        else if (!memcmp(code, by_register, sizeof(by_register)) && !memcmp(code + 7, behind, sizeof(behind)))
                memcpy(&offset, code + sizeof(by_register), sizeof(offset));
        else
                return false;
        *offsetp = offset;
        return true;
}

/* Return: whether two of them agree, before any two that do not. *@leftp: bytes that may be read. */
static bool find_in_code(const Image *image, const Elf64_Phdr *tls, const Elf64_Phdr *code,
                         uint64_t *leftp, int64_t *offsetp) {
        uint64_t size = MIN(code->p_filesz, *leftp);
        _cleanup_(freep) uint8_t *chunk = malloc(CODE_CHUNK + CODE_OVERLAP);
        int64_t first = 0, offset;

        *leftp -= size;
        for (uint64_t at = 0; chunk && at + CODE_OVERLAP < size; at += CODE_CHUNK) {
                uint64_t n = MIN(size - at, (uint64_t)CODE_CHUNK + CODE_OVERLAP);

                if (!read_at(image->input, code->p_offset + at, chunk, n))
                        return false;
                for (uint64_t i = 0; i + CODE_OVERLAP < n; i++) {
                        if ((chunk[i] != 0x64 && chunk[i] != 0x49) || !loads_g(chunk + i, &offset) ||
                            !is_place(tls, offset))
                                continue;
                        if (first) {
                                *offsetp = offset;
                                return first == offset;
                        }
                        first = offset;
                }
        }
        return false;
}

/* ---- the place of g, of a library ---- */

typedef struct WordPlace {
        uint64_t value;                 /* value of runtime.tlsg */
        bool has_value;
        uint64_t word;
        uint32_t n_words;
} WordPlace;

static bool look_for_value(Search *search, const Elf64_Sym *symbol, void *userdata) {
        WordPlace *place = userdata;

        if (ELF64_ST_TYPE(symbol->st_info) != STT_TLS || !is_called(search, symbol, "runtime.tlsg"))
                return search->n_looks >= MAX_TLS_LOOKS;
        place->value = symbol->st_value;
        place->has_value = true;
        return true;
}

static void take_relocation(const Elf64_Rela *relocation, WordPlace *place) {
        if (relocation->r_info != R_X86_64_TPOFF64 ||
            (place->has_value && (uint64_t)relocation->r_addend != place->value))
                return;
        place->word = relocation->r_offset;
        place->n_words++;
}

static void look_through_relocations(const Image *image, const Elf64_Shdr *section, WordPlace *place) {
        uint64_t n = MIN(section->sh_size / sizeof(Elf64_Rela), (uint64_t)MAX_RELOCATIONS);
        _cleanup_(freep) Elf64_Rela *chunk = malloc(SYMBOLS_CHUNK * sizeof(*chunk));

        for (uint64_t i = 0; chunk && i < n; i += SYMBOLS_CHUNK) {
                uint64_t size = MIN(n - i, (uint64_t)SYMBOLS_CHUNK);

                if (!read_at(image->input, section->sh_offset + i * sizeof(*chunk), chunk,
                             size * sizeof(*chunk)))
                        return;
                for (uint64_t k = 0; k < size; k++)
                        take_relocation(&chunk[k], place);
        }
}

/* Return: whether there is one word. Stripped, with variables of C of the same kind, there are more. */
static bool find_word(const Image *image, uint64_t *wordp) {
        const Elf64_Shdr *section = find_section(image, ".rela.dyn");
        WordPlace place = { 0 };

        if (!section || section->sh_type != SHT_RELA)
                return false;
        visit_symbols(image, look_for_value, &place);
        look_through_relocations(image, section, &place);
        *wordp = place.word;
        return place.n_words == 1;
}

/* ---- all of it ---- */

static bool find_in_all_code(const Image *image, const Elf64_Phdr *tls, int64_t *offsetp) {
        uint64_t left = MAX_CODE;

        for (unsigned i = 0; tls->p_memsz <= MAX_TLS && i < image->header.e_phnum; i++)
                if (image->segments[i].p_type == PT_LOAD && image->segments[i].p_flags & PF_X &&
                    find_in_code(image, tls, &image->segments[i], &left, offsetp))
                        return true;
        return false;
}

static GoTls find_tls(const Image *image, GoProgram *program) {
        const Elf64_Phdr *tls = find_segment(image, PT_TLS);

        if (image->header.e_machine == EM_AARCH64)
                return GO_TLS_NONE;
        if (program->is_library)
                return find_word(image, &program->tls_word) ? GO_TLS_IN_WORD : GO_TLS_UNKNOWN;
        program->tls_offset = DEFAULT_TLS;
        if (!tls || tls->p_memsz == 8)
                return GO_TLS_KNOWN;
        if (tls->p_memsz <= MAX_TLS && find_by_symbol(image, tls, &program->tls_offset))
                return GO_TLS_KNOWN;
        return find_in_all_code(image, tls, &program->tls_offset) ? GO_TLS_KNOWN : GO_TLS_UNKNOWN;
}

/* An executable that may lie anywhere, and has no dynamic linker (-static-pie), says so itself. */
static bool is_static_pie(const Image *image) {
        const Elf64_Phdr *dynamic = find_segment(image, PT_DYNAMIC);
        Elf64_Dyn entries[MAX_DYNAMIC];
        uint64_t n;

        if (!dynamic)
                return false;
        n = MIN(dynamic->p_filesz / sizeof(*entries), (uint64_t)MAX_DYNAMIC);
        if (!read_at(image->input, dynamic->p_offset, entries, n * sizeof(*entries)))
                return false;
        for (uint64_t i = 0; i < n && entries[i].d_tag != DT_NULL; i++)
                if (entries[i].d_tag == DT_FLAGS_1)
                        return entries[i].d_un.d_val & DF_1_PIE;
        return false;
}

static bool is_executable(const Image *image) {
        return image->header.e_type == ET_EXEC || find_segment(image, PT_INTERP) || is_static_pie(image);
}

static bool recognise(Image *image, const GoInput *input, GoProgram *program) {
        if (!image_init(image, input) || !read_version(image, program))
                return false;
        program->is_library = !is_executable(image);
        return true;
}

bool go_program_is(const GoInput *input, bool *is_libraryp) {
        GoProgram program = { 0 };
        Image image;
        bool is = recognise(&image, input, &program);

        image_deinit(&image);
        *is_libraryp = program.is_library;
        return is;
}

bool go_program_read(const GoInput *input, GoProgram *program) {
        GoProgram found = { 0 };
        Image image;
        bool is = recognise(&image, input, &found);

        if (is) {
                found.tls = find_tls(&image, &found);
                *program = found;
        }
        image_deinit(&image);
        return is;
}

bool go_program_find_list(const GoInput *input, uint64_t *listp, uint64_t *lengthp) {
        ListPlace place = { 0 };
        Image image;

        if (image_init(&image, input))
                visit_symbols(&image, look_for_list, &place);
        image_deinit(&image);
        if (!place.list || !place.length)
                return false;
        *listp = place.list;
        *lengthp = place.length;
        return true;
}

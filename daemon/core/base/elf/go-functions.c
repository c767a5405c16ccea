/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Go drops symbols with `-ldflags "-s -w"`, but never .gopclntab, which its unwinder and its panics need.
 * Since Go 1.18 the table has this form:
 *
 *       0  u32 0xfffffff0 (Go 1.18) or 0xfffffff1 (Go 1.20), u8 0, 0, smallest instruction, size of a pointer
 *       8  u64 number of functions, number of files, runtime.text (0 in newer versions and by some linkers)
 *      32  u64 offsets of the parts: names | units | files | values by pc | functions
 *   names      strings, each with a NUL
 *   functions  { u32 start, u32 at } in order of start, then u32, the end of the last; start counts from
 *              runtime.text
 *          at  { u32 start, u32 name, ... }; `at` counts from functions, `name` from names
 *
 * The table is found by the name of its section. Where a linker has put it among other data, or the file has
 * no sections, it is found by its first bytes.
 *
 * Function starts count from runtime.text, where Go's code begins: the start of .text, unless C's objects lie
 * before it (-linkmode=external). Newer versions of Go leave that address out of the header. All versions
 * have it in runtime.firstmoduledata, which begins with the addresses of the table's parts:
 *
 *     word   0  the table                 in a position-independent program these words are relocations; with
 *            1, 4, 7, 10, 13  its parts   some linkers (gold, lld) the words themselves are zero
 *            17  number of functions + 1
 *            20  the first function
 *            22  runtime.text
 *            36 to 47  some other addresses: go-lines.c
 *
 * The writable segments are searched for these words; nothing else has them all.
 */
#include "core/base/elf/go-functions.h"

#include <stdlib.h>
#include <string.h>

#include "core/base/elf/machine.h"
#include "core/base/util/error.h"
#include "core/base/util/macro.h"

enum {
        POINTER = 8,
        ENTRY = 8,                      /* bytes of an entry in the table of functions */
        UNIT = 6,                       /* offsets in the header */
        N_FUNCTIONS = 8,
        TEXT = 24,
        PARTS = 32,
};

/* ---- the table ---- */

uint32_t go_table_count(const char *data) {
        /* bytes of an instruction: 1 on x86-64, 4 on arm64 */
        static const char sound[][8] = { { (char)GO_TABLE_MAGIC_118, -1, -1, -1, 0, 0, 1, POINTER },
                                         { (char)GO_TABLE_MAGIC_118, -1, -1, -1, 0, 0, 4, POINTER },
                                         { (char)GO_TABLE_MAGIC_120, -1, -1, -1, 0, 0, 1, POINTER },
                                         { (char)GO_TABLE_MAGIC_120, -1, -1, -1, 0, 0, 4, POINTER } };
        uint64_t n = go_table_word(data + N_FUNCTIONS);

        for (size_t i = 0; i < ARRAY_SIZE(sound); i++)
                if (!memcmp(data, sound[i], sizeof(sound[i])))
                        return n <= UINT32_MAX ? (uint32_t)n : 0;
        return 0;
}

uint32_t go_table_unit(const GoTable *table) {
        return (uint8_t)table->data[UNIT];
}

bool go_table_init(GoTable *table, const char *data, uint64_t size) {
        GoTable new = { .data = data, .size = size };
        uint64_t before = GO_TABLE_HEADER;

        if (size < GO_TABLE_HEADER)
                return false;
        new.n = go_table_count(data);
        new.text = go_table_word(data + TEXT);
        for (unsigned i = 0; i < GO_N_PARTS; i++) {
                new.parts[i] = go_table_word(data + PARTS + i * sizeof(uint64_t));
                if (new.parts[i] < before || new.parts[i] > size)
                        return false;
                before = new.parts[i];
        }
        if (!new.n || size - before < new.n * (uint64_t)ENTRY + sizeof(uint32_t))
                return false;
        *table = new;
        return true;
}

uint32_t go_table_start_of(const GoTable *table, uint32_t index) {
        return go_table_u32(table->data + table->parts[GO_FUNCTIONS] + index * (uint64_t)ENTRY);
}

/* Entries with the functions' names lie behind the list of functions, in the same part. */
static bool find_name(const GoTable *table, uint32_t at, GoFunction *function) {
        uint64_t room = table->size - table->parts[GO_FUNCTIONS],
                 left = table->parts[GO_UNITS] - table->parts[GO_NAMES];
        uint32_t name;

        if (at > room || room - at < 2 * sizeof(uint32_t))
                return false;
        name = go_table_u32(table->data + table->parts[GO_FUNCTIONS] + at + sizeof(uint32_t));
        if (name >= left)
                return false;
        function->name = table->data + table->parts[GO_NAMES] + name;
        left -= name;
        function->n_name = (uint16_t)strnlen(function->name, MIN(left, (uint64_t)GO_MAX_NAME));
        return function->n_name && function->n_name < left;
}

bool go_table_function(const GoTable *table, uint32_t index, GoFunction *function) {
        uint32_t start = go_table_start_of(table, index), next = go_table_start_of(table, index + 1);
        GoFunction new = { .start = start, .size = next > start ? next - start : 0 };

        if (!find_name(table,
                       go_table_u32(table->data + table->parts[GO_FUNCTIONS] + index * (uint64_t)ENTRY +
                                    sizeof(uint32_t)),
                       &new))
                return false;
        *function = new;
        return true;
}

bool go_function_has_name(const GoFunction *function, const char *name) {
        return function->n_name == strlen(name) && !memcmp(function->name, name, function->n_name);
}

uint32_t go_table_start(const GoTable *table) {
        return go_table_start_of(table, 0);
}

uint32_t go_table_end(const GoTable *table) {
        return go_table_start_of(table, table->n);
}

enum {
        MODULE_WORDS = 48,
        MODULE_NEEDED = 24,
        MODULE_N = 17,
        MODULE_FIRST = 20,
        MODULE_TEXT = 22,
        /* words that may be what funcdata count from; a segment may end before them */
        MODULE_BASES = MODULE_WORDS - GO_N_BASES,
        MAX_TABLES = 4,                 /* places that look like a table */
        MAX_MODULES = 8,                /* pointers to one of them */
        SEARCHED = 4,                   /* bytes that are searched, in multiples of the largest table */
        MAX_DYNAMIC = 64 << 10,         /* bytes of the dynamic section */
};

/* First word of a table. Its last bit tells versions apart: go_table_count(). */
#define TABLE_BEGINS UINT64_C(0x08010000fffffff0)

typedef struct Reader {
        const ElfImage *image;
        Elf64_Phdr *segments;
        uint32_t n_segments;
        uint64_t max_bytes;
        /* bytes that may still be searched: a crafted file has many segments, one over another */
        uint64_t left;
        bool may_map;
        GoTable table;
        uint64_t address;               /* ELF address of the table */
        uint64_t bases[GO_N_BASES];
} Reader;

void go_functions_deinit(GoFunctions *functions) {
        image_bytes_deinit(&functions->bytes);
        *functions = (GoFunctions){ 0 };
}

/* ---- runtime.text ---- */

static bool is_code(const Reader *reader, uint64_t text) {
        uint64_t size = go_table_end(&reader->table);

        for (uint32_t i = 0; i < reader->n_segments; i++) {
                const Elf64_Phdr *segment = &reader->segments[i];

                if (segment->p_type == PT_LOAD && segment->p_flags & PF_X && text >= segment->p_vaddr &&
                    text - segment->p_vaddr <= segment->p_memsz &&
                    size <= segment->p_memsz - (text - segment->p_vaddr))
                        return true;
        }
        return false;
}

static bool is_module(const Reader *reader, const uint64_t words[MODULE_WORDS]) {
        for (unsigned part = 0; part < GO_N_PARTS; part++)
                if (words[1 + 3 * part] != reader->address + reader->table.parts[part])
                        return false;
        return words[0] == reader->address && words[MODULE_N] == reader->table.n + UINT64_C(1) &&
                words[MODULE_FIRST] == words[MODULE_TEXT] + go_table_start(&reader->table) &&
                is_code(reader, words[MODULE_TEXT]);
}

static void take_module(Reader *reader, const uint64_t words[MODULE_WORDS], uint64_t *textp) {
        *textp = words[MODULE_TEXT];
        memcpy(reader->bases, words + MODULE_BASES, sizeof(reader->bases));
}

/* Looks for runtime.firstmoduledata in bytes of a segment, which begin at a multiple of 8. */
static bool find_module(Reader *reader, const ImageBytes *bytes, uint64_t *textp) {
        const uint64_t needed = MODULE_NEEDED * sizeof(uint64_t);

        for (uint64_t at = 0; at + needed <= bytes->size; at += sizeof(uint64_t)) {
                uint64_t words[MODULE_WORDS] = { 0 };

                if (go_table_word(bytes->data + at) != reader->address)
                        continue;
                memcpy(words, bytes->data + at, MIN(sizeof(words), bytes->size - at));
                if (is_module(reader, words)) {
                        take_module(reader, words, textp);
                        return true;
                }
        }
        return false;
}

/* Bytes that the file has of a segment, from the first multiple of 8. Return: 0, IMAGE_E_*, -ENOMEM. */
static int take_segment(Reader *reader, const Elf64_Phdr *segment, ImageBytes *bytes, uint64_t *addressp) {
        uint64_t before = -segment->p_vaddr & 7, size;
        int r;

        if (segment->p_type != PT_LOAD || segment->p_filesz < before ||
            segment->p_offset > UINT64_MAX - before)
                return IMAGE_E_ABSENT;
        size = MIN(MIN(segment->p_filesz - before, reader->max_bytes), reader->left);
        reader->left -= size;
        r = image_bytes_init(bytes, reader->image, segment->p_offset + before, size, reader->may_map);
        *addressp = segment->p_vaddr + before;
        return r < 0 ? error_fold(r) : r;
}

/* Return: 0, GO_FUNCTIONS_E_NONE, -ENOMEM. */
static int find_text_in_data(Reader *reader, uint64_t *textp) {
        for (uint32_t i = 0; i < reader->n_segments; i++) {
                _cleanup_(image_bytes_deinit) ImageBytes bytes = { 0 };
                uint64_t address;
                int r;

                if (!(reader->segments[i].p_flags & PF_W))
                        continue;
                r = take_segment(reader, &reader->segments[i], &bytes, &address);
                if (r < 0)
                        return error_fold(r);
                if (!r && find_module(reader, &bytes, textp))
                        return 0;
        }
        return GO_FUNCTIONS_E_NONE;
}

/* ---- runtime.text, where the words are relocations ---- */

/* File offset of @size bytes at @address. Return: whether the file has all of them. */
static bool find_offset(const Reader *reader, uint64_t address, uint64_t size, uint64_t *offsetp) {
        for (uint32_t i = 0; i < reader->n_segments; i++) {
                const Elf64_Phdr *segment = &reader->segments[i];

                if (segment->p_type != PT_LOAD || address < segment->p_vaddr ||
                    address - segment->p_vaddr > segment->p_filesz ||
                    size > segment->p_filesz - (address - segment->p_vaddr))
                        continue;
                *offsetp = segment->p_offset + (address - segment->p_vaddr);
                return true;
        }
        return false;
}

static int take_addresses(const Reader *reader, uint64_t address, uint64_t size, ImageBytes *bytes) {
        uint64_t offset;
        int r;

        if (size > reader->max_bytes || !find_offset(reader, address, size, &offset))
                return IMAGE_E_ABSENT;
        r = image_bytes_init(bytes, reader->image, offset, size, reader->may_map);
        return r < 0 ? error_fold(r) : r;
}

/* Return: 0, IMAGE_E_*, -ENOMEM. */
static int take_relocations(const Reader *reader, ImageBytes *relocations) {
        _cleanup_(freep) char *dynamic = NULL;
        uint64_t size = 0, address = 0, n_bytes = 0;
        int r = IMAGE_E_ABSENT;

        for (uint32_t i = 0; i < reader->n_segments && r == IMAGE_E_ABSENT; i++)
                if (reader->segments[i].p_type == PT_DYNAMIC) {
                        size = MIN(reader->segments[i].p_filesz, (uint64_t)MAX_DYNAMIC);
                        r = elf_image_read(reader->image, reader->segments[i].p_offset, size, &dynamic);
                }
        if (r)
                return r < 0 ? error_fold(r) : r;
        for (uint64_t at = 0; at + sizeof(Elf64_Dyn) <= size; at += sizeof(Elf64_Dyn)) {
                Elf64_Dyn entry;

                memcpy(&entry, dynamic + at, sizeof(entry));
                address = entry.d_tag == DT_RELA ? entry.d_un.d_ptr : address;
                n_bytes = entry.d_tag == DT_RELASZ ? entry.d_un.d_val : n_bytes;
        }
        r = take_addresses(reader, address, n_bytes, relocations);
        return r < 0 ? error_fold(r) : r;
}

static bool next_relative(const ImageBytes *relocations, uint64_t *atp, Elf64_Rela *rela) {
        while (relocations->size - *atp >= sizeof(*rela)) {
                memcpy(rela, relocations->data + *atp, sizeof(*rela));
                *atp += sizeof(*rela);
                if (ELF64_R_TYPE(rela->r_info) == ELF_RELATIVE)
                        return true;
        }
        return false;
}

/*
 * Words at @module as the dynamic linker leaves them if the program is loaded at its own addresses.
 * Return: 0, IMAGE_E_*, -ENOMEM.
 */
static int relocate(const Reader *reader, const ImageBytes *relocations, uint64_t module,
                    uint64_t words[MODULE_WORDS]) {
        _cleanup_(image_bytes_deinit) ImageBytes bytes = { 0 };
        uint64_t size = MODULE_WORDS * sizeof(*words);
        int r = take_addresses(reader, module, size, &bytes);
        Elf64_Rela rela;

        if (r == IMAGE_E_ABSENT) {
                size = MODULE_NEEDED * sizeof(*words);
                r = take_addresses(reader, module, size, &bytes);
        }
        if (r)
                return r < 0 ? error_fold(r) : r;
        memset(words, 0, MODULE_WORDS * sizeof(*words));
        memcpy(words, bytes.data, size);
        for (uint64_t at = 0; next_relative(relocations, &at, &rela);) {
                uint64_t offset = rela.r_offset - module;

                if (offset < size && offset % sizeof(*words) == 0)
                        words[offset / sizeof(*words)] = (uint64_t)rela.r_addend;
        }
        return 0;
}

/* Return: 0, GO_FUNCTIONS_E_NONE, -ENOMEM. */
static int find_text_in_relocations(Reader *reader, uint64_t *textp) {
        _cleanup_(image_bytes_deinit) ImageBytes relocations = { 0 };
        int r = take_relocations(reader, &relocations);
        uint64_t words[MODULE_WORDS];
        unsigned n_modules = 0;
        Elf64_Rela rela;

        if (r)
                return r < 0 ? error_fold(r) : GO_FUNCTIONS_E_NONE;
        for (uint64_t at = 0; n_modules < MAX_MODULES && next_relative(&relocations, &at, &rela);) {
                if ((uint64_t)rela.r_addend != reader->address)
                        continue;
                n_modules++;
                if (relocations.size > reader->left)
                        break;
                reader->left -= relocations.size;
                r = relocate(reader, &relocations, rela.r_offset, words);
                if (r < 0)
                        return error_fold(r);
                if (!r && is_module(reader, words)) {
                        take_module(reader, words, textp);
                        return 0;
                }
        }
        return GO_FUNCTIONS_E_NONE;
}

/* Return: 0, GO_FUNCTIONS_E_NONE, -ENOMEM. */
static int find_text(Reader *reader, uint64_t *textp) {
        int r = find_text_in_data(reader, textp);

        if (r > 0)
                r = find_text_in_relocations(reader, textp);
        if (r > 0 && reader->table.text && is_code(reader, reader->table.text)) {
                *textp = reader->table.text;
                r = 0;
        }
        return r < 0 ? error_fold(r) : r;
}

/* ---- finding the table ---- */

static int take_table(Reader *reader, const char *data, uint64_t size, uint64_t address, uint64_t *textp) {
        int r;

        if (!go_table_init(&reader->table, data, size))
                return GO_FUNCTIONS_E_REFUSED;
        reader->address = address;
        r = find_text(reader, textp);
        return r < 0 ? error_fold(r) : r ? GO_FUNCTIONS_E_REFUSED : 0;
}

static const Elf64_Shdr *find_section(const ElfImage *image) {
        static const char *const names[] = { ".gopclntab", ".data.rel.ro.gopclntab" };
        const Elf64_Shdr *section;

        for (size_t i = 0; i < ARRAY_SIZE(names); i++)
                if (!elf_image_find_section(image, names[i], &section) && section->sh_type != SHT_NOBITS)
                        return section;
        return NULL;
}

/* Return: 0, GO_FUNCTIONS_E_*, -ENOMEM. */
static int read_section(Reader *reader, const Elf64_Shdr *section, GoFunctions *to) {
        int r = section->sh_size > reader->max_bytes
                ? IMAGE_E_MALFORMED
                : image_bytes_init(&to->bytes, reader->image, section->sh_offset, section->sh_size,
                                   reader->may_map);

        if (!r)
                r = take_table(reader, to->bytes.data, to->bytes.size, section->sh_addr, &to->text);
        return r < 0 ? error_fold(r) : r ? GO_FUNCTIONS_E_REFUSED : 0;
}

/* Searches the bytes of a segment, which lies at @address. *n_leftp: candidates that may still be tried. */
static int search(Reader *reader, GoFunctions *to, uint64_t address, unsigned *n_leftp) {
        const ImageBytes *bytes = &to->bytes;

        for (uint64_t at = 0; at + GO_TABLE_HEADER <= bytes->size && *n_leftp; at += sizeof(uint64_t)) {
                int r;

                if ((go_table_word(bytes->data + at) & ~UINT64_C(1)) != TABLE_BEGINS)
                        continue;
                (*n_leftp)--;
                r = take_table(reader, bytes->data + at, bytes->size - at, address + at, &to->text);
                if (r <= 0)
                        return r;
        }
        return GO_FUNCTIONS_E_REFUSED;
}

/* Return: 0, GO_FUNCTIONS_E_REFUSED, -ENOMEM. */
static int read_segments(Reader *reader, GoFunctions *to) {
        unsigned n_left = MAX_TABLES;
        int r = GO_FUNCTIONS_E_REFUSED;

        for (uint32_t i = 0; i < reader->n_segments && r > 0; i++) {
                uint64_t address;

                if (reader->segments[i].p_flags & PF_X)
                        continue;
                r = take_segment(reader, &reader->segments[i], &to->bytes, &address);
                if (!r)
                        r = search(reader, to, address, &n_left);
                if (r)
                        image_bytes_deinit(&to->bytes);
        }
        return r < 0 ? error_fold(r) : r ? GO_FUNCTIONS_E_REFUSED : 0;
}

/* Checks that Go has linked the file. Return: 0, GO_FUNCTIONS_E_NONE, -ENOMEM. */
static int check_go(const ElfImage *image) {
        const Elf64_Shdr *section;
        ImageIds ids;
        int r;

        if (!elf_image_find_section(image, ".go.buildinfo", &section))
                return section->sh_type == SHT_NOBITS ? GO_FUNCTIONS_E_NONE : 0;
        r = elf_image_ids(image, &ids);
        return r ? error_fold(r) : ids.go[0] ? 0 : GO_FUNCTIONS_E_NONE;
}

/* Checks that the table has more than @n_known functions. Return: 0, GO_FUNCTIONS_E_NONE, -ENOMEM. */
static int check_count(const ElfImage *image, const Elf64_Shdr *section, uint32_t n_known) {
        _cleanup_(freep) char *header = NULL;
        int r = section ? elf_image_read(image, section->sh_offset, GO_TABLE_HEADER, &header)
                        : IMAGE_E_ABSENT;

        return r < 0 ? error_fold(r) : r || go_table_count(header) <= n_known ? GO_FUNCTIONS_E_NONE : 0;
}

static int read_any(Reader *reader, uint32_t n_known, GoFunctions *to) {
        const Elf64_Shdr *section = find_section(reader->image);
        int r = 0;

        if (n_known)
                r = check_count(reader->image, section, n_known);
        else if (!section)
                r = check_go(reader->image);
        if (r)
                return r < 0 ? error_fold(r) : r;
        r = elf_image_segments(reader->image, &reader->segments, &reader->n_segments);
        if (!r)
                r = section ? read_section(reader, section, to) : read_segments(reader, to);
        return r < 0 ? error_fold(r) : r ? GO_FUNCTIONS_E_REFUSED : 0;
}

int go_functions_init(GoFunctions *functions, const ElfImage *image, uint32_t n_known, uint64_t max_bytes,
                      bool may_map) {
        Reader reader = {
                .image = image, .max_bytes = max_bytes, .left = SEARCHED * max_bytes, .may_map = may_map
        };
        GoFunctions new = { 0 };
        int r = read_any(&reader, n_known, &new);

        free(reader.segments);
        if (r) {
                go_functions_deinit(&new);
                return r < 0 ? error_fold(r) : r;
        }
        new.table = reader.table;
        memcpy(new.bases, reader.bases, sizeof(new.bases));
        *functions = new;
        return 0;
}

/* SPDX-License-Identifier: Apache-2.0 */

/*
 *     .symtab, .dynsym      every defined FUNC or IFUNC symbol           FileSymbol, 40 bytes
 *                           global labels in code that is in no function: assembly without `.type`
 *     .gopclntab            where it knows more functions
 *     sort                  by address, of several at one address the best first (better())
 *     first of each address an end for those without size
 */
#include "core/symbol/function/symbol-list.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/elf/narrow.h"
#include "core/base/file/file.h"
#include "core/base/util/array.h"
#include "core/base/util/error.h"

enum {
        CHUNK_SYMBOLS = 2048,           /* read at a time */
        MAX_MOVED_SECTIONS = 1024,      /* looked up by name, each among all */
};

const SymbolLimits symbol_default_limits = {
        .max_symbols = 2 << 20,
        .max_string_bytes = 256 << 20,
};

typedef struct Reader {
        SymbolList *list;
        const ElfImage *images[SYMBOL_N_IMAGES];
        unsigned image;                 /* index of the image that is read now */
        /* by section of images[1]: its address in images[0] minus its own address */
        uint64_t *shifts;
        const SymbolLimits *limits;
        LanguageUnits units;
} Reader;

void symbol_put_name(const FileSymbol *symbol, char *to) {
        if (symbol->language)
                *to++ = (char)symbol->language;
        memcpy(to, symbol->name, symbol->n_name);
        to[symbol->n_name] = 0;
}

void symbol_list_deinit(SymbolList *list) {
        for (size_t i = 0; i < SYMBOL_N_IMAGES * SYMBOL_N_TABLES; i++)
                image_bytes_deinit(&list->strings[i / SYMBOL_N_TABLES][i % SYMBOL_N_TABLES]);
        go_functions_deinit(&list->go);
        free(list->symbols);
        *list = (SymbolList){ 0 };
}

/* Adds a symbol, unless there are too many, or its name begins as one with a language does. */
static int put(Reader *reader, const FileSymbol *symbol) {
        SymbolList *list = reader->list;
        int r;

        if (name_language(symbol->name) != NAME_PLAIN)
                return 0;
        if (list->n_symbols >= reader->limits->max_symbols) {
                list->n_left_out++;
                return 0;
        }
        r = array_reserve(&list->symbols, &list->room, list->n_symbols + 1u, 1024);
        if (!r)
                list->symbols[list->n_symbols++] = *symbol;
        return r;
}

static bool is_function(const Elf64_Sym *symbol) {
        unsigned type = ELF64_ST_TYPE(symbol->st_info);

        return (type == STT_FUNC || type == STT_GNU_IFUNC) && symbol->st_shndx != SHN_UNDEF;
}

/* The linker's own labels (`etext`) may be at a section's end. */
static bool is_in_code(const Reader *reader, const Elf64_Sym *symbol) {
        const ElfImage *image = reader->images[reader->image];
        const Elf64_Shdr *section;

        if (symbol->st_shndx == SHN_UNDEF || symbol->st_shndx >= image->n_sections)
                return false;
        section = &image->sections[symbol->st_shndx];
        return section->sh_flags & SHF_EXECINSTR && symbol->st_value >= section->sh_addr &&
                symbol->st_value - section->sh_addr < section->sh_size;
}

/* A name that assembly exports without saying what it is of, as gdb and perf read it. */
static bool is_label(const Reader *reader, const Elf64_Sym *symbol) {
        return ELF64_ST_TYPE(symbol->st_info) == STT_NOTYPE && ELF64_ST_BIND(symbol->st_info) != STB_LOCAL &&
                is_in_code(reader, symbol);
}

/* GHC gives the type of data to code that others return to (`stg_upd_frame_info`): a table lies before it. */
static bool is_haskell_code(const Reader *reader, const Elf64_Sym *symbol, const char *name, size_t n) {
        return ELF64_ST_TYPE(symbol->st_info) == STT_OBJECT && symbol->st_size && n > 5 &&
                !memcmp(name + n - 5, "_info", 5) && is_in_code(reader, symbol);
}

static bool is_made_of(const char *text, size_t n, const char *others) {
        for (size_t i = 0; i < n; i++)
                if (!strchr(others, text[i]) && !(text[i] >= '0' && text[i] <= '9') &&
                    !((text[i] | 0x20) >= 'a' && (text[i] | 0x20) <= 'z'))
                        return false;
        return n > 0;
}

/*
 * Length of the name before its version, which begins with @at. A version stands behind a name as C and C++
 * have them, and is the last part: other compilers write `@` into names of their own (Crystal).
 */
static size_t size_before_version(const char *name, size_t n, const char *at) {
        const char *found = n > 1 ? memmem(name + 1, n - 1, at, strlen(at)) : NULL, *version;

        if (!found)
                return n;
        version = found + strlen(at);
        return is_made_of(name, (size_t)(found - name), "_.$") &&
                               is_made_of(version, n - (size_t)(version - name), "_.+-")
                       ? (size_t)(found - name) : n;
}

/*
 * Length of the name at @at: up to `@@` and its version, the end of the table, or the cap. Old versions
 * (`f@V1` beside `f@@V2`) are other functions, and keep theirs.
 */
static uint16_t name_length(const ImageBytes *strings, uint32_t at) {
        uint64_t left = at < strings->size ? strings->size - at : 0;
        const char *name;
        size_t n;

        if (!left)                      /* perhaps there is no table */
                return 0;
        name = strings->data + at;
        n = strnlen(name, MIN(left, (uint64_t)SYMBOL_MAX_NAME));
        return (uint16_t)size_before_version(name, n, "@@");
}

/* The address in the object of a symbol of the file that is read. */
static uint64_t address_of(const Reader *reader, const Elf64_Sym *symbol) {
        if (reader->image == 0 || !reader->shifts || symbol->st_shndx >= reader->images[1]->n_sections)
                return symbol->st_value;
        return symbol->st_value + reader->shifts[symbol->st_shndx];
}

static int add(Reader *reader, const Elf64_Sym *symbol, unsigned table) {
        const ImageBytes *strings = &reader->list->strings[reader->image][table];
        uint16_t n_name = name_length(strings, symbol->st_name);
        bool label = is_label(reader, symbol);
        const char *name;
        int r;

        if (n_name == 0)
                return 0;
        name = strings->data + symbol->st_name;
        r = language_note(&reader->units, symbol, name, n_name);
        if (r || (!is_function(symbol) && !label && !is_haskell_code(reader, symbol, name, n_name)))
                return r ? error_fold(r) : 0;
        return put(reader, &(FileSymbol){
                .start = address_of(reader, symbol), .size = symbol->st_size, .section = symbol->st_shndx,
                .name = name, .n_name = n_name,
                .binding = ELF64_ST_BIND(symbol->st_info), .image = (uint8_t)reader->image,
                .is_label = label,
        });
}

static int read_strings(Reader *reader, const Elf64_Shdr *section, unsigned table) {
        const ElfImage *image = reader->images[reader->image];
        const Elf64_Shdr *strings;
        int r;

        if (section->sh_link >= image->n_sections)
                return IMAGE_E_MALFORMED;
        strings = &image->sections[section->sh_link];
        if (strings->sh_type != SHT_STRTAB)
                return IMAGE_E_MALFORMED;
        r = image_bytes_init(&reader->list->strings[reader->image][table], image, strings->sh_offset,
                             MIN(strings->sh_size, reader->limits->max_string_bytes),
                             reader->limits->may_map);
        return r < 0 ? error_fold(r) : r;
}

static size_t symbol_size(const ElfImage *image) {
        return image->is_narrow ? sizeof(Elf32_Sym) : sizeof(Elf64_Sym);
}

static Elf64_Sym symbol_at(const ElfImage *image, const char *symbols, uint64_t i) {
        return image->is_narrow ? elf_widen_symbol(&((const Elf32_Sym *)symbols)[i])
                                : ((const Elf64_Sym *)symbols)[i];
}

static int read_symbols(Reader *reader, const Elf64_Shdr *section, unsigned table) {
        const ElfImage *image = reader->images[reader->image];
        uint64_t size = symbol_size(image), n = section->sh_size / size;

        for (uint64_t at = 0; at < n; at += CHUNK_SYMBOLS) {
                uint64_t n_here = MIN(n - at, (uint64_t)CHUNK_SYMBOLS);
                _cleanup_(freep) char *chunk = NULL;
                int r = elf_image_read(image, section->sh_offset + at * size, n_here * size, &chunk);

                for (uint64_t i = 0; i < n_here && !r; i++) {
                        Elf64_Sym symbol = symbol_at(image, chunk, i);

                        r = add(reader, &symbol, table);
                }
                if (r)
                        return r;
        }
        return 0;
}

/* Reads a table of each kind (gABI); of more the first is read. */
static int read_tables(Reader *reader) {
        const ElfImage *image = reader->images[reader->image];
        static const uint32_t types[SYMBOL_N_TABLES] = { SHT_SYMTAB, SHT_DYNSYM };

        for (unsigned table = 0; table < SYMBOL_N_TABLES; table++)
                for (uint32_t i = 0; i < image->n_sections; i++) {
                        const Elf64_Shdr *section = &image->sections[i];
                        int r;

                        if (section->sh_type != types[table] || section->sh_entsize != symbol_size(image))
                                continue;
                        r = read_strings(reader, section, table);
                        if (!r)
                                r = read_symbols(reader, section, table);
                        if (r)
                                return r;
                        reader->list->is_full |= table == 0;
                        break;
                }
        return 0;
}

/*
 * Reads the table that Go keeps for its own unwinder. Go's functions have no symbols if the program was
 * linked with -s. If they have symbols, the table has nothing new.
 */
static int read_go(Reader *reader) {
        SymbolList *list = reader->list;
        int r = go_functions_init(&list->go, reader->images[0], list->is_full ? list->n_symbols : 0,
                                  reader->limits->max_string_bytes, reader->limits->may_map);

        if (r < 0)
                return error_fold(r);
        list->go_state = r == GO_FUNCTIONS_E_NONE ? SYMBOL_GO_NONE : r ? SYMBOL_GO_REFUSED : SYMBOL_GO_READ;
        for (uint32_t i = 0; i < list->go.table.n && !r; i++) {
                GoFunction function;

                if (!go_table_function(&list->go.table, i, &function))
                        continue;
                r = put(reader,
                        &(FileSymbol){ .start = list->go.text + function.start,
                                       .size = function.size,
                                       .name = function.name,
                                       .n_name = function.n_name,
                                       .binding = STB_LOCAL,
                                       .section = SHN_ABS });
        }
        return r < 0 ? error_fold(r) : 0;
}

static unsigned n_underscores(const FileSymbol *symbol) {
        unsigned n = 0;

        while (n < symbol->n_name && symbol->name[n] == '_')
                n++;
        return n;
}

static bool is_old_version(const FileSymbol *symbol) {
        return size_before_version(symbol->name, symbol->n_name, "@") < symbol->n_name;
}

/*
 * Chooses between two names for one address as perf does, so that reports can be compared. The order: a
 * function, then a name with a size, then one that is not weak, then a global one, then fewer leading
 * underscores, then the longer. Before the last rule, where perf would compare the lengths of versions, the
 * default version wins over an old one. Return: < 0 if @a is better.
 */
static int better(const FileSymbol *a, const FileSymbol *b) {
        if (a->is_label != b->is_label)
                return a->is_label ? 1 : -1;
        if (!a->size != !b->size)
                return a->size ? -1 : 1;
        if ((a->binding == STB_WEAK) != (b->binding == STB_WEAK))
                return a->binding == STB_WEAK ? 1 : -1;
        if ((a->binding == STB_GLOBAL) != (b->binding == STB_GLOBAL))
                return a->binding == STB_GLOBAL ? -1 : 1;
        if (n_underscores(a) != n_underscores(b))
                return n_underscores(a) < n_underscores(b) ? -1 : 1;
        if (is_old_version(a) != is_old_version(b))
                return is_old_version(a) ? 1 : -1;
        if (a->n_name != b->n_name)
                return a->n_name > b->n_name ? -1 : 1;
        return memcmp(a->name, b->name, a->n_name);
}

static bool is_before(const FileSymbol *a, const FileSymbol *b) {
        return a->start != b->start ? a->start < b->start : better(a, b) <= 0;
}

/* Merges two sorted neighbours into one. */
static void merge(FileSymbol *to, const FileSymbol *from, uint32_t n_left, uint32_t n) {
        uint32_t left = 0, right = n_left;

        if (n_left >= n || is_before(&from[n_left - 1], &from[n_left])) {
                memcpy(to, from, n * sizeof(*to));
                return;
        }
        for (uint32_t i = 0; i < n; i++)
                to[i] = right >= n || (left < n_left && is_before(&from[left], &from[right])) ? from[left++]
                                                                                              : from[right++];
}

/*
 * A merge sort. The library's qsort() asks the system for the size of memory, which a worker may not
 * (core/base/sandbox/sandbox.c).
 */
static int sort(SymbolList *list) {
        uint32_t n = list->n_symbols;
        FileSymbol *other = n > 1 ? reallocarray(NULL, n, sizeof(*other)) : NULL;

        if (n > 1 && !other)
                return error_origin(-ENOMEM);
        for (uint32_t width = 1; width < n; width *= 2) {
                FileSymbol *sorted = other;

                for (uint32_t at = 0; at < n; at += 2 * width)
                        merge(sorted + at, list->symbols + at, width, MIN(2 * width, n - at));
                other = list->symbols;
                list->symbols = sorted;
        }
        list->room = n > 1 ? n : list->room;
        free(other);
        return 0;
}

/* Leaves the best symbol of each address, and no label inside of a function: that is a place in it. */
static void reduce(SymbolList *list) {
        uint64_t start = 0, size = 0;   /* place of the function that reaches furthest */
        uint32_t n = 0;

        for (uint32_t i = 0; i < list->n_symbols; i++) {
                const FileSymbol *symbol = &list->symbols[i];

                if ((n && symbol->start == list->symbols[n - 1].start) ||
                    (symbol->is_label && symbol->start - start < size))
                        continue;
                if (!symbol->is_label && (symbol->start - start >= size ||
                                          symbol->size > size - (symbol->start - start))) {
                        start = symbol->start;
                        size = symbol->size;
                }
                list->symbols[n++] = *symbol;
        }
        list->n_symbols = n;
}

static uint64_t end_of_section(const Reader *reader, const FileSymbol *symbol) {
        const ElfImage *image = reader->images[symbol->image];
        const Elf64_Shdr *section;
        uint64_t start;

        if (symbol->section >= image->n_sections)
                return UINT64_MAX;
        section = &image->sections[symbol->section];
        start = section->sh_addr;
        if (symbol->image && reader->shifts)
                start += reader->shifts[symbol->section];
        if (symbol->start < start || symbol->start - start >= section->sh_size)
                return UINT64_MAX;
        return start + MIN(section->sh_size, UINT64_MAX - start);
}

/* Assembly often has no sizes: such a function ends where the next one starts, or its section ends. */
static void set_sizes(Reader *reader) {
        for (uint32_t i = 0; i < reader->list->n_symbols; i++) {
                FileSymbol *symbol = &reader->list->symbols[i];
                uint64_t end = end_of_section(reader, symbol);

                if (symbol->size)
                        continue;
                if (i + 1 < reader->list->n_symbols)
                        end = MIN(end, reader->list->symbols[i + 1].start);
                symbol->size = end == UINT64_MAX ? 1 : end - symbol->start;
        }
}

/* Sections are the same if they have the same name; one that the object does not have stays where it is. */
static int find_shifts(Reader *reader) {
        const ElfImage *image = reader->images[0], *split = reader->images[1];

        if (!image->n_sections || !split->n_sections)
                return 0;
        reader->shifts = calloc(split->n_sections, sizeof(*reader->shifts));
        if (!reader->shifts)
                return error_origin(-ENOMEM);
        for (uint32_t i = 1; i < split->n_sections && i <= MAX_MOVED_SECTIONS; i++) {
                const Elf64_Shdr *section = &split->sections[i], *same;

                if (section->sh_flags & SHF_EXECINSTR &&
                    !elf_image_find_section(image, elf_image_section_name(split, i), &same))
                        reader->shifts[i] = same->sh_addr - section->sh_addr;
        }
        return 0;
}

/* Only now all units are known. A name that was cut is no whole one. */
static void set_languages(const Reader *reader) {
        for (uint32_t i = 0; i < reader->list->n_symbols && reader->units.units.n_entries; i++) {
                FileSymbol *symbol = &reader->list->symbols[i];

                if (symbol->n_name < SYMBOL_MAX_NAME)
                        symbol->language = (uint8_t)language_of(&reader->units, symbol->name, symbol->n_name);
        }
}

static int read_images(Reader *reader) {
        int r = reader->images[1] ? find_shifts(reader) : 0;

        for (reader->image = 0; !r && reader->image < SYMBOL_N_IMAGES; reader->image++)
                if (reader->images[reader->image])
                        r = read_tables(reader);
        return r ? r : read_go(reader);
}

int symbol_list_init(SymbolList *list, const ElfImage *image, const ElfImage *split,
                     const SymbolLimits *limits) {
        _cleanup_(symbol_list_deinit) SymbolList new = { 0 };
        Reader reader = { .list = &new,
                          .images = { image, split },
                          .limits = limits ? limits : &symbol_default_limits };
        int r = read_images(&reader);

        if (!r)
                r = sort(&new);
        if (!r) {
                reduce(&new);
                set_sizes(&reader);
                set_languages(&reader);
        }
        language_units_deinit(&reader.units);
        free(reader.shifts);
        if (r)
                return r < 0 ? error_fold(r) : r;
        *list = new;
        new = (SymbolList){ 0 };
        return 0;
}

/* SPDX-License-Identifier: Apache-2.0 */

/*
 * From the file's symbols to a table of functions:
 *
 *     .symtab, .dynsym      every defined FUNC or IFUNC symbol           RawSymbol, 32 bytes, temporary
 *     sort                  by address, of several at one address the best first (better())
 *     first of each address an end for those without size
 *     pack                  {start - base, size, name, parent}           16 bytes, and the names that are left
 *
 * Symbols may nest (a cold part's symbol in the middle of another, hand-written assembly):
 *
 *     outer   |-----------------------|
 *     inner         |-----|
 *     find             ^         ^            the last start at or before the address is `inner` in both cases;
 *                                             in the second its parent, `outer`, is the answer
 */
#include "symbol/symbols.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "util/error.h"
#include "util/file.h"

enum {
        CHUNK_SYMBOLS = 2048,           /* read at a time */
        NO_PARENT = UINT32_MAX,
        N_TABLES = 2,                   /* .symtab, .dynsym */
        N_IMAGES = 2,                   /* the object, what was split from it */
        MAX_MOVED_SECTIONS = 1024,      /* looked up by name, each among all */
        MAX_NESTING = 64,               /* enclosing functions that a lookup tries */
};

const SymbolLimits symbol_default_limits = {
        .max_symbols = 2 << 20,
        .max_string_bytes = 256 << 20,
};

typedef struct RawSymbol {
        uint64_t start, size;
        const char *name;               /* in a string table */
        uint16_t n_name;
        uint8_t binding, image;
        uint16_t section;               /* of that image */
} RawSymbol;

typedef struct Function {
        uint32_t start;                 /* from the table's base */
        uint32_t size;
        uint32_t name;
        uint32_t parent;                /* function that encloses this one, or NO_PARENT */
} Function;

struct SymbolTable {
        uint64_t base;
        Function *functions;
        char *names;
        size_t names_size;
        uint32_t n_functions;
        uint32_t n_left_out;
        bool is_full;
};

/* Where the names of one table are. */
typedef struct Strings {
        char *data;
        uint64_t size;
} Strings;

typedef struct Reader {
        const ElfImage *images[N_IMAGES];
        unsigned image;                 /* that is read now */
        uint64_t *shifts;               /* by section of images[1]: where it lies in images[0], less where it lies itself */
        const SymbolLimits *limits;
        Strings strings[N_IMAGES][N_TABLES];
        RawSymbol *symbols;
        uint32_t n_symbols, room;
        uint32_t n_left_out;
        bool is_full;
} Reader;

static void reader_deinit(Reader *reader) {
        for (size_t i = 0; i < N_IMAGES * N_TABLES; i++)
                free(reader->strings[i / N_TABLES][i % N_TABLES].data);
        free(reader->shifts);
        free(reader->symbols);
}

static int grow(Reader *reader) {
        uint32_t room = reader->room ? reader->room * 2 : 1024;
        RawSymbol *bigger = reallocarray(reader->symbols, room, sizeof(*bigger));

        if (!bigger)
                return error_origin(-ENOMEM);
        reader->symbols = bigger;
        reader->room = room;
        return 0;
}

static bool is_function(const Elf64_Sym *symbol) {
        unsigned type = ELF64_ST_TYPE(symbol->st_info);

        return (type == STT_FUNC || type == STT_GNU_IFUNC) && symbol->st_shndx != SHN_UNDEF;
}

/*
 * Length of the name at @at: up to `@@` and its version, the end of the table, or the cap. Old versions (`f@V1`
 * beside `f@@V2`) are other functions, and keep theirs.
 */
static uint16_t name_length(const Strings *strings, uint32_t at) {
        uint64_t left = at < strings->size ? strings->size - at : 0;
        const char *name = strings->data + at, *version;
        size_t n = left ? strnlen(name, MIN(left, (uint64_t)SYMBOLS_MAX_NAME)) : 0;

        version = n > 1 ? memmem(name + 1, n - 1, "@@", 2) : NULL;
        return (uint16_t)(version ? version - name : (ptrdiff_t)n);
}

/* The address in the object of a symbol of the file that is read. */
static uint64_t address_of(const Reader *reader, const Elf64_Sym *symbol) {
        if (reader->image == 0 || !reader->shifts || symbol->st_shndx >= reader->images[1]->n_sections)
                return symbol->st_value;
        return symbol->st_value + reader->shifts[symbol->st_shndx];
}

static int add(Reader *reader, const Elf64_Sym *symbol, unsigned table) {
        const Strings *strings = &reader->strings[reader->image][table];
        uint16_t n_name;
        int r;

        if (!is_function(symbol))
                return 0;
        n_name = name_length(strings, symbol->st_name);
        if (n_name == 0)
                return 0;
        if (reader->n_symbols >= reader->limits->max_symbols) {
                reader->n_left_out++;
                return 0;
        }
        if (reader->n_symbols == reader->room) {
                r = grow(reader);
                if (r)
                        return error_fold(r);
        }
        reader->symbols[reader->n_symbols++] = (RawSymbol){
                .start = address_of(reader, symbol), .size = symbol->st_size, .section = symbol->st_shndx,
                .name = strings->data + symbol->st_name, .n_name = n_name,
                .binding = ELF64_ST_BIND(symbol->st_info), .image = (uint8_t)reader->image,
        };
        return 0;
}

static int read_strings(Reader *reader, const Elf64_Shdr *section, unsigned table) {
        const ElfImage *image = reader->images[reader->image];
        Strings *to = &reader->strings[reader->image][table];
        const Elf64_Shdr *strings;
        uint64_t size;
        int r;

        if (section->sh_link >= image->n_sections)
                return IMAGE_E_MALFORMED;
        strings = &image->sections[section->sh_link];
        if (strings->sh_type != SHT_STRTAB)
                return IMAGE_E_MALFORMED;
        size = MIN(strings->sh_size, reader->limits->max_string_bytes);
        r = elf_image_read(image, strings->sh_offset, size, &to->data);
        if (!r)
                to->size = size;
        return r;
}

static int read_symbols(Reader *reader, const Elf64_Shdr *section, unsigned table) {
        uint64_t n = section->sh_size / sizeof(Elf64_Sym);

        for (uint64_t at = 0; at < n; at += CHUNK_SYMBOLS) {
                uint64_t n_here = MIN(n - at, (uint64_t)CHUNK_SYMBOLS);
                _cleanup_(freep) char *chunk = NULL;
                int r = elf_image_read(reader->images[reader->image], section->sh_offset + at * sizeof(Elf64_Sym),
                                       n_here * sizeof(Elf64_Sym), &chunk);

                for (uint64_t i = 0; i < n_here && !r; i++)
                        r = add(reader, &((const Elf64_Sym *)chunk)[i], table);
                if (r)
                        return r;
        }
        return 0;
}

/* One table of each kind (gABI); of more the first is read. */
static int read_tables(Reader *reader) {
        const ElfImage *image = reader->images[reader->image];
        static const uint32_t types[N_TABLES] = { SHT_SYMTAB, SHT_DYNSYM };

        for (unsigned table = 0; table < N_TABLES; table++)
                for (uint32_t i = 0; i < image->n_sections; i++) {
                        const Elf64_Shdr *section = &image->sections[i];
                        int r;

                        if (section->sh_type != types[table] || section->sh_entsize != sizeof(Elf64_Sym))
                                continue;
                        r = read_strings(reader, section, table);
                        if (!r)
                                r = read_symbols(reader, section, table);
                        if (r)
                                return r;
                        reader->is_full |= table == 0;
                        break;
                }
        return 0;
}

static unsigned n_underscores(const RawSymbol *symbol) {
        unsigned n = 0;

        while (n < symbol->n_name && symbol->name[n] == '_')
                n++;
        return n;
}

static bool is_old_version(const RawSymbol *symbol) {
        return memchr(symbol->name, '@', symbol->n_name) != NULL;
}

/*
 * Which of two names for one address people want to see: as perf chooses, so that reports can be laid side by side.
 * A name with a size, then one that is not weak, then a global one, then fewer leading underscores, then the longer.
 * Before the last rule, where perf would compare the lengths of versions, the default version wins over an old one.
 * Return: < 0 if @a is better.
 */
static int better(const RawSymbol *a, const RawSymbol *b) {
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

static int compare(const void *left, const void *right) {
        const RawSymbol *a = left, *b = right;

        if (a->start != b->start)
                return a->start < b->start ? -1 : 1;
        return better(a, b);
}

/* Leaves the best symbol of each address. */
static void reduce(Reader *reader) {
        uint32_t n = 0;

        if (!reader->n_symbols)
                return;
        qsort(reader->symbols, reader->n_symbols, sizeof(*reader->symbols), compare);
        for (uint32_t i = 0; i < reader->n_symbols; i++)
                if (i == 0 || reader->symbols[i].start != reader->symbols[n - 1].start)
                        reader->symbols[n++] = reader->symbols[i];
        reader->n_symbols = n;
}

static uint64_t end_of_section(const Reader *reader, const RawSymbol *symbol) {
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
        for (uint32_t i = 0; i < reader->n_symbols; i++) {
                RawSymbol *symbol = &reader->symbols[i];
                uint64_t end = end_of_section(reader, symbol);

                if (symbol->size)
                        continue;
                if (i + 1 < reader->n_symbols)
                        end = MIN(end, reader->symbols[i + 1].start);
                symbol->size = end == UINT64_MAX ? 1 : end - symbol->start;
        }
}

static void set_parents(SymbolTable *table) {
        uint32_t open = NO_PARENT;

        for (uint32_t i = 0; i < table->n_functions; i++) {
                Function *function = &table->functions[i];

                while (open != NO_PARENT &&
                       function->start - table->functions[open].start >= table->functions[open].size)
                        open = table->functions[open].parent;
                function->parent = open;
                open = i;
        }
}

static uint32_t pack_name(SymbolTable *table, const RawSymbol *symbol) {
        uint32_t at = (uint32_t)table->names_size;

        memcpy(table->names + at, symbol->name, symbol->n_name);
        table->names[at + symbol->n_name] = 0;
        table->names_size += symbol->n_name + 1u;
        return at;
}

static size_t names_size(const Reader *reader) {
        size_t size = 0;

        for (uint32_t i = 0; i < reader->n_symbols; i++)
                size += reader->symbols[i].n_name + 1u;
        return size;
}

/* Functions farther than 4 GiB from the first, or names beyond 4 GiB, do not fit the packed form. */
static void pack(SymbolTable *table, const Reader *reader, size_t room) {
        table->base = reader->n_symbols ? reader->symbols[0].start : 0;
        for (uint32_t i = 0; i < reader->n_symbols; i++) {
                const RawSymbol *symbol = &reader->symbols[i];
                uint64_t start = symbol->start - table->base;

                if (start > UINT32_MAX || table->names_size + symbol->n_name + 1 > room) {
                        table->n_left_out += reader->n_symbols - i;
                        break;
                }
                table->functions[table->n_functions++] = (Function){
                        .start = (uint32_t)start, .size = (uint32_t)MIN(symbol->size, (uint64_t)UINT32_MAX),
                        .name = pack_name(table, symbol),
                };
        }
        set_parents(table);
}

static int make_table(SymbolTable **tablep, const Reader *reader) {
        _cleanup_(symbol_table_freep) SymbolTable *table = calloc(1, sizeof(*table));
        size_t room = MIN(names_size(reader), (size_t)UINT32_MAX);

        if (!table)
                return error_origin(-ENOMEM);
        table->n_left_out = reader->n_left_out;
        table->is_full = reader->is_full;
        table->functions = calloc(reader->n_symbols + 1u, sizeof(*table->functions));
        table->names = malloc(room + 1);
        if (!table->functions || !table->names)
                return error_origin(-ENOMEM);
        pack(table, reader, room);
        *tablep = take(table);
        return 0;
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

static int read_images(Reader *reader) {
        int r = reader->images[1] ? find_shifts(reader) : 0;

        for (reader->image = 0; !r && reader->image < N_IMAGES; reader->image++)
                if (reader->images[reader->image])
                        r = read_tables(reader);
        return r;
}

int symbol_table_new_split(SymbolTable **tablep, const ElfImage *image, const ElfImage *split,
                           const SymbolLimits *limits) {
        _cleanup_(reader_deinit) Reader reader = { .images = { image, split },
                                                   .limits = limits ? limits : &symbol_default_limits };
        int r = read_images(&reader);

        if (r)
                return r < 0 ? error_fold(r) : r;
        reduce(&reader);
        set_sizes(&reader);
        r = make_table(tablep, &reader);
        return r ? error_fold(r) : 0;
}

int symbol_table_new(SymbolTable **tablep, const ElfImage *image, const SymbolLimits *limits) {
        return symbol_table_new_split(tablep, image, NULL, limits);
}

SymbolTable *symbol_table_free(SymbolTable *table) {
        if (!table)
                return NULL;
        free(table->functions);
        free(table->names);
        free(table);
        return NULL;
}

/* Index of the last function that starts at or before @start, or NO_PARENT. */
static uint32_t last_start(const SymbolTable *table, uint32_t start) {
        uint32_t low = 0, high = table->n_functions;

        while (low < high) {
                uint32_t middle = low + (high - low) / 2;

                if (table->functions[middle].start <= start)
                        low = middle + 1;
                else
                        high = middle;
        }
        return low ? low - 1 : NO_PARENT;
}

const char *symbol_table_find(const SymbolTable *table, uint64_t address, uint64_t *offsetp) {
        uint64_t start = address - table->base;
        uint32_t i;

        if (address < table->base || start > UINT32_MAX)
                return NULL;
        i = last_start(table, (uint32_t)start);
        for (unsigned n = 0; i != NO_PARENT && n < MAX_NESTING; n++) {
                const Function *function = &table->functions[i];

                if (start - function->start < function->size) {
                        *offsetp = start - function->start;
                        return table->names + function->name;
                }
                i = function->parent;
        }
        return NULL;
}

uint32_t symbol_table_n_symbols(const SymbolTable *table) {
        return table->n_functions;
}

uint32_t symbol_table_n_left_out(const SymbolTable *table) {
        return table->n_left_out;
}

bool symbol_table_is_full(const SymbolTable *table) {
        return table->is_full;
}

size_t symbol_table_memory(const SymbolTable *table) {
        return sizeof(*table) + (table->n_functions + 1u) * sizeof(Function) + table->names_size + 1;
}

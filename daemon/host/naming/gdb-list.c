/* SPDX-License-Identifier: Apache-2.0 */

/*
 * numba has compiled two functions, each into an image of its own (gdb's manual, "JIT Compilation
 * Interface"):
 *
 *     libllvmlite.so   __jit_debug_descriptor { version 1, action, relevant, first ─┐ }
 *     heap             { next ─┐, prev 0, image 0x55e0, size 3208 } ←───────────────┘
 *                      { next 0, prev ↑, image 0x6700, size 2904 } ←┘
 *     0x55e0           ELF header, .text at 0x7f31c0001000, .symtab { "hot", .text + 0x10, 96 bytes } …
 *
 * LLVM's image is a relocatable file whose sections have the addresses where the code is. wasmtime's is a
 * library, and its symbols count from their sections, too.
 *
 * What may go wrong, and what then: an entry that does not point back at the one before was freed under the
 * reader, so the read is void. Entries that lead in a circle cannot point back, and a list has a cap.
 */
#include "host/naming/gdb-list.h"

#include <elf.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/data/intern.h"
#include "core/base/elf/image.h"
#include "core/base/util/array.h"
#include "core/base/util/error.h"
#include "core/base/util/macro.h"
#include "core/symbol/function/demangle.h"
#include "host/sampling/process/dynamic-symbol.h"

enum {
        VERSION = 1,
        PIECE = 64 << 10,               /* bytes of one read */
        MAX_SYMBOLS = 64 << 20,         /* bytes of a file's .symtab, and of its names */
};

static const char symbol_name[] = "__jit_debug_descriptor";

typedef struct Descriptor {
        uint32_t version, action;
        uint64_t relevant, first;
} Descriptor;

typedef struct Node {
        uint64_t next, previous, image, size;
} Node;

/* An entry, as one read has found it. */
typedef struct Entry {
        uint64_t at, image, size, hash;
} Entry;

typedef struct List {
        const GdbMemory *memory;
        CodeSink sink;                  /* NULL = the bytes count, not what they mean */
        void *userdata;
        GdbListCounts *counts;
        bool is_full;                   /* the sink's room: what follows is counted, and its name not read */
        Entry *entries;
        uint32_t n, room;
        uint64_t n_bytes;
} List;

/* ---- an image ---- */

/* Return: whether @symbol is of code; *startp: its address, 0 = senseless. */
static bool is_code(const ElfImage *image, const Elf64_Sym *symbol, uint64_t *startp) {
        const Elf64_Shdr *section;
        uint64_t offset = symbol->st_value;

        if (ELF64_ST_TYPE(symbol->st_info) != STT_FUNC || symbol->st_shndx == SHN_UNDEF || !symbol->st_size)
                return false;
        *startp = 0;
        if (symbol->st_shndx >= image->n_sections)
                return true;
        section = &image->sections[symbol->st_shndx];
        if (offset >= section->sh_size)
                offset -= section->sh_addr;
        if (section->sh_flags & SHF_EXECINSTR && section->sh_addr && !(section->sh_addr >> 47) &&
            offset < section->sh_size && symbol->st_size <= section->sh_size - offset &&
            section->sh_size < UINT64_C(1) << 47)
                *startp = section->sh_addr + offset;
        return true;
}

static int tell(List *list, const Elf64_Sym *symbol, uint64_t start, const char *name) {
        char readable[DEMANGLE_MAX_OUTPUT];
        CodeRange range = { .start = start, .size = symbol->st_size };
        int r;

        if (list->is_full) {
                list->counts->n_over_cap++;
                return 0;
        }
        range.name = demangle_may(name) && demangle(name, DEMANGLE_SHORT, readable, sizeof(readable))
                             ? readable : name;
        range.name_size = strnlen(range.name, CODE_MAX_NAME);
        r = list->sink(list->userdata, &range);
        list->is_full = r > 0;
        list->counts->n_over_cap += r > 0;
        return MIN(r, 0);
}

/* @names: with a NUL behind its @n_names bytes. */
static int tell_symbols(List *list, const ElfImage *image, const char *data, uint64_t size,
                        const char *names, uint64_t n_names) {
        int r = 0;

        for (uint64_t at = 0; !r && size - at >= sizeof(Elf64_Sym); at += sizeof(Elf64_Sym)) {
                Elf64_Sym symbol;
                uint64_t start;

                memcpy(&symbol, data + at, sizeof(symbol));
                if (!is_code(image, &symbol, &start))
                        continue;
                if (start && symbol.st_name < n_names && names[symbol.st_name])
                        r = tell(list, &symbol, start, names + symbol.st_name);
                else
                        list->counts->n_malformed++;
        }
        return r;
}

/* Return: 0, IMAGE_E_*, what the sink returned, -ENOMEM. */
static int read_symbols(List *list, const ElfImage *image) {
        _cleanup_(freep) char *symbols = NULL, *names = NULL;
        const Elf64_Shdr *section, *strings;
        int r;

        for (uint32_t i = 0;; i++) {
                if (i == image->n_sections)
                        return IMAGE_E_ABSENT;
                section = &image->sections[i];
                if (section->sh_type == SHT_SYMTAB)
                        break;
        }
        if (section->sh_link >= image->n_sections)
                return IMAGE_E_MALFORMED;
        strings = &image->sections[section->sh_link];
        r = elf_image_read(image, section->sh_offset, section->sh_size, &symbols);
        if (!r)
                r = elf_image_read(image, strings->sh_offset, strings->sh_size, &names);
        return r ? r : tell_symbols(list, image, symbols, section->sh_size, names, strings->sh_size);
}

/* Return: 0, also of what is no image; what the sink returned, -ENOMEM. */
static int tell_image(List *list, uint8_t *data, size_t size) {
        ElfImage image;
        uint16_t type;
        int r;

        /* The addresses of sections are filled in, so this one is read as a library is. */
        memcpy(&type, data + offsetof(Elf64_Ehdr, e_type), sizeof(type));
        if (type == ET_REL)
                type = ET_DYN;
        memcpy(data + offsetof(Elf64_Ehdr, e_type), &type, sizeof(type));
        r = elf_image_init_memory(&image, data, size);
        if (r) {
                list->counts->n_malformed += r > 0;
                return MIN(r, 0);
        }
        r = read_symbols(list, &image);
        elf_image_deinit(&image);
        list->counts->n_malformed += r == IMAGE_E_MALFORMED;
        return r == IMAGE_E_MALFORMED || r == IMAGE_E_ABSENT ? 0 : r;
}

/* ---- the list ---- */

static bool read_all(const GdbMemory *memory, uint64_t address, uint8_t *to, size_t size) {
        for (size_t at = 0; at < size; at += PIECE)
                if (!memory->read(memory->userdata, address + at, to + at, MIN(size - at, (size_t)PIECE)))
                        return false;
        return true;
}

static int read_image(List *list, Entry *entry) {
        _cleanup_(freep) uint8_t *data = NULL;

        if (entry->size < sizeof(Elf64_Ehdr) || entry->size > GDB_LIST_MAX_IMAGE ||
            entry->size > GDB_LIST_MAX_BYTES - list->n_bytes) {
                ++*(entry->size < sizeof(Elf64_Ehdr) ? &list->counts->n_malformed
                                                     : &list->counts->n_over_cap);
                return 0;
        }
        list->n_bytes += entry->size;
        data = malloc(entry->size);
        if (!data)
                return error_origin(-ENOMEM);
        if (!read_all(list->memory, entry->image, data, entry->size))
                return GDB_LIST_E_CHANGED;
        entry->hash = hash_bytes(data, entry->size);
        list->counts->n_images++;
        return list->sink ? tell_image(list, data, entry->size) : 0;
}

static int read_entry(List *list, uint64_t at, uint64_t previous, uint64_t *nextp) {
        Entry *entry;
        Node node;
        int r;

        if (!list->memory->read(list->memory->userdata, at, &node, sizeof(node)) || node.previous != previous)
                return GDB_LIST_E_CHANGED;
        r = array_reserve(&list->entries, &list->room, list->n + 1u, 16);
        if (r)
                return r;
        entry = &list->entries[list->n++];
        *entry = (Entry){ .at = at, .image = node.image, .size = node.size };
        *nextp = node.next;
        return read_image(list, entry);
}

static int read_list(List *list, uint64_t address) {
        uint64_t previous = 0, at;
        Descriptor descriptor;
        int r = 0;

        *list->counts = (GdbListCounts){ 0 };
        if (!list->memory->read(list->memory->userdata, address, &descriptor, sizeof(descriptor)) ||
            descriptor.version != VERSION)
                return GDB_LIST_E_NONE;
        at = descriptor.first;
        while (at && !r) {
                uint64_t next = 0;

                if (list->n == GDB_LIST_MAX_IMAGES) {
                        list->counts->n_over_cap++;
                        break;
                }
                r = read_entry(list, at, previous, &next);
                previous = at;
                at = next;
        }
        return r;
}

static bool are_equal(const List *a, const List *b) {
        return a->n == b->n && (!a->n || !memcmp(a->entries, b->entries, a->n * sizeof(*a->entries)));
}

int gdb_list_read(const GdbMemory *memory, uint64_t address, CodeSink sink, void *userdata,
                  GdbListCounts *counts) {
        GdbListCounts again;
        List first = { .memory = memory, .sink = sink, .userdata = userdata, .counts = counts };
        List second = { .memory = memory, .counts = &again };
        int r = read_list(&first, address);

        if (!r)
                r = read_list(&second, address);
        if (!r && !are_equal(&first, &second))
                r = GDB_LIST_E_CHANGED;
        free(first.entries);
        free(second.entries);
        return r;
}

/* ---- its descriptor ---- */

static bool find_in_symtab(int fd, uint64_t size, uint64_t *addressp) {
        _cleanup_(freep) char *symbols = NULL, *names = NULL;
        uint64_t n = 0, n_names = 0;
        bool is_found = false;
        ElfImage image;

        if (elf_image_init(&image, fd, 0, size))
                return false;
        if (!elf_image_read_section(&image, ".symtab", MAX_SYMBOLS, &symbols, &n) &&
            !elf_image_read_section(&image, ".strtab", MAX_SYMBOLS, &names, &n_names))
                for (uint64_t at = 0; !is_found && n - at >= sizeof(Elf64_Sym); at += sizeof(Elf64_Sym)) {
                        Elf64_Sym symbol;

                        memcpy(&symbol, symbols + at, sizeof(symbol));
                        is_found = ELF64_ST_TYPE(symbol.st_info) == STT_OBJECT &&
                                symbol.st_shndx != SHN_UNDEF && symbol.st_name < n_names &&
                                !strcmp(names + symbol.st_name, symbol_name);
                        *addressp = symbol.st_value;
                }
        elf_image_deinit(&image);
        return is_found;
}

bool gdb_list_find(int fd, uint64_t size, uint64_t *addressp) {
        DynamicImage image;
        Elf64_Sym symbol;
        uint32_t index;

        if (dynamic_image_open(&image, fd, NULL, size) &&
            dynamic_image_find(&image, symbol_name, &index, &symbol)) {
                *addressp = symbol.st_value;
                return true;
        }
        return find_in_symtab(fd, size, addressp);
}

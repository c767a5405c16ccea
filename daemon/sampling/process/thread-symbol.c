/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Most files have no PT_TLS, and are done with their program headers. In the
 * others a name is found as the dynamic linker finds it, by the hash table: two
 * or three small reads say that it is not there. Only a file that has the symbol
 * has its relocations read.
 *
 * Relocations are those of x86-64 (psABI, table 4.10): entries of 24 bytes, with
 * the address of the word, symbol and type.
 */
#include "sampling/process/thread-symbol.h"

#include <elf.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "abi.h"
#include "base/util/error.h"
#include "base/util/file.h"
#include "base/util/macro.h"

enum {
        MAX_HEADERS = 64,
        MAX_DYNAMIC = 256,
        MAX_CHAIN = 4096,               /* symbols with one hash: a good table has a few */
        RELOCATIONS = 512,              /* read at once */
        MAX_RELOCATIONS = 1 << 20,
};

#define ELASTIC_SYMBOL "elastic_apm_profiling_correlation_tls_v1"

#ifndef R_X86_64_TLSDESC
#define R_X86_64_TLSDESC 36
#endif

typedef struct Image {
        int fd;
        const uint8_t *data;
        uint64_t size;
        Elf64_Phdr headers[MAX_HEADERS];
        unsigned n_headers;
        const Elf64_Phdr *tls;
        /* by DT_*: ELF addresses and sizes, 0 = none */
        uint64_t symbols, strings, strings_size, gnu_hash, hash, rela, rela_size, jmprel, jmprel_size;
} Image;

static bool read_at(const Image *image, uint64_t offset, void *to, size_t size) {
        if (offset > image->size || size > image->size - offset)
                return false;
        if (image->fd >= 0)
                return file_pread(image->fd, to, size, offset) == (ssize_t)size;
        memcpy(to, image->data + offset, size);
        return true;
}

/* The bytes that will lie at an ELF address, as far as the file has them. */
static bool read_address(const Image *image, uint64_t address, void *to, size_t size) {
        for (unsigned i = 0; i < image->n_headers; i++) {
                const Elf64_Phdr *header = &image->headers[i];
                uint64_t at = address - header->p_vaddr;

                if (header->p_type == PT_LOAD && address >= header->p_vaddr && at < header->p_filesz &&
                    size <= header->p_filesz - at && header->p_offset <= image->size)
                        return read_at(image, header->p_offset + at, to, size);
        }
        return false;
}

static bool read_headers(Image *image) {
        Elf64_Ehdr header;

        if (!read_at(image, 0, &header, sizeof(header)) || memcmp(header.e_ident, ELFMAG, SELFMAG) ||
            header.e_ident[EI_CLASS] != ELFCLASS64 || header.e_machine != EM_X86_64 ||
            header.e_phentsize != sizeof(Elf64_Phdr))
                return false;
        image->n_headers = MIN(header.e_phnum, MAX_HEADERS);
        if (!read_at(image, header.e_phoff, image->headers, image->n_headers * sizeof(Elf64_Phdr)))
                return false;
        for (unsigned i = 0; i < image->n_headers; i++)
                if (image->headers[i].p_type == PT_TLS)
                        image->tls = &image->headers[i];
        return image->tls;
}

static void take_dynamic(Image *image, const Elf64_Dyn *entry) {
        const struct {
                int64_t tag;
                uint64_t *value;
        } fields[] = { { DT_SYMTAB, &image->symbols },      { DT_STRTAB, &image->strings },
                       { DT_STRSZ, &image->strings_size },  { DT_GNU_HASH, &image->gnu_hash },
                       { DT_HASH, &image->hash },           { DT_RELA, &image->rela },
                       { DT_RELASZ, &image->rela_size },    { DT_JMPREL, &image->jmprel },
                       { DT_PLTRELSZ, &image->jmprel_size } };

        for (size_t i = 0; i < ARRAY_SIZE(fields); i++)
                if (entry->d_tag == fields[i].tag)
                        *fields[i].value = entry->d_un.d_val;
}

static bool read_dynamic(Image *image) {
        Elf64_Dyn entries[MAX_DYNAMIC];
        size_t n = 0;

        for (unsigned i = 0; i < image->n_headers; i++) {
                const Elf64_Phdr *header = &image->headers[i];

                if (header->p_type != PT_DYNAMIC)
                        continue;
                n = MIN(header->p_filesz / sizeof(*entries), (uint64_t)MAX_DYNAMIC);
                if (!read_at(image, header->p_offset, entries, n * sizeof(*entries)))
                        return false;
        }
        for (size_t i = 0; i < n && entries[i].d_tag != DT_NULL; i++)
                take_dynamic(image, &entries[i]);
        return image->symbols && image->strings;
}

/* Whether symbol @index has this name, and is defined here. */
static bool is_symbol(const Image *image, uint32_t index, const char *name, Elf64_Sym *symbol) {
        size_t size = strlen(name) + 1;
        char found[64];

        return read_address(image, image->symbols + index * sizeof(*symbol), symbol, sizeof(*symbol)) &&
                symbol->st_shndx != SHN_UNDEF && size <= sizeof(found) &&
                symbol->st_name < image->strings_size &&
                read_address(image, image->strings + symbol->st_name, found, size) &&
                !memcmp(found, name, size);
}

static uint32_t gnu_hash(const char *name) {
        uint32_t hash = 5381;

        for (; *name; name++)
                hash = hash * 33 + (uint8_t)*name;
        return hash;
}

/*
 * Header {buckets, first symbol, bloom words, shift}, bloom words, buckets, one word of hash a symbol; bit 0
 * ends a bucket.
 */
static bool find_by_gnu_hash(const Image *image, const char *name, uint32_t *indexp, Elf64_Sym *symbol) {
        uint32_t header[4], bucket, entry, hash = gnu_hash(name);
        uint64_t bloom, bits, buckets, chains;

        if (!read_address(image, image->gnu_hash, header, sizeof(header)) || !header[0] || !header[2])
                return false;
        bloom = image->gnu_hash + sizeof(header) + (uint64_t)(hash / 64 % header[2]) * 8;
        if (!read_address(image, bloom, &bits, sizeof(bits)) ||
            !(bits >> hash % 64 & bits >> (hash >> (header[3] & 31)) % 64 & 1))
                return false;
        buckets = image->gnu_hash + sizeof(header) + (uint64_t)header[2] * 8;
        chains = buckets + (uint64_t)header[0] * 4;
        if (!read_address(image, buckets + (uint64_t)(hash % header[0]) * 4, &bucket, sizeof(bucket)) ||
            bucket < header[1])
                return false;
        for (unsigned i = 0; i < MAX_CHAIN; i++, bucket++) {
                if (!read_address(image, chains + (uint64_t)(bucket - header[1]) * 4, &entry, sizeof(entry)))
                        return false;
                if ((entry | 1) == (hash | 1) && is_symbol(image, bucket, name, symbol)) {
                        *indexp = bucket;
                        return true;
                }
                if (entry & 1)
                        return false;
        }
        return false;
}

/*
 * {buckets, chains}, then both: the chain goes on at the index of the symbol. Its second word is the number
 * of symbols.
 */
static bool find_by_hash(const Image *image, const char *name, uint32_t *indexp, Elf64_Sym *symbol) {
        uint32_t header[2], index, hash = 0;

        for (const char *c = name; *c; c++) {
                hash = (hash << 4) + (uint8_t)*c;
                hash = (hash ^ (hash & 0xf0000000) >> 24) & 0x0fffffff;
        }
        if (!read_address(image, image->hash, header, sizeof(header)) || !header[0] ||
            !read_address(image, image->hash + 8 + (uint64_t)(hash % header[0]) * 4, &index, sizeof(index)))
                return false;
        for (unsigned i = 0; i < MAX_CHAIN && index && index < header[1]; i++) {
                if (is_symbol(image, index, name, symbol)) {
                        *indexp = index;
                        return true;
                }
                if (!read_address(image, image->hash + 8 + ((uint64_t)header[0] + index) * 4, &index,
                                  sizeof(index)))
                        return false;
        }
        return false;
}

static bool find(const Image *image, const char *name, uint32_t *indexp, Elf64_Sym *symbol) {
        return image->gnu_hash ? find_by_gnu_hash(image, name, indexp, symbol)
                               : image->hash && find_by_hash(image, name, indexp, symbol);
}

/* ---- relocations ---- */

static void take_relocation(const Elf64_Rela *entry, uint32_t index, ThreadSymbol *symbol) {
        uint32_t of = (uint32_t)ELF64_R_SYM(entry->r_info);
        bool has_symbol = of == index;
        ThreadSlotKind kind;

        switch (ELF64_R_TYPE(entry->r_info)) {
        case R_X86_64_TPOFF64:
                kind = THREAD_SLOT_OFFSET;
                break;
        case R_X86_64_DTPMOD64:
                kind = THREAD_SLOT_MODULE;
                break;
        case R_X86_64_TLSDESC:
                kind = THREAD_SLOT_DESCRIPTOR;
                break;
        default:
                return;
        }
        /*
         * Without a symbol, the addend says which variable of the file it is; a module has no addend, and any
         * will do.
         */
        if (!has_symbol && (of || (kind != THREAD_SLOT_MODULE && (uint64_t)entry->r_addend != symbol->value)))
                return;
        if (symbol->n_slots < THREAD_SYMBOL_MAX_SLOTS)
                symbol->n_slots++;
        else if (!has_symbol)
                return;
        symbol->slots[symbol->n_slots - 1] = (ThreadSlot){ entry->r_offset, kind, has_symbol };
}

static int read_relocations(const Image *image, uint64_t address, uint64_t size, uint32_t index,
                            ThreadSymbol *symbol) {
        uint64_t n = MIN(size / sizeof(Elf64_Rela), (uint64_t)MAX_RELOCATIONS), n_piece;
        _cleanup_(freep) Elf64_Rela *entries = n ? malloc(RELOCATIONS * sizeof(*entries)) : NULL;

        if (n && !entries)
                return error_origin(-ENOMEM);
        for (; n; n -= n_piece, address += n_piece * sizeof(*entries)) {
                n_piece = MIN(n, (uint64_t)RELOCATIONS);
                if (!read_address(image, address, entries, n_piece * sizeof(*entries)))
                        return 0;
                for (uint64_t i = 0; i < n_piece; i++)
                        take_relocation(&entries[i], index, symbol);
        }
        return 0;
}

/*
 * The executable's block ends at the thread pointer, and begins at a multiple of its alignment away from it.
 */
static int64_t local_offset(const Elf64_Phdr *tls, uint64_t value) {
        uint64_t align = tls->p_align ? tls->p_align : 1;
        uint64_t pad = (align - (tls->p_vaddr + tls->p_memsz) % align) % align;

        return (int64_t)(value - tls->p_memsz - pad);
}

static const struct {
        const char *name;
        uint8_t form;
        const char *unread;
} names[] = {
        { SPANPROF_THREAD_SYMBOL, ABI_FORM_THREAD,
          "its " SPANPROF_THREAD_SYMBOL " is no pointer in thread-local memory" },
        { ELASTIC_SYMBOL, ABI_FORM_ELASTIC, "its " ELASTIC_SYMBOL " is no pointer in thread-local memory" },
        { "otel_thread_ctx_nodejs_v1", ABI_FORM_NONE,
          "otel_thread_ctx_nodejs_v1 leads through private structures of V8" },
        { "custom_labels_current_set_v2", ABI_FORM_NONE,
          "custom_labels_current_set_v2 has labels, but no span" },
        { "custom_labels_current_set", ABI_FORM_NONE, "custom_labels_current_set has labels, but no span" },
        { "context_tls_v1", ABI_FORM_NONE, "context_tls_v1 is an older form, without a trace id" },
};

bool thread_symbol_name(uint8_t name, uint8_t *formp, const char **unreadp) {
        if (!name || name > ARRAY_SIZE(names))
                return false;
        *formp = names[name - 1].form;
        *unreadp = names[name - 1].unread;
        return true;
}

int thread_symbol_read(int fd, const void *data, uint64_t size, ThreadSymbol *symbolp) {
        Image image = { .fd = fd, .data = data, .size = size };
        Elf64_Sym symbol;
        uint32_t index = 0;
        size_t i = 0;
        int r;

        *symbolp = (ThreadSymbol){ 0 };
        if (!read_headers(&image) || !read_dynamic(&image))
                return 0;
        while (i < ARRAY_SIZE(names) && !find(&image, names[i].name, &index, &symbol))
                i++;
        if (i == ARRAY_SIZE(names))
                return 0;
        symbolp->name = (uint8_t)(i + 1);
        symbolp->form = names[i].form;
        symbolp->unread = names[i].form ? NULL : names[i].unread;
        /* Both forms begin with a pointer. */
        if (symbol.st_value > image.tls->p_memsz || image.tls->p_memsz - symbol.st_value < sizeof(uint64_t) ||
            symbol.st_size != sizeof(uint64_t) || ELF64_ST_TYPE(symbol.st_info) != STT_TLS) {
                symbolp->form = ABI_FORM_NONE;
                symbolp->unread = names[i].unread;
        }
        if (!symbolp->form)
                return 0;
        symbolp->value = symbol.st_value;
        symbolp->block_size = image.tls->p_memsz;
        symbolp->local_offset = local_offset(image.tls, symbol.st_value);
        r = read_relocations(&image, image.rela, image.rela_size, index, symbolp);
        return r ? r : read_relocations(&image, image.jmprel, image.jmprel_size, index, symbolp);
}

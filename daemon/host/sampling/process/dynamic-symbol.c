/* SPDX-License-Identifier: Apache-2.0 */

/*
 * A name is found as the dynamic linker finds it, by the hash table: two or three small reads say that it is
 * not there. Relocations are entries of 24 bytes, with the address of the word, symbol and type.
 */
#include "host/sampling/process/dynamic-symbol.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/elf/machine.h"
#include "core/base/file/file.h"
#include "core/base/util/error.h"
#include "core/base/util/macro.h"

enum {
        MAX_DYNAMIC = 256,
        MAX_CHAIN = 4096,               /* symbols with one hash: a good table has a few */
        RELOCATIONS = 512,              /* read at once */
        MAX_RELOCATIONS = 1 << 20,
        MAX_NAME = 128,                 /* bytes of a name that is looked for, with its NUL */
};

static bool read_at(const DynamicImage *image, uint64_t offset, void *to, size_t size) {
        if (offset > image->size || size > image->size - offset)
                return false;
        if (image->fd >= 0)
                return file_pread(image->fd, to, size, offset) == (ssize_t)size;
        memcpy(to, image->data + offset, size);
        return true;
}

bool dynamic_image_read(const DynamicImage *image, uint64_t address, void *to, size_t size) {
        for (unsigned i = 0; i < image->n_headers; i++) {
                const Elf64_Phdr *header = &image->headers[i];
                uint64_t at = address - header->p_vaddr;

                if (header->p_type == PT_LOAD && address >= header->p_vaddr && at < header->p_filesz &&
                    size <= header->p_filesz - at && header->p_offset <= image->size)
                        return read_at(image, header->p_offset + at, to, size);
        }
        return false;
}

static bool read_headers(DynamicImage *image) {
        Elf64_Ehdr header;

        if (!read_at(image, 0, &header, sizeof(header)) || memcmp(header.e_ident, ELFMAG, SELFMAG) ||
            header.e_ident[EI_CLASS] != ELFCLASS64 || header.e_machine != ELF_MACHINE ||
            header.e_phentsize != sizeof(Elf64_Phdr))
                return false;
        image->n_headers = MIN(header.e_phnum, DYNAMIC_MAX_HEADERS);
        if (!read_at(image, header.e_phoff, image->headers, image->n_headers * sizeof(Elf64_Phdr)))
                return false;
        for (unsigned i = 0; i < image->n_headers; i++)
                if (image->headers[i].p_type == PT_TLS)
                        image->tls = &image->headers[i];
        return true;
}

bool dynamic_image_init(DynamicImage *image, int fd, const void *data, uint64_t size) {
        *image = (DynamicImage){ .fd = fd, .data = data, .size = size };
        return read_headers(image);
}

static void take_dynamic(DynamicImage *image, const Elf64_Dyn *entry) {
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

bool dynamic_image_find_tables(DynamicImage *image) {
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

bool dynamic_image_open(DynamicImage *image, int fd, const void *data, uint64_t size) {
        return dynamic_image_init(image, fd, data, size) && dynamic_image_find_tables(image);
}

/* Whether symbol @index has this name, and is defined here. */
static bool is_symbol(const DynamicImage *image, uint32_t index, const char *name, Elf64_Sym *symbol) {
        size_t size = strlen(name) + 1;
        char found[MAX_NAME];

        return dynamic_image_read(image, image->symbols + index * sizeof(*symbol), symbol, sizeof(*symbol)) &&
                symbol->st_shndx != SHN_UNDEF && size <= sizeof(found) &&
                symbol->st_name < image->strings_size &&
                dynamic_image_read(image, image->strings + symbol->st_name, found, size) &&
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
static bool find_by_gnu_hash(const DynamicImage *image, const char *name, uint32_t *indexp,
                             Elf64_Sym *symbol) {
        uint32_t header[4], bucket, entry, hash = gnu_hash(name);
        uint64_t bloom, bits, buckets, chains;

        if (!dynamic_image_read(image, image->gnu_hash, header, sizeof(header)) || !header[0] || !header[2])
                return false;
        bloom = image->gnu_hash + sizeof(header) + (uint64_t)(hash / 64 % header[2]) * 8;
        if (!dynamic_image_read(image, bloom, &bits, sizeof(bits)) ||
            !(bits >> hash % 64 & bits >> (hash >> (header[3] & 31)) % 64 & 1))
                return false;
        buckets = image->gnu_hash + sizeof(header) + (uint64_t)header[2] * 8;
        chains = buckets + (uint64_t)header[0] * 4;
        if (!dynamic_image_read(image, buckets + (uint64_t)(hash % header[0]) * 4, &bucket, sizeof(bucket)) ||
            bucket < header[1])
                return false;
        for (unsigned i = 0; i < MAX_CHAIN; i++, bucket++) {
                if (!dynamic_image_read(image, chains + (uint64_t)(bucket - header[1]) * 4, &entry,
                                        sizeof(entry)))
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
static bool find_by_hash(const DynamicImage *image, const char *name, uint32_t *indexp, Elf64_Sym *symbol) {
        uint32_t header[2], index, hash = 0;

        for (const char *c = name; *c; c++) {
                hash = (hash << 4) + (uint8_t)*c;
                hash = (hash ^ (hash & 0xf0000000) >> 24) & 0x0fffffff;
        }
        if (!dynamic_image_read(image, image->hash, header, sizeof(header)) || !header[0] ||
            !dynamic_image_read(image, image->hash + 8 + (uint64_t)(hash % header[0]) * 4, &index,
                                sizeof(index)))
                return false;
        for (unsigned i = 0; i < MAX_CHAIN && index && index < header[1]; i++) {
                if (is_symbol(image, index, name, symbol)) {
                        *indexp = index;
                        return true;
                }
                if (!dynamic_image_read(image, image->hash + 8 + ((uint64_t)header[0] + index) * 4, &index,
                                  sizeof(index)))
                        return false;
        }
        return false;
}

bool dynamic_image_find(const DynamicImage *image, const char *name, uint32_t *indexp, Elf64_Sym *symbol) {
        return image->gnu_hash ? find_by_gnu_hash(image, name, indexp, symbol)
                               : image->hash && find_by_hash(image, name, indexp, symbol);
}

static int visit_relocations(const DynamicImage *image, uint64_t address, uint64_t size,
                             DynamicRelocation visit, void *userdata) {
        uint64_t n = MIN(size / sizeof(Elf64_Rela), (uint64_t)MAX_RELOCATIONS), n_piece;
        _cleanup_(freep) Elf64_Rela *entries = n ? malloc(RELOCATIONS * sizeof(*entries)) : NULL;

        if (n && !entries)
                return error_origin(-ENOMEM);
        for (; n; n -= n_piece, address += n_piece * sizeof(*entries)) {
                n_piece = MIN(n, (uint64_t)RELOCATIONS);
                if (!dynamic_image_read(image, address, entries, n_piece * sizeof(*entries)))
                        return 0;
                for (uint64_t i = 0; i < n_piece; i++)
                        visit(userdata, &entries[i]);
        }
        return 0;
}

int dynamic_image_relocations(const DynamicImage *image, DynamicRelocation visit, void *userdata) {
        int r = visit_relocations(image, image->rela, image->rela_size, visit, userdata);

        return r ? error_fold(r)
                 : error_fold(visit_relocations(image, image->jmprel, image->jmprel_size, visit, userdata));
}

bool dynamic_image_search(const DynamicImage *image, uint32_t but, size_t overlap, DynamicVisit visit,
                          void *userdata) {
        _cleanup_(freep) char *chunk = malloc(DYNAMIC_CHUNK + 1);
        uint64_t n_left = DYNAMIC_MAX_SEARCH;

        for (unsigned i = 0; i < image->n_headers && chunk; i++) {
                const Elf64_Phdr *header = &image->headers[i];

                if (header->p_type != PT_LOAD || header->p_flags & but)
                        continue;
                for (uint64_t at = 0; at < header->p_filesz; at += DYNAMIC_CHUNK - overlap) {
                        size_t n = MIN(header->p_filesz - at, (uint64_t)DYNAMIC_CHUNK);

                        if (n > n_left)
                                return false;
                        n_left -= n;
                        if (!dynamic_image_read(image, header->p_vaddr + at, chunk, n))
                                break;
                        chunk[n] = '\0';
                        if (visit(userdata, header->p_vaddr + at, chunk, n))
                                return true;
                }
        }
        return false;
}

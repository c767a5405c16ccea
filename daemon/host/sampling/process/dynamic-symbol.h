/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Dynamic Symbols
 *
 * Finds symbols of an ELF file's .dynsym by name, and what its bytes are at an ELF address. Reads by pread()
 * or from bytes in memory; every offset of the file is checked first.
 */

#include <elf.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { DYNAMIC_MAX_HEADERS = 64 };      /* program headers; more are left out */

typedef struct DynamicImage {
        int fd;                         /* borrowed; -1 = the bytes are at data */
        const uint8_t *data;
        uint64_t size;
        Elf64_Phdr headers[DYNAMIC_MAX_HEADERS];
        unsigned n_headers;
        const Elf64_Phdr *tls;          /* among headers; NULL = none */
        /* by DT_*: ELF addresses and sizes, 0 = none */
        uint64_t symbols, strings, strings_size, gnu_hash, hash, rela, rela_size, jmprel, jmprel_size;
} DynamicImage;

/* Reads the program headers: @fd is a regular file of @size bytes, or < 0. Return: whether it could. */
bool dynamic_image_init(DynamicImage *image, int fd, const void *data, uint64_t size);

/* Reads the dynamic section, which dynamic_image_find() needs. Return: whether there are symbols. */
bool dynamic_image_find_tables(DynamicImage *image);

/* Both of these. Return: whether there are symbols. */
bool dynamic_image_open(DynamicImage *image, int fd, const void *data, uint64_t size);

/* The bytes that will lie at an ELF address. Return: whether the file has all of them. */
bool dynamic_image_read(const DynamicImage *image, uint64_t address, void *to, size_t size);

/* The symbol that the file defines under @name. Return: whether there is one; then *indexp, *symbol. */
bool dynamic_image_find(const DynamicImage *image, const char *name, uint32_t *indexp, Elf64_Sym *symbol);

typedef void (*DynamicRelocation)(void *userdata, const Elf64_Rela *entry);

/* Visits what the dynamic linker writes, as far as it can be read. Return: 0, -ENOMEM. */
int dynamic_image_relocations(const DynamicImage *image, DynamicRelocation visit, void *userdata);

enum {
        DYNAMIC_CHUNK = 64 << 10,       /* bytes that a search visits at once */
        DYNAMIC_MAX_SEARCH = 64 << 20,  /* bytes of all segments that it reads */
};

/*
 * A piece of a segment, which lies at @address of the file's; a NUL stands behind it. Return: whether the
 * search ends.
 */
typedef bool (*DynamicVisit)(void *userdata, uint64_t address, const char *text, size_t size);

/*
 * Visits all segments but those with one of the flags @but, chunk by chunk. The last @overlap bytes of a
 * chunk are the first ones of the next, so that what is shorter lies whole in one of them. Return: whether a
 * visit has ended it.
 */
bool dynamic_image_search(const DynamicImage *image, uint32_t but, size_t overlap, DynamicVisit visit,
                          void *userdata);

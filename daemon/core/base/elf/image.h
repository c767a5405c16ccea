/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * ELF Image
 *
 * The outer shape of one ELF file as symbols need it: section headers and build
 * ids. Reads by pread() from a descriptor and a base, so that an image in memory
 * (the vdso, through /proc/self/mem) reads like a file, or from bytes that were
 * unpacked. Every count and offset of the file is checked against its size first;
 * nothing is mapped.
 */

#include <elf.h>
#include <stddef.h>
#include <stdbool.h>
#include <stdint.h>

#include "core/base/util/macro.h"

enum {
        _IMAGE_E_SUCCESS,
        IMAGE_E_UNREADABLE,             /* a read failed, or the file is shorter than it was */
        IMAGE_E_NOT_ELF,
        IMAGE_E_UNSUPPORTED,            /* ELF that the caller does not read, or no program or library */
        IMAGE_E_MALFORMED,              /* a table that is not inside the file */
        IMAGE_E_ABSENT,                 /* no such section, or one without bytes in this file */
};

enum {
        IMAGE_MAX_SECTIONS = 64 << 10,
        IMAGE_MAX_PROGRAM_HEADERS = 1 << 10,
        IMAGE_MAX_NAMES = 1 << 20,      /* bytes of section names */
        IMAGE_MAX_NOTES = 64 << 10,     /* bytes of one note segment that are looked at */
        IMAGE_MAX_BUILD_ID = 64,        /* bytes of a GNU build id */
        IMAGE_MAX_GO_ID = 128,          /* text of a Go build id */
};

typedef struct ElfImage {
        int fd;                         /* borrowed */
        const uint8_t *data;            /* borrowed; NULL = from fd */
        uint64_t base, size;            /* the image within what fd reads */
        bool is_narrow;                 /* a file of 32 bits; header, sections and segments are widened */
        Elf64_Ehdr header;
        Elf64_Shdr *sections;
        uint32_t n_sections;            /* 0 = the file has no section headers */
        char *names;                    /* names of sections, with a NUL behind; NULL = none could be read */
        uint64_t names_size;
} ElfImage;

typedef struct ImageIds {
        char gnu[2 * IMAGE_MAX_BUILD_ID + 1];   /* lower-case hex; "" = none */
        char go[IMAGE_MAX_GO_ID + 1];           /* as the Go tool prints it; "" = none */
} ImageIds;

/*
 * Opens an image of 64 bits, little-endian; _any(): or of 32 bits, whose symbols the caller has to widen.
 * Return: 0, IMAGE_E_*, -ENOMEM. Pair a success with elf_image_deinit().
 */
int elf_image_init(ElfImage *image, int fd, uint64_t base, uint64_t size);
int elf_image_init_any(ElfImage *image, int fd, uint64_t base, uint64_t size);
int elf_image_init_memory(ElfImage *image, const uint8_t *data, uint64_t size);
int elf_image_init_memory_any(ElfImage *image, const uint8_t *data, uint64_t size);
void elf_image_deinit(ElfImage *image);

/*
 * Reads @size bytes at @offset of the image into new memory, with a NUL behind.
 * Return: 0 and *datap (owned by the caller), IMAGE_E_MALFORMED, IMAGE_E_UNREADABLE, -ENOMEM.
 */
int elf_image_read(const ElfImage *image, uint64_t offset, uint64_t size, char **datap);

/* The name of a section; "" = none. */
const char *elf_image_section_name(const ElfImage *image, uint32_t index);

/* The first section of that name. Return: 0, IMAGE_E_ABSENT. */
int elf_image_find_section(const ElfImage *image, const char *name, const Elf64_Shdr **sectionp);

/*
 * Reads a whole section of at most @max bytes into new memory, with a NUL behind.
 * Return: 0 and *datap (owned by the caller), IMAGE_E_ABSENT, IMAGE_E_MALFORMED (also: larger),
 * IMAGE_E_UNREADABLE, -ENOMEM.
 */
int elf_image_read_section(const ElfImage *image, const char *name, uint64_t max, char **datap,
                           uint64_t *sizep);

/*
 * The program headers, up to IMAGE_MAX_PROGRAM_HEADERS. Return: 0 and *segmentsp (owned by the caller),
 * IMAGE_E_ABSENT, IMAGE_E_MALFORMED, IMAGE_E_UNREADABLE, -ENOMEM.
 */
int elf_image_segments(const ElfImage *image, Elf64_Phdr **segmentsp, uint32_t *np);

/* The build ids, from PT_NOTE, else from note sections. Return: 0, -ENOMEM. */
int elf_image_ids(const ElfImage *image, ImageIds *ids);

/*
 * A part of an image that is too large to be copied at will: names, tables. It is borrowed from an image in
 * memory, mapped if the caller can bear it, else read.
 */
typedef struct ImageBytes {
        const char *data;
        uint64_t size;
        char *owned, *map;              /* NULL = the image's own memory */
        size_t map_size;
} ImageBytes;

/*
 * @may_map: the bytes are mapped; then a file that is truncated meanwhile ends this process.
 * Return: 0 and @to, which is written on success only; IMAGE_E_MALFORMED, IMAGE_E_UNREADABLE, -ENOMEM.
 */
int image_bytes_init(ImageBytes *to, const ElfImage *image, uint64_t offset, uint64_t size, bool may_map);
void image_bytes_deinit(ImageBytes *bytes);

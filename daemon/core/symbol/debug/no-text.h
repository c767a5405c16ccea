/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * ELF Without Text
 *
 * From an ELF file, the same file without its code and data: section and program headers, symbol tables, what
 * DWARF needs for names and lines, notes. Code and data become SHT_NOBITS, which keep address and size. So
 * addresses mean what they mean in the original, and nothing of the program itself is left to read or run.
 */

#include <stdbool.h>
#include <stdint.h>

#include "core/base/elf/image.h"

enum {
        _NO_TEXT_E_SUCCESS,
        NO_TEXT_E_MALFORMED,            /* headers that contradict each other, or the file */
        NO_TEXT_E_NAMELESS,             /* the file has no symbols and no lines: nothing to upload */
        NO_TEXT_E_SINK,                 /* from no_text_write(): the sink wants no more */
};

/* Bytes of the original that are kept. */
typedef struct NoTextRegion {
        uint64_t from, size;            /* in the original */
        uint64_t to;                    /* in what is made */
} NoTextRegion;

typedef struct NoText {
        Elf64_Ehdr header;
        Elf64_Phdr *segments;
        uint32_t n_segments;
        Elf64_Shdr *sections;
        uint32_t n_sections;
        NoTextRegion *regions;          /* in the order of what is made */
        uint32_t n_regions;
        uint64_t size;                  /* bytes of all that is made */
        uint64_t left;                  /* bytes that regions may still take: the file has no more */
        bool has_symbols;               /* .symtab, or Go's table */
        bool has_lines;                 /* .debug_line and .debug_info */
} NoText;

/* Reads headers alone. @plan: pair a success with no_text_deinit(). Return: 0, NO_TEXT_E_*, -ENOMEM. */
int no_text_plan(NoText *plan, const ElfImage *image);
void no_text_deinit(NoText *plan);

/* Return of a sink: 0, or 1 = it wants no more. */
typedef int (*NoTextSink)(const void *data, size_t size, void *userdata);

/*
 * Gives exactly plan->size bytes to @sink, in order. A file that became shorter meanwhile ends in
 * NO_TEXT_E_MALFORMED. Return: 0, NO_TEXT_E_*, -ENOMEM.
 */
int no_text_write(const NoText *plan, const ElfImage *image, NoTextSink sink, void *userdata);

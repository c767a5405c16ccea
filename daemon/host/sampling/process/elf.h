/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * ELF
 *
 * Build ids, loadable segments and the entry point of an ELF file, of 64 or 32 bits, that
 * another user wrote. Takes a descriptor (or bytes) and limits, touches no
 * globals, reads by pread() only: a file that its owner truncates gives a short
 * read, where a map of it would give SIGBUS.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
        ELF_MAX_SEGMENTS = 16,
        ELF_MAX_BUILD_ID = 64,
};

typedef struct ElfLimits {
        /* headers of each kind; a file with more program headers is unsupported */
        uint32_t max_headers;
        uint32_t max_notes;             /* note segments or sections that are looked at; more are left out */
        uint32_t max_note_bytes;        /* bytes of each; the rest is left out */
} ElfLimits;

extern const ElfLimits elf_default_limits;

typedef struct ElfInput {
        int fd;                         /* a regular file, or -1: the bytes are in data */
        const void *data;
        uint64_t size;
} ElfInput;

typedef struct ElfSegment {
        uint64_t address;               /* p_vaddr */
        uint64_t offset;                /* p_offset */
        uint64_t file_size, memory_size;        /* file_size ≤ memory_size; neither range wraps around */
        uint32_t flags;                 /* PF_X … */
} ElfSegment;

typedef struct ElfInfo {
        uint64_t entry;                 /* e_entry */
        uint32_t n_segments;
        ElfSegment segments[ELF_MAX_SEGMENTS];  /* the PT_LOADs, in the order of the file */
        bool has_tls;                   /* there is a PT_TLS */
        uint32_t gnu_size;
        uint8_t gnu[ELF_MAX_BUILD_ID];  /* GNU build id, raw */
        uint32_t go_size;
        char go[2 * ELF_MAX_BUILD_ID + 1];      /* Go build id: printable text, NUL-terminated */
} ElfInfo;

enum {
        _ELF_E_SUCCESS,
        ELF_E_UNSUPPORTED,              /* no ELF, other byte order, or over a limit */
        ELF_E_DAMAGED,                  /* an ELF header, but what it tells of is not there */
};

/* @limits: NULL = elf_default_limits. *infop is written on success only. Return: 0, ELF_E_*, -ENOMEM. */
int elf_read(const ElfInput *input, const ElfLimits *limits, ElfInfo *infop);

/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Go Program
 *
 * What an executable, or a library for programs in other languages (-buildmode=c-shared), says of the Go that
 * it was made with: the version, and where threads keep their goroutine.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { GO_MAX_VERSION = 32 };

typedef enum GoTls {
        GO_TLS_KNOWN,
        GO_TLS_IN_WORD,         /* a library: the dynamic linker writes the offset into a word of it */
        GO_TLS_NONE,            /* arm64: a register has it */
        GO_TLS_UNKNOWN,         /* stripped, with C's variables, and nothing that names the place */
} GoTls;

typedef struct GoProgram {
        char version[GO_MAX_VERSION];   /* as `go version` says: go1.26.8; printable, without blanks */
        uint32_t minor;                 /* 26; 0 = no version that can be compared */
        GoTls tls;
        bool is_library;
        int64_t tls_offset;             /* offset of the pointer to g, from the thread pointer */
        uint64_t tls_word;              /* ELF address of the word that has it, of GO_TLS_IN_WORD */
} GoProgram;

typedef struct GoInput {
        int fd;                         /* a regular file, or -1: the bytes are at data */
        const void *data;
        uint64_t size;
} GoInput;

/* Whether the file is of Go, and *is_libraryp: not an executable. Reads little. */
bool go_program_is(const GoInput *input, bool *is_libraryp);

/* Pure: whether a thread-local variable may lie at @offset from the thread pointer. */
bool go_tls_offset_is_sound(int64_t offset);

/* Return: whether it is one, and *program is set. Reads up to 16 MiB of code of a stripped program with C. */
bool go_program_read(const GoInput *input, GoProgram *program);

/* Pure: the minor version of `go1.26.8`, `go1.27rc1` or `devel go1.28-…`; 0 = another text. */
uint32_t go_version_minor(const char *version);

/*
 * Where the program has its list of goroutines: ELF addresses of runtime.allgptr and runtime.allglen. Return:
 * whether its symbol table says so; a stripped program has none.
 */
bool go_program_find_list(const GoInput *input, uint64_t *listp, uint64_t *lengthp);

/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Demangle
 *
 * Readable forms of the names that compilers of C++ (Itanium ABI) and Rust (legacy and v0) write into symbol
 * tables. A target chose the file with the names: a few bytes of them can stand for gigabytes, or for hours
 * of work. So length, depth, work and output are limited, and a name over a limit stays as it is in the file.
 */

#include <stdbool.h>
#include <stddef.h>

enum {
        DEMANGLE_MAX_INPUT = 4096,      /* bytes; C++ names also are refused over 1024, as c++filt does */
        DEMANGLE_MAX_OUTPUT = 16 << 10, /* bytes with the NUL */
};

typedef enum DemangleStyle {
        DEMANGLE_SHORT,                 /* without parameters and return type, as `perf report` prints them */
        DEMANGLE_FULL,                  /* with parameters, as `c++filt --no-verbose` */
        DEMANGLE_NONE,
} DemangleStyle;

/* Whether @name may be mangled at all: `_Z`, `_R`, `_GLOBAL_`. Other names have no readable form. */
static inline bool demangle_may(const char *name) {
        return name[0] == '_' && (name[1] == 'Z' || name[1] == 'R' || name[1] == 'G');
}

/*
 * Writes the readable form of @name, NUL-terminated, to @to, which has @room bytes. Return: its length; 0 =
 * there is none (no mangled name, damaged, or over a limit), and @to holds nothing of use.
 */
size_t demangle(const char *name, DemangleStyle style, char *to, size_t room);

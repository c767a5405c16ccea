/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Demangle
 *
 * Readable forms of the names that compilers of C++ (Itanium ABI), Rust (legacy and v0), D and OCaml write
 * into symbol tables, and of names that are Ada's, Nim's or Haskell's by a byte before them (language.h).
 * Names of others stay as they are in the file (docs/RUNTIMES.md says which). A target
 * chose the file with the names: a few bytes of them can stand for gigabytes, or for hours of work. So
 * length, depth, work and output are limited, and a name over a limit stays as it is in the file.
 */

#include <stdbool.h>
#include <stddef.h>

#include "core/symbol/function/language.h"

enum {
        DEMANGLE_MAX_INPUT = 4096,      /* bytes; C++ names also are refused over 1024, as c++filt does */
        DEMANGLE_MAX_OUTPUT = 16 << 10, /* bytes with the NUL */
};

typedef enum DemangleStyle {
        DEMANGLE_SHORT,                 /* without parameters and return type, as `perf report` prints them */
        DEMANGLE_FULL,                  /* with parameters, as `c++filt --no-verbose` */
        DEMANGLE_NONE,
} DemangleStyle;

/*
 * Whether @name may be mangled at all: `_Z`, `_R`, `_GLOBAL_`, `_D1`, `camlX`, or a byte for its language.
 * Others have no readable form.
 */
static inline bool demangle_may(const char *name) {
        if (name_language(name) != NAME_PLAIN)
                return true;
        if (name[0] == '_')
                return name[1] == 'Z' || name[1] == 'R' || name[1] == 'G' ||
                        (name[1] == 'D' && name[2] >= '1' && name[2] <= '9');
        return name[0] == 'c' && name[1] == 'a' && name[2] == 'm' && name[3] == 'l' && name[4] >= 'A' &&
                name[4] <= 'Z';
}

/*
 * Writes the readable form of @name, NUL-terminated, to @to, which has @room bytes. Return: its length; 0 =
 * there is none (no mangled name, damaged, or over a limit), and @to holds nothing of use.
 */
size_t demangle(const char *name, DemangleStyle style, char *to, size_t room);

/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Lines of a Go Program
 *
 * Source line and inlined calls at an address, from .gopclntab and the trees of inlined calls beside it. Each
 * Go program has them, stripped or not. The target wrote all of these bytes.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/base/elf/go-functions.h"

typedef struct GoLines {
        GoFunctions functions;
        ImageBytes trees;               /* from what funcdata counts from; empty = no inlined call is known */
} GoLines;

typedef struct GoLine {
        const char *name, *file;        /* in the table; not terminated */
        uint16_t n_name, n_file;        /* 0 = not known; a GO_MAX_NAME at most */
        uint32_t line, start_line;      /* 0 = not known */
} GoLine;

/* @max_bytes, @may_map: as for go_functions_init(). Return: 0, GO_FUNCTIONS_E_*, -ENOMEM. */
int go_lines_init(GoLines *lines, const ElfImage *image, uint64_t max_bytes, bool may_map);
void go_lines_deinit(GoLines *lines);

/*
 * Functions at @address (of a caller: its return address - 1), the innermost first. Return: how many of @max;
 * of more, those in the middle are left out; 0 = none of Go's.
 */
size_t go_lines_find(const GoLines *lines, uint64_t address, GoLine *frames, size_t max);

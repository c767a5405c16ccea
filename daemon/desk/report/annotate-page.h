/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* An annotated source as a page: one file without scripts, its hottest lines first in words. */

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

/* All borrowed. Rows of @self and @total are lines, from 1; row 0 is what lies behind the file's end. */
typedef struct SourceLines {
        const char *path, *source;
        const char *type, *value;       /* the measured type, and its sum */
        const uint64_t *self, *total;
        const bool *shown;
        uint64_t all;
        uint32_t n_lines;
} SourceLines;

/* Writes the page. The caller checks @out for errors. */
void annotate_page(const SourceLines *lines, FILE *out);

/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The dictionary of one request while it is imported: rows → indexes in the window. For import.c.
 *
 * Functions return 0, OTLP_IMPORT_E_* or -ENOMEM; the first failure has written Import.where.
 */

#include <stdbool.h>
#include <sys/types.h>

#include "base/util/macro.h"
#include "formats/otlp/import.h"

/* The frames of a location: one, or one for each inlined line. */
typedef struct ImportLocation {
        FrameWord *words;
        size_t n_words;
} ImportLocation;

typedef struct Import {
        Window *window;
        const OtlpDictionary *dictionary;
        char *where;
        size_t where_size;
        char path[160];                 /* import_path() */

        /* What is being imported, for messages; -1 = none. */
        struct {
                ssize_t resource, scope, profile, sample;
                const char *table;      /* NULL = no row of the dictionary */
                size_t row;
        } at;

        /* By row: index in the window, + 1; 0 = not converted yet. */
        uint32_t *strings, *mappings, *functions, *attributes, *stacks;
        uint32_t *locations_done;
        ImportLocation *locations;
        FrameWord *words;               /* scratch: the stack that is being converted */
} Import;

int import_init(Import *import, Window *window, const OtlpDictionary *dictionary, char *where,
                size_t where_size);
void import_deinit(Import *import);

/* Writes where and returns @r. */
_printf_(3, 4) int import_fail(Import *import, int r, const char *format, ...);

/* A window's return as ours. */
int import_full(Import *import, int r);

/* `resource_profiles[0].scope_profiles[0].profiles[1].samples[7]`, or a row of the dictionary. */
const char *import_path(Import *import);

int import_check_index(Import *import, const char *field, int32_t index, size_t n_rows);

int import_string(Import *import, const char *field, int32_t index, uint32_t *stringp);
int import_attribute(Import *import, int32_t index, uint32_t *attributep);
int import_key_value(Import *import, const OtlpKeyValue *pair, uint32_t *attributep);
int import_stack(Import *import, int32_t index, uint32_t *stackp);

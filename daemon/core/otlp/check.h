/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Check
 *
 * One request while it is validated: what was found, which rows of the dictionary were used, and what was
 * seen before. The rules themselves are in validate.c.
 *
 * Where a check is, is a chain of places on the C stack, from the element at hand up to the request. It
 * becomes text only for a finding:
 *
 *     { up, "samples", 17 } → { up, "profiles", 2 } → … → NULL
 */

#include <sys/types.h>

#include "core/base/data/intern.h"
#include "core/base/util/macro.h"
#include "core/otlp/finding.h"
#include "core/otlp/messages.h"

typedef struct Place {
        const struct Place *up;
        const char *name;
        ssize_t index;                  /* -1 = no list */
} Place;

typedef enum CheckTable {
        CHECK_MAPPINGS,
        CHECK_LOCATIONS,
        CHECK_FUNCTIONS,
        CHECK_LINKS,
        CHECK_STRINGS,
        CHECK_ATTRIBUTES,
        CHECK_STACKS,
        CHECK_N_TABLES,
} CheckTable;

typedef struct CheckRows {
        const char *name;
        void **rows;                    /* messages, or strings */
        size_t n;
        bool *used;
} CheckRows;

typedef struct Check {
        const OtlpDictionary *dictionary;
        CheckRows tables[CHECK_N_TABLES];
        Intern profile_ids, resources, types, identities, rows;
        uint8_t *bytes;                 /* scratch: one packed message, or one key */
        size_t bytes_size;
        ValidateFor backend;
        ValidateSink sink;
        void *userdata;
        ValidateCounts counts;
        bool failed;                    /* no memory: the findings are not all */
} Check;

/* @field: below @place; NULL = the place itself. */
_printf_(5, 6) void check_error(Check *check, const Place *place, const char *field, ValidateRule rule,
                                const char *format, ...);
_printf_(5, 6) void check_warning(Check *check, const Place *place, const char *field, ValidateRule rule,
                                  const char *format, ...);

/* Marks a row as used. Return: the row, or NULL after a finding. */
void *check_use(Check *check, const Place *place, const char *field, CheckTable table, int32_t index);

/* The string of an index; "" if there is none. */
const char *check_string(Check *check, const Place *place, const char *field, int32_t index);
void check_utf8(Check *check, const Place *place, const char *field, const char *text);

/*
 * Adds @size bytes to a set. Return: the index of equal ones that were added before, else -1.
 */
ssize_t check_seen(Check *check, Intern *set, const void *data, size_t size);

/*
 * Empties a set, and gives its memory back: clearing what a huge one needed, again and again, would take for
 * ever.
 */
void check_forget(Intern *set);

/* For qsort(): indexes in order. */
int check_by_index(const void *a, const void *b);

/* Packs into check->bytes. Return: the size. */
size_t check_pack(Check *check, const void *message);
uint8_t *check_reserve(Check *check, size_t size);

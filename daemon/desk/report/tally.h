/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Tally
 *
 * Two sums for each distinct key. Keys are structs without padding, or arrays, that begin with the
 * number of the section they belong to.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/base/data/intern.h"

typedef struct TallySums {
        uint64_t self, total;
} TallySums;

typedef struct Tally {
        Intern keys;
        TallySums *sums;                /* by index of the key */
        uint32_t room;
} Tally;

typedef struct TallyRow {
        const uint32_t *key;            /* in the tally */
        uint64_t self, total;
} TallyRow;

/* More than @max_rows keys are refused. */
void tally_init(Tally *tally, uint32_t max_rows);
void tally_deinit(Tally *tally);

/* Adds to the sums of a key, which saturate. Return: 0, INTERN_E_FULL, -ENOMEM. */
int tally_add(Tally *tally, const void *key, size_t size, uint64_t self, uint64_t total);

/*
 * The rows whose key begins with @prefix, the largest first: by self, then by total (or the other way
 * round, @by_total), and equal ones in the order of @compare (which gets two keys and @userdata). Return: 0
 * with *rowsp owned by the caller, -ENOMEM.
 */
int tally_sort(const Tally *tally, const uint32_t *prefix, size_t n_prefix, bool by_total,
               int (*compare)(const uint32_t *a, const uint32_t *b, const void *userdata),
               const void *userdata, TallyRow **rowsp, size_t *n_rowsp);

static inline uint64_t add_saturated(uint64_t a, uint64_t b) {
        return a + b < a ? UINT64_MAX : a + b;
}

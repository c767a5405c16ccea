/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Interns the key and adds to the two sums of its row; rows are sorted by section and sum.
 */

#include "desk/report/tally.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/util/array.h"
#include "core/base/util/error.h"
#include "core/base/util/macro.h"

void tally_init(Tally *tally, uint32_t max_rows) {
        *tally = (Tally){ 0 };
        intern_init(&tally->keys, max_rows);
}

void tally_deinit(Tally *tally) {
        intern_deinit(&tally->keys);
        free(tally->sums);
        *tally = (Tally){ 0 };
}

int tally_add(Tally *tally, const void *key, size_t size, uint64_t self, uint64_t total) {
        uint32_t index;
        int r = array_reserve(&tally->sums, &tally->room, tally->keys.n_items + 1u, 64);

        if (r)
                return error_fold(r);
        r = intern_add(&tally->keys, key, size, &index);
        if (r < 0 || r == INTERN_E_FULL)
                return r;
        if (r == 0)
                tally->sums[index] = (TallySums){ 0 };
        tally->sums[index].self = add_saturated(tally->sums[index].self, self);
        tally->sums[index].total = add_saturated(tally->sums[index].total, total);
        return 0;
}

typedef struct Order {
        int (*compare)(const uint32_t *a, const uint32_t *b, const void *userdata);
        const void *userdata;
        bool by_total;
} Order;

static int compare_rows(const void *left, const void *right, void *data) {
        const TallyRow *a = left, *b = right;
        const Order *order = data;

        if (order->by_total && a->total != b->total)
                return a->total > b->total ? -1 : 1;
        if (a->self != b->self)
                return a->self > b->self ? -1 : 1;
        if (a->total != b->total)
                return a->total > b->total ? -1 : 1;
        return order->compare(a->key, b->key, order->userdata);
}

int tally_sort(const Tally *tally, const uint32_t *prefix, size_t n_prefix, bool by_total,
               int (*compare)(const uint32_t *a, const uint32_t *b, const void *userdata),
               const void *userdata, TallyRow **rowsp, size_t *n_rowsp) {
        Order order = { compare, userdata, by_total };
        TallyRow *rows = calloc(tally->keys.n_items + 1u, sizeof(*rows));
        size_t n = 0;

        if (!rows)
                return error_origin(-ENOMEM);
        for (uint32_t i = 0; i < tally->keys.n_items; i++) {
                const InternItem *item = intern_get(&tally->keys, i);

                if (item->size >= n_prefix * sizeof(*prefix) &&
                    !memcmp(item->data, prefix, n_prefix * sizeof(*prefix)))
                        rows[n++] = (TallyRow){ item->data, tally->sums[i].self, tally->sums[i].total };
        }
        qsort_r(rows, n, sizeof(*rows), compare_rows, &order);
        *rowsp = rows;
        *n_rowsp = n;
        return 0;
}

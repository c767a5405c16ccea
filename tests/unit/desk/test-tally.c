/* SPDX-License-Identifier: Apache-2.0 */
#include <criterion/criterion.h>

#include "core/base/util/macro.h"
#include "desk/report/tally.h"

typedef struct Key {
        uint32_t section, what;
} Key;

static int by_what(const uint32_t *a, const uint32_t *b, const void *userdata) {
        return a[1] < b[1] ? -1 : a[1] > b[1];
}

static void add(Tally *tally, uint32_t section, uint32_t what, uint64_t self, uint64_t total) {
        cr_assert_eq(tally_add(tally, &(Key){ section, what }, sizeof(Key), self, total), 0);
}

Test(tally, sums_and_sorts_the_rows_of_a_section) {
        _cleanup_(tally_deinit) Tally tally;
        _cleanup_(freep) TallyRow *rows = NULL;
        uint32_t section = 1;
        size_t n;

        tally_init(&tally, 10000);
        add(&tally, 1, 7, 5, 5);
        add(&tally, 1, 3, 0, 9);
        add(&tally, 1, 2, 0, 9);
        add(&tally, 2, 9, 100, 100);
        add(&tally, 1, 4, 5, 6);
        add(&tally, 1, 7, 1, 1);
        cr_assert_eq(tally_sort(&tally, &section, 1, false, by_what, NULL, &rows, &n), 0);
        cr_assert_eq(n, 4);
        cr_assert_eq(rows[0].key[1], 7);
        cr_assert_eq(rows[0].self, 6);
        cr_assert_eq(rows[1].key[1], 4);
        cr_assert_eq(rows[2].key[1], 2, "equal rows by their keys");
        cr_assert_eq(rows[3].key[1], 3);
        cr_assert_eq(rows[3].total, 9);
}

Test(tally, refuses_new_keys_at_its_cap_and_still_counts_the_old) {
        _cleanup_(tally_deinit) Tally tally;

        tally_init(&tally, 2);
        add(&tally, 1, 1, 1, 1);
        add(&tally, 1, 2, 1, 1);
        cr_assert_eq(tally_add(&tally, &(Key){ 1, 3 }, sizeof(Key), 1, 1), INTERN_E_FULL);
        add(&tally, 1, 1, UINT64_MAX, 1);
        cr_assert_eq(tally.sums[0].self, UINT64_MAX, "sums saturate");
        cr_assert_eq(tally.sums[0].total, 2);
}

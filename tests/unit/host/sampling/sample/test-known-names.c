/* SPDX-License-Identifier: Apache-2.0 */
#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>

#include "host/sampling/sample/known-names.h"

static KnownNames known;
static KnownNamesChange change;

Test(known_names, are_new_once) {
        cr_assert(known_names_add(&known, "postgres", &change));
        cr_assert_str_eq(change.added, "postgres");
        cr_assert_str_eq(change.removed, "");
        cr_assert_not(known_names_add(&known, "postgres", &change));
        cr_assert_not(known_names_add(&known, "", &change), "which no program is chosen by");
}

Test(known_names, are_compared_as_the_kernel_does) {
        const char twice[ABI_COMM_SIZE] = "cc\0longer-name";

        cr_assert(known_names_add(&known, twice, &change));
        cr_assert_eq(memcmp(change.added, "cc\0\0\0\0\0\0\0\0\0\0\0\0\0\0", ABI_COMM_SIZE), 0);
        cr_assert_not(known_names_add(&known, "cc", &change));
        cr_assert(known_names_add(&known, "a-name-of-more-than-fifteen", &change));
        cr_assert_eq(change.added[ABI_COMM_SIZE - 1], 0);
        cr_assert_not(known_names_add(&known, "a-name-of-more-", &change));
}

Test(known_names, over_the_cap_take_the_place_of_the_oldest) {
        char name[ABI_COMM_SIZE];

        for (unsigned i = 0; i < ABI_MAX_KNOWN_NAMES; i++) {
                snprintf(name, sizeof(name), "name-%u", i);
                cr_assert(known_names_add(&known, name, &change));
                cr_assert_str_eq(change.removed, "");
        }
        cr_assert(known_names_add(&known, "one-more", &change));
        cr_assert_str_eq(change.removed, "name-0");
        cr_assert_not(known_names_add(&known, "name-1", &change));
        cr_assert(known_names_add(&known, "name-0", &change), "it was forgotten");
        cr_assert_str_eq(change.removed, "name-1");
}

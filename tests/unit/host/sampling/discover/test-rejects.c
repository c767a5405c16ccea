/* SPDX-License-Identifier: Apache-2.0 */
#include <criterion/criterion.h>

#include "host/sampling/discover/rejects.h"

Test(rejects, expire_in_order_and_can_be_taken_out_anywhere) {
        Rejects rejects;

        rejects_init(&rejects, 3);
        cr_assert_eq(rejects_expired(&rejects, 1000), 0);
        cr_assert_eq(rejects_add(&rejects, 11, 10), 0);
        cr_assert_eq(rejects_add(&rejects, 12, 20), 0);
        cr_assert_eq(rejects_add(&rejects, 12, 20), REJECTS_E_KNOWN);
        cr_assert_eq(rejects_add(&rejects, 13, 30), 0);
        cr_assert_eq(rejects_add(&rejects, 14, 30), REJECTS_E_FULL);
        cr_assert(rejects_contains(&rejects, 12) && !rejects_contains(&rejects, 14));

        cr_assert_eq(rejects_expired(&rejects, 9), 0);
        cr_assert_eq(rejects_expired(&rejects, 10), 11);
        cr_assert(rejects_remove(&rejects, 12));
        cr_assert(!rejects_remove(&rejects, 12));
        cr_assert(rejects_remove(&rejects, 11));
        cr_assert_eq(rejects_expired(&rejects, 29), 0);
        cr_assert_eq(rejects_expired(&rejects, 30), 13);
        cr_assert_eq(rejects_add(&rejects, 14, 40), 0);
        cr_assert(rejects_remove(&rejects, 13));
        cr_assert_eq(rejects_expired(&rejects, 100), 14);
        rejects_deinit(&rejects);
        cr_assert_eq(rejects_expired(&rejects, 100), 0);
}
